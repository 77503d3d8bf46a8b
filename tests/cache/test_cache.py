"""An entry is there whole or it is not there, whatever happened to its file."""

import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from explorer import cache
from explorer.cache import DiskStore, Memory, content_key
from explorer.cache import store as disk_store
from explorer.cache.entry import HEADER
from explorer.errors import CacheError
from explorer.process.counters import counters

KEY = content_key("a kernel")
PAYLOAD = b"object code" * 7


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "cache")


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskStore]:
    """For properties, which may not take a fixture made anew for each example."""
    yield DiskStore(tmp_path_factory.mktemp("properties") / "cache")


def entry_of(store: DiskStore, key: str = KEY) -> Path:
    return store.folder / f"{key}.entry"


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_a_key_tells_any_two_lists_of_parts_apart(left: list[bytes], right: list[bytes]) -> None:
    assert (content_key(*left) == content_key(*right)) == (left == right)


def test_text_and_bytes_of_the_same_spelling_have_different_keys() -> None:
    assert content_key("tile") != content_key(b"tile")


@pytest.mark.parametrize(
    "key", ["", "../../etc/passwd", "a" * 31, "a" * 129, "A" * 64, "g" * 64, "a" * 64 + "\n", "a/b"]
)
def test_only_hex_digests_are_keys(store: DiskStore, key: str) -> None:
    for use in (lambda: store.get(key), lambda: store.put(key, b"")):
        with pytest.raises(ValueError, match="hex digits"):
            use()
    assert not store.folder.exists()


def test_what_is_put_is_got_also_by_another_store_on_the_same_folder(store: DiskStore) -> None:
    with counters.delta() as did:
        assert store.get(KEY) is None
        assert store.put(KEY, PAYLOAD)
        assert DiskStore(store.folder).get(KEY) == PAYLOAD
    assert (did.cache_misses, did.cache_hits_disk, did.cache_damaged) == (1, 1, 0)


@given(st.binary(max_size=2000))
def test_any_bytes_survive_the_disk(shared_store: DiskStore, payload: bytes) -> None:
    key = content_key(payload)
    assert shared_store.put(key, payload)
    assert shared_store.get(key) == payload


def test_looking_makes_no_folder(store: DiskStore) -> None:
    assert store.get(KEY) is None
    assert store.stats().entries == store.clear() == store.verify().intact == 0
    assert not store.folder.exists()


def test_the_folder_and_its_files_are_for_their_user_alone(store: DiskStore) -> None:
    before = os.umask(0)
    try:
        store.put(KEY, PAYLOAD)
    finally:
        os.umask(before)
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert entry_of(store).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("payload", [b"", PAYLOAD])
def test_an_entry_cut_off_at_any_byte_is_a_miss_and_is_removed(
    store: DiskStore, payload: bytes
) -> None:
    store.put(KEY, payload)
    whole = entry_of(store).read_bytes()
    assert len(whole) == HEADER.size + len(payload)
    for length in range(len(whole)):
        entry_of(store).write_bytes(whole[:length])
        assert store.get(KEY) is None, f"cut at byte {length}"
        assert not entry_of(store).exists()


def test_an_entry_with_any_one_byte_changed_is_a_miss_and_is_removed(store: DiskStore) -> None:
    store.put(KEY, PAYLOAD)
    whole = entry_of(store).read_bytes()
    for at in range(len(whole)):
        entry_of(store).write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        assert store.get(KEY) is None, f"changed at byte {at}"
        assert not entry_of(store).exists()


def test_an_entry_with_bytes_after_its_end_is_a_miss(store: DiskStore) -> None:
    store.put(KEY, PAYLOAD)
    with entry_of(store).open("ab") as entry:
        entry.write(b"\0")
    assert store.get(KEY) is None


def test_an_entry_under_another_name_is_a_miss(store: DiskStore) -> None:
    store.put(KEY, PAYLOAD)
    other = content_key("another kernel")
    entry_of(store).rename(entry_of(store, other))
    assert store.get(other) is None


def test_a_link_or_a_pipe_in_an_entrys_place_is_a_miss(store: DiskStore, tmp_path: Path) -> None:
    store.put(KEY, PAYLOAD)
    moved = tmp_path / "moved"
    entry_of(store).rename(moved)
    entry_of(store).symlink_to(moved)
    assert store.get(KEY) is None
    assert moved.exists()
    os.mkfifo(entry_of(store))
    assert store.get(KEY) is None
    assert store.put(KEY, PAYLOAD) and store.get(KEY) == PAYLOAD


def test_a_folder_in_an_entrys_place_is_a_miss_and_costs_no_more(store: DiskStore) -> None:
    store.put(KEY, PAYLOAD)
    entry_of(store).unlink()
    entry_of(store).mkdir()
    assert store.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="not kept on disk"):
        assert not store.put(KEY, PAYLOAD)


def test_verify_removes_the_damaged_entries_and_no_other(store: DiskStore) -> None:
    keys = [content_key(str(n)) for n in range(5)]
    for key in keys:
        store.put(key, PAYLOAD)
    entry_of(store, keys[2]).write_bytes(b"IRONWORK")
    (store.folder / "notes.txt").write_text("mine")
    assert store.verify() == cache.Verified(intact=4, removed=1)
    assert store.verify() == cache.Verified(intact=4, removed=0)
    assert (store.folder / "notes.txt").exists()


WRITER = """
import sys
from pathlib import Path
from explorer.cache import DiskStore, content_key
store = DiskStore(Path(sys.argv[1]), limit_bytes=int(sys.argv[2]))
print("ready", flush=True)
n = 0
while True:
    store.put(content_key(str(n % 7)), bytes([n % 7]) * 300_000, "program" if n % 2 else "kernel")
    n += 1
"""


def writer(store: DiskStore, limit_bytes: int = 1 << 30) -> subprocess.Popen[bytes]:
    """A process that writes entries, one after the other, and has begun."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store.folder), str(limit_bytes)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    child.stdout.close()
    return child


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.exhaustive)])
def test_a_writer_killed_at_any_moment_leaves_whole_entries_or_none(
    store: DiskStore, kills: int
) -> None:
    """Also where it evicts at the moment."""
    moments = random.Random(5)
    for n in range(kills):
        child = writer(store, limit_bytes=1_000_000 if n % 2 else 1 << 30)
        time.sleep(moments.uniform(0, 0.04))
        child.kill()
        child.wait()
        assert store.verify().removed == 0
        for value in range(7):
            assert store.get(content_key(str(value))) in (None, bytes([value]) * 300_000)
    assert store.put(KEY, PAYLOAD) and store.get(KEY) == PAYLOAD
    for left in store.folder.glob(".writing-*"):
        os.utime(left, (1_000_000, 1_000_000))
    store.clear()
    assert [path.name for path in store.folder.iterdir()] == [".lock"]


def test_what_is_read_while_another_process_evicts_is_whole_or_gone(store: DiskStore) -> None:
    child = writer(store, limit_bytes=1_000_000)  # of seven entries it keeps three
    found = {True: 0, False: 0}
    with counters.delta() as did:
        until = time.monotonic() + 20
        while min(found.values()) < 20 and time.monotonic() < until:
            for value in range(7):
                payload = store.get(content_key(str(value)))
                assert payload in (None, bytes([value]) * 300_000)
                found[payload is None] += 1
    child.kill()
    child.wait()
    assert min(found.values()) >= 20 and did.cache_damaged == 0


def test_writers_and_readers_at_once_see_whole_entries(store: DiskStore) -> None:
    def work(n: int) -> None:
        own = DiskStore(store.folder)
        for turn in range(30):
            key = content_key(str((n + turn) % 3))
            own.put(key, key.encode() * 1000)
            assert own.get(key) in (None, key.encode() * 1000)
            if turn % 10 == n:
                own.clear()

    with counters.delta() as did, ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert (did.cache_damaged, did.cache_write_failures) == (0, 0)


def test_clearing_leaves_what_is_not_ours(store: DiskStore) -> None:
    store.put(KEY, PAYLOAD)
    (store.folder / "this-cpu.json").write_text("{}")
    (store.folder / ".writing-now").write_text("")
    assert store.clear() == 1
    assert sorted(path.name for path in store.folder.iterdir()) == [
        ".lock",
        ".writing-now",
        "this-cpu.json",
    ]
    assert store.put(KEY, PAYLOAD) and store.get(KEY) == PAYLOAD


def test_clearing_says_so_when_another_process_holds_the_cache(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_store, "LOCK_SECONDS", 0.05)
    store.put(KEY, PAYLOAD)
    with (
        FileLock(store.folder / disk_store.LOCK_NAME),
        pytest.raises(CacheError, match="held by another process"),
    ):
        store.clear()
    assert store.get(KEY) == PAYLOAD


def test_the_entries_used_longest_ago_go_first(tmp_path: Path) -> None:
    size = HEADER.size + 1000
    store = DiskStore(tmp_path / "cache", limit_bytes=10 * size)
    keys = [content_key(str(n)) for n in range(11)]
    for age, key in enumerate(keys[:10]):
        store.put(key, bytes(1000))
        os.utime(entry_of(store, key), (1_000_000 + age, 1_000_000 + age))
    assert store.get(keys[0]) is not None  # used now, so it stays
    with counters.delta() as did:
        store.put(keys[10], bytes(1000))
    assert did.cache_evictions == 2
    kept = [n for n, key in enumerate(keys) if entry_of(store, key).exists()]
    assert kept == [0, 3, 4, 5, 6, 7, 8, 9, 10]
    assert store.stats().size_bytes == 9 * size


def test_a_payload_larger_than_the_bound_is_not_kept(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "cache", limit_bytes=100)
    assert not store.put(KEY, bytes(100))
    assert not store.folder.exists()


def test_eviction_removes_what_killed_writers_left_long_ago(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "cache", limit_bytes=2000)
    store.put(KEY, bytes(1000))
    old, new = store.folder / ".writing-old", store.folder / ".writing-new"
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (1_000_000, 1_000_000))
    store.put(content_key("next"), bytes(1000))
    assert not old.exists() and new.exists()


def test_a_folder_that_others_can_write_is_refused(store: DiskStore) -> None:
    store.put(KEY, PAYLOAD)
    for mode in (0o770, 0o707, 0o722):
        store.folder.chmod(mode)
        for use in (lambda: store.get(KEY), lambda: store.put(KEY, b""), store.stats, store.clear):
            with pytest.raises(CacheError, match="can be written by others") as refused:
                use()
            assert "chmod 700" in refused.value.try_
    store.folder.chmod(0o700)
    assert store.get(KEY) == PAYLOAD


def test_a_folder_of_another_user_is_refused(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(KEY, PAYLOAD)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CacheError, match="belongs to another user"):
        store.get(KEY)


def test_a_link_in_the_folders_place_is_refused(store: DiskStore, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    store.folder.symlink_to(target)
    for use in (lambda: store.get(KEY), lambda: store.put(KEY, PAYLOAD), store.verify):
        with pytest.raises(CacheError, match="is a link or a file"):
            use()
    assert not list(target.iterdir())


def test_a_file_in_the_folders_place_is_refused(store: DiskStore) -> None:
    store.folder.write_text("not a folder")
    with pytest.raises(CacheError, match="is a link or a file"):
        store.put(KEY, PAYLOAD)
    assert store.folder.read_text() == "not a folder"


def test_where_nothing_can_be_written_work_goes_on_and_one_warning_says_so() -> None:
    store = DiskStore(Path("/proc/ironworks/cache"))
    with counters.delta() as did, pytest.warns(RuntimeWarning, match="not kept on disk") as said:
        assert not store.put(KEY, PAYLOAD)
        assert not store.put(KEY, PAYLOAD)
    assert len(said) == 1
    assert did.cache_write_failures == 2
    assert store.get(KEY) is None
    assert store.stats().entries == 0


FULL = """
import resource, sys, warnings
from pathlib import Path
from explorer.cache import DiskStore, content_key
warnings.simplefilter("ignore")
store = DiskStore(Path(sys.argv[1]))
assert store.put(content_key("small"), bytes(1000))
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
assert not store.put(content_key("large"), bytes(100_000))
assert store.get(content_key("small")) == bytes(1000)
assert store.get(content_key("large")) is None
"""


def test_a_write_that_the_disk_breaks_off_leaves_nothing_behind(store: DiskStore) -> None:
    subprocess.run([sys.executable, "-c", FULL, str(store.folder)], check=True)
    assert list(store.folder.iterdir()) == [entry_of(store, content_key("small"))]


def test_a_folder_taken_away_is_made_again(store: DiskStore) -> None:
    store.put(KEY, PAYLOAD)
    entry_of(store).unlink()
    store.folder.rmdir()
    with warnings.catch_warnings(action="error"):
        assert store.put(KEY, PAYLOAD)
    assert store.get(KEY) == PAYLOAD


def test_the_users_store_is_where_the_environment_says(own_cache: Path) -> None:
    assert cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == PAYLOAD
    assert cache.stats().folder == str(own_cache)
    assert cache.verify().intact == cache.clear() == 1
    assert cache.disk() is cache.disk()


def test_the_users_store_is_in_the_users_cache_folder_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IRONWORKS_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = cache.disk().folder
    assert folder.is_relative_to(tmp_path) and folder.name == "ironworks"


def test_the_value_used_longest_ago_is_forgotten_first() -> None:
    memory: Memory[str] = Memory(limit_entries=2)
    memory.put("a", "A")
    memory.put("b", "B")
    assert memory.get("a") == "A"
    memory.put("c", "C")
    assert [memory.get(key) for key in "abc"] == ["A", None, "C"]


@given(st.lists(st.tuples(st.integers(0, 9), st.sets(st.integers(0, 6), max_size=3))))
def test_a_memory_never_holds_more_than_its_bounds(puts: list[tuple[int, set[int]]]) -> None:
    """Part `n` has 10 n bytes; what several values hold is counted once."""
    memory: Memory[set[int]] = Memory(4, 100, lambda parts: ((n, 10 * n) for n in parts))
    for key, parts in puts:
        memory.put(key, parts)
        kept = [memory.get(k) for k in range(10)]
        stats = memory.stats()
        assert stats.entries <= 4 and stats.size_bytes <= 100
        assert stats.size_bytes == 10 * sum(set[int]().union(*(k for k in kept if k)))
    memory.clear()
    assert memory.stats().entries == memory.stats().size_bytes == 0


def test_a_value_larger_than_the_memory_is_given_back_and_not_kept() -> None:
    memory: Memory[np.ndarray] = Memory(limit_bytes=100)
    assert memory.put("small", np.zeros(10)).size == 10
    assert memory.put("large", np.zeros(100)).size == 100
    assert memory.get("small") is not None and memory.get("large") is None


def test_the_first_value_of_a_key_is_kept() -> None:
    memory: Memory[list[int]] = Memory()
    with counters.delta() as did:
        assert memory.get("key") is None
        first = memory.put("key", [1])
        assert memory.get("key") is first
    assert did.cache_hits_memory == 1
    assert memory.put("key", [3]) is first
    assert (memory.stats().hits, memory.stats().misses) == (1, 1)


def test_a_namespace_names_one_memory() -> None:
    assert cache.memory("passes") is cache.memory("passes")
    assert cache.memory("passes") is not cache.memory("walls")
