"""A folder that a team reads: after one's own, of its owner alone, and never written."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

import explorer
from explorer import cache
from explorer.cache import content_key, entry
from explorer.cache.team import FOLDER, OWNER
from explorer.cli import main
from explorer.errors import BadOption, CacheError
from tests.fresh_process import bits, forgotten

MODEL = str(Path(__file__).parents[1] / "data" / "tiny_skip.onnx")
KEY = content_key("shared")
ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def team(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A team's folder that one entry was published to; one's own is empty after that."""
    folder = tmp_path / "team"
    cache.put(KEY, b"ours", "kernel")
    cache.put(content_key("fault"), b"what nobody else is to see")
    assert cache.publish(folder).added == 1
    cache.clear()
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.setenv(OWNER, ME)
    return folder


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


def test_it_is_read_after_ones_own_and_counters_tell_which(team: Path) -> None:
    before = state(team)
    with explorer.counters.delta() as did:
        assert cache.get(KEY) == b"ours" and cache.has(KEY)
        cache.put(KEY, b"mine", "kernel")
        assert cache.get(KEY) == b"mine"
        assert cache.get(content_key("nowhere")) is None
    assert (did.cache_hits_disk, did.cache_hits_team, did.cache_misses) == (1, 1, 2)
    assert state(team) == before


def test_a_whole_program_comes_from_it(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten()
    wanted = bits(explorer.compile(MODEL))
    assert main(["cache", "publish", str(tmp_path / "team")]) == 0
    cache.clear()
    monkeypatch.setenv(FOLDER, str(tmp_path / "team"))
    monkeypatch.setenv(OWNER, ME)
    before = state(tmp_path / "team")
    forgotten()
    with explorer.counters.delta() as did:
        assert bits(explorer.compile(MODEL)) == wanted
    assert (did.program_hits, did.pass_runs, did.kernel_compiles) == (1, 0, 0)
    assert did.cache_hits_team > 0 and did.cache_hits_disk == 0
    assert state(tmp_path / "team") == before


def test_an_entry_that_was_tampered_with_counts_as_not_there_and_stays(team: Path) -> None:
    path = team / entry.entry_name(KEY)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with explorer.counters.delta() as did:
            assert cache.get(KEY) is None
        assert (did.cache_damaged_team, did.cache_damaged) == (1, 0) and path.exists()
    path.write_bytes(whole)
    path.chmod(0o666)  # whoever can write it can make its checksum right
    assert cache.get(KEY) is None
    path.chmod(0o644)
    assert cache.get(KEY) == b"ours"
    path.rename(team / entry.entry_name(content_key("another")))
    assert cache.get(content_key("another")) is None
    path.symlink_to(team / entry.entry_name(content_key("another")))
    assert cache.get(KEY) is None and path.is_symlink()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_folder_that_others_can_write_is_refused(team: Path, mode: int) -> None:
    team.chmod(mode)
    for use in (lambda: cache.get(KEY), lambda: cache.has(KEY), lambda: cache.publish(team)):
        with pytest.raises(CacheError, match="can be written by others than its owner"):
            use()


def test_its_owner_is_stated_and_checked(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = next(user.pw_name for user in pwd.getpwall() if user.pw_uid != os.geteuid())
    for owner, said in (
        ("", "is named with nobody as its owner"),
        ("no such user", "whom this machine does not know"),
        (other, f"belongs to {ME} and not to {other}"),
    ):
        monkeypatch.setenv(OWNER, owner)
        with pytest.raises(CacheError, match=said):
            cache.get(KEY)
    monkeypatch.delenv(FOLDER)
    assert cache.get(KEY) is None  # nothing is read that is not named


def test_a_link_in_its_place_is_refused(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = team.with_name("link")
    link.symlink_to(team)
    monkeypatch.setenv(FOLDER, str(link))
    with pytest.raises(CacheError, match="is a link or a file"):
        cache.get(KEY)


def test_where_it_is_gone_work_goes_on_and_one_warning_says_so(
    team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(team / "gone"))
    with pytest.warns(RuntimeWarning, match="could not be read") as said:
        assert cache.get(KEY) is None and not cache.has(KEY)
    assert len(said) == 1


def test_the_shell_tells_kinds_and_tiers(team: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.put(KEY, b"12345", "program")
    assert main(["cache", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (kind,) = told["kinds"]
    assert kind == {"kind": "program", "entries": 1, "size_bytes": entry.HEADER.size + 5}
    assert (told["team"]["owner"], told["team"]["entries"]) == (ME, 1)
    assert told["team"]["kinds"][0]["kind"] == "kernel"
    assert main(["cache"]) == 0
    assert f"published by {ME}" in capsys.readouterr().out
    assert main(["cache", "publish"]) == 2
    assert "no folder was named" in capsys.readouterr().err


def test_the_bound_can_be_set_and_the_least_recent_of_all_kinds_leave(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRONWORKS_CACHE_LIMIT", "10KB")
    keys = [content_key(str(n)) for n in range(12)]
    for n, key in enumerate(keys):
        assert cache.put(key, bytes(1000), ("kernel", "program", "constant")[n % 3])
        os.utime(own_cache / entry.entry_name(key), (1_000_000 + n, 1_000_000 + n))
        assert cache.stats().size_bytes <= 10_000 == cache.stats().limit_bytes
    assert [cache.has(key) for key in keys[-5:]] == [True] * 5
    assert not cache.has(keys[0]) and len(cache.stats().kinds) == 3
    monkeypatch.setenv("IRONWORKS_CACHE_LIMIT", "plenty")
    with pytest.raises(BadOption, match="IRONWORKS_CACHE_LIMIT is a size"):
        cache.get(KEY)
