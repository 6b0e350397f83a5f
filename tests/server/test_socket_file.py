"""A Unix socket as a file: who may connect, what is replaced, what is removed."""

from __future__ import annotations

import grp
import os
import socket
import stat

import pytest

from hermes_mobile.server import socket_file
from hermes_mobile.server.socket_file import SocketFileError, open_socket_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deliver.sock"


def connect(path):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(str(path))
    return peer


def leave_stale(path):
    """A socket file as a server that was killed leaves it."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_it_has_its_mode(path, mode):
    """Whatever the umask; and it is gone afterwards."""
    before = os.umask(0o077)
    try:
        with open_socket_file(path, mode), connect(path):
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert not path.exists()


def test_nobody_connects_before_its_mode_is_set(path, monkeypatch):
    """From the moment that the file is there until then it is its owner's, and nobody listens."""
    seen = []

    def chmod(self, mode):
        seen.append(stat.S_IMODE(self.stat().st_mode))
        with socket.socket(socket.AF_UNIX) as peer, pytest.raises(ConnectionRefusedError):
            peer.connect(str(self))

    monkeypatch.setattr(type(path), "chmod", chmod)
    before = os.umask(0)
    try:
        with open_socket_file(path, 0o666):
            assert seen == [0o600]
    finally:
        os.umask(before)


def test_its_group(path):
    """The named one; one that does not exist is an error before anything is made."""
    group = grp.getgrgid(os.getgid())
    with open_socket_file(path, 0o660, group.gr_name):
        assert path.stat().st_gid == group.gr_gid
    with (
        pytest.raises(SocketFileError, match="there is no group nobodys"),
        open_socket_file(path, 0o660, "nobodys"),
    ):
        pass
    assert not path.exists()


def test_a_stale_one_is_replaced(path):
    """What a killed server left behind does not keep the next one from starting."""
    leave_stale(path)
    with open_socket_file(path, 0o600), connect(path):
        pass


@pytest.mark.parametrize("backlog", [5, 0])
def test_a_live_one_is_not(path, backlog, monkeypatch):
    """Somebody listens there, even if nobody accepts right now: an error, and it goes on."""
    monkeypatch.setattr(socket_file, "BACKLOG", backlog)
    with open_socket_file(path, 0o600):
        waiting = [connect(path)]
        with (
            pytest.raises(SocketFileError, match="is taken: a server listens there"),
            open_socket_file(path, 0o600),
        ):
            pass
        waiting[0].close()
        assert path.exists()


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_stays(path, kind):
    """It may be somebody's work: an error that names it."""
    match kind:
        case "file":
            path.touch()
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(path.with_name("elsewhere"))
    with (
        pytest.raises(SocketFileError, match=r"deliver\.sock is there already, and no socket"),
        open_socket_file(path, 0o600),
    ):
        pass
    assert path.lstat()


def test_what_is_not_ours_is_not_removed(path):
    """Another server has its own there by now: it stays."""
    with open_socket_file(path, 0o600) as ours:
        ours.close()
        path.unlink()
        leave_stale(path)
    assert path.exists()


def test_one_that_somebody_removed(path):
    """That is no error."""
    with open_socket_file(path, 0o600):
        path.unlink()


def test_a_directory_that_is_not_there(path):
    """One line that names the path."""
    with (
        pytest.raises(SocketFileError, match=r"cannot listen at .*/x/y: No such file or directory"),
        open_socket_file(path.parent / "x" / "y", 0o600),
    ):
        pass
