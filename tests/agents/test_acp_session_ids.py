"""Which session is whose, on disk."""

import json
import stat

from hermes_mobile.agents.acp.session_ids import MAX_IDS, SessionIds


async def test_ids_are_kept(tmp_path):
    """Issue 7: in a file that only its owner reads, in a directory that is made when it is missing."""
    directory = tmp_path / "state"
    await SessionIds(directory).remember("phone", "s1")
    file = directory / "acp-sessions.json"
    assert json.loads(file.read_text()) == {"phone": "s1"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(directory.iterdir()) == [file]
    ids = SessionIds(directory)
    assert (ids.get("phone"), ids.get("tablet")) == ("s1", None)


async def test_ids_are_kept_in_memory_without_a_directory(tmp_path):
    """Issue 7: for this run."""
    ids = SessionIds(None)
    await ids.remember("phone", "s1")
    assert ids.get("phone") == "s1"


async def test_a_broken_file_is_no_obstacle(tmp_path, logs):
    """Issue 7: sessions begin anew, and the log says so."""
    file = tmp_path / "acp-sessions.json"
    for content in ("{", "[]", '{"phone": 7}'):
        file.write_text(content)
        assert SessionIds(tmp_path).get("phone") is None
    assert [entry["event"] for entry in logs] == ["agent's sessions cannot be read"]


async def test_a_disk_that_takes_nothing(tmp_path, logs):
    """Issue 7: the id is remembered for this run, and the log says so."""
    (tmp_path / "file").write_text("")
    ids = SessionIds(tmp_path / "file" / "below")
    await ids.remember("phone", "s1")
    assert ids.get("phone") == "s1"
    assert "agent's sessions cannot be kept" in [entry["event"] for entry in logs]


async def test_ids_are_bounded():
    """Issue 7: the one that is longest unchanged is forgotten first."""
    ids = SessionIds(None)
    for n in range(MAX_IDS):
        await ids.remember(f"d{n}", "s")
    await ids.remember("d0", "t")
    await ids.remember("one more", "s")
    assert (ids.get("d0"), ids.get("d1"), ids.get("d2")) == ("t", None, "s")
