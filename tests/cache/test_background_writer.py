"""The background writer of the cache: programs above a size are written after the first run, and an
exit, a fork or a caller that needs the entry waits for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer import cache
from explorer import np as enp
from explorer.cache import background_writer
from explorer.measure.turns import take_turns
from tests.fresh_process import forgotten

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
LATE = "from explorer import cache; cache.background_writer.AFTER_S = 60; "


@pytest.fixture(autouse=True)
def work_begins_late(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long after any test, if nobody asks for it."""
    monkeypatch.setattr(background_writer, "AFTER_S", 60.0)
    forgotten()


def model(width: int) -> explorer.Model:
    """A product by a constant that passes make of another, of so many rows and columns."""
    weights = np.random.default_rng(width).standard_normal((width, width)).astype(np.float32)

    @explorer.trace
    def product(x):  # type: ignore[no-untyped-def]
        return x @ enp.tanh(enp.asarray(weights))

    return explorer.load(product(x=explorer.tensor("float32", 3, width)))


def programs() -> int:
    """How many are on disk by now, seen past those who would wait."""
    return sum(kind == "program" for _, kind, _ in cache.disk().each())


@pytest.mark.parametrize(("width", "at_once"), [(64, True), (512, False)])
def test_a_large_program_is_kept_when_somebody_looks(width: int, at_once: bool) -> None:
    given = model(width)
    first = explorer.compile(given)
    inputs = first.random_inputs()
    (wanted,) = first.run(inputs).values()
    assert programs() == at_once
    cache.finish()
    assert programs() == 1
    forgotten()
    with explorer.counters.delta() as did:
        (found,) = explorer.compile(given).run(inputs).values()
    assert did.program_hits == 1 and (found == wanted).all()


def test_it_is_kept_in_the_folder_of_its_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer.compile(model(512))
    first = cache.disk()
    monkeypatch.setenv("IRONWORKS_CACHE", str(tmp_path / "another"))
    cache.finish()
    assert not programs()
    assert "program" in {kind for _, kind, _ in first.each()}


def test_work_is_done_one_after_the_other_and_before_any_turn_in_time() -> None:
    done: list[str] = []
    cache.later(lambda: done.append("first"))
    assert not done
    cache.later(lambda: done.append("second"))
    assert done == ["first"]
    take_turns([lambda: done.append("timed")], 0.0, iter(range(0, 10**12, 10**7)).__next__)
    assert done[:3] == ["first", "second", "timed"]


def test_work_that_nobody_asks_for_begins_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_writer, "AFTER_S", 0.0)
    done = threading.Event()
    cache.later(done.set)
    assert done.wait(30.0)


def test_it_is_done_at_once_where_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    done: list[int] = []
    cache.later(lambda: done.append(1))
    assert done == [1]


def told(script: str) -> str:
    """What a process printed that ended by itself."""
    words = [sys.executable, "-c", LATE + script]
    return subprocess.run(words, check=True, timeout=50, capture_output=True, text=True).stdout


def test_the_exit_of_a_process_waits_for_it() -> None:
    assert told("cache.later(lambda: print('kept'))") == "kept\n"


@needs_fork
def test_a_fork_waits_for_it_and_the_child_has_nothing_left_to_do() -> None:
    script = """
import os
cache.later(lambda: print("kept", flush=True))
child = os.fork()
cache.finish()
if not child:
    cache.later(lambda: print("the child's", flush=True))
else:
    os.waitpid(child, 0)
"""
    assert told(script) == "kept\nthe child's\n"
