"""A file is written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hermes_mobile.ops.whole_file import replace_file, sync_directory


def test_a_file_is_replaced(tmp_path):
    """What is there now is what was written last, for the owner alone, and nothing stands beside it."""
    path = tmp_path / "file"
    for content in (b"first, and longer", b"second"):
        replace_file(path, content)
        sync_directory(tmp_path)
        assert path.read_bytes() == content
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_step_that_fails(tmp_path, monkeypatch, step):
    """The file is as it was, and nothing half written stays beside it."""
    path = tmp_path / "file"
    replace_file(path, b"before")

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path if step == "replace" else os, step, fail)
        with pytest.raises(OSError, match="No space left"):
            replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_crash_left_is_replaced(tmp_path):
    """Half a file under the name of the next one is in nobody's way, nor is a link there followed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (tmp_path / ".half-file").symlink_to(elsewhere)
    replace_file(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"
    assert elsewhere.read_text() == "untouched"
