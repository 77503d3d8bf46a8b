"""Loops of ten million trips and calls ten thousand deep: they end, take no more memory than short
ones, and Ctrl-C ends them at once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tracemalloc
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import tensor
from explorer.compiler.compilation import Compilation
from explorer.errors import BoundError
from explorer.grinder import Options as Grinder
from explorer.rammer import Options as Rammer

TEN_MILLION = 10_000_000
VECTOR, COUNT = tensor("float32", 8), tensor("int64")
ONES = np.ones(8, np.float32)
WITHIN = 1.0  # seconds
UNCOLLECTED = 64 << 10  # bytes of what waits for Python's collector
SIGNALLED_AFTER = 0.2  # seconds, in the middle of a run


@explorer.trace
def counted(x: VECTOR, k: COUNT) -> Any:
    for _ in range(k):
        x = x * 0.5 + 1.0
    return x


@explorer.trace
def ended_by_data(x: VECTOR, k: COUNT) -> Any:
    n = k * 0
    while n < k:
        n = n + 1
        x = x * 0.5 + 1.0
    return x


@explorer.trace
def of_the_run(x: tensor("float32", "n"), k: COUNT) -> Any:
    total = np.float32(0)
    for _ in range(k):
        total = total + x[x > 0].sum()  # how many there are a run says
    return total


@explorer.function(result=VECTOR)
def down(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else down(x * 0.5, k - 1) + 1.0


@explorer.trace
def chain(x: VECTOR, k: COUNT) -> Any:
    return down(x, k)


@explorer.function(result=VECTOR)
def leaves(x: VECTOR, k: COUNT) -> Any:
    return x if k <= 0 else leaves(x * 0.5, k - 1) + leaves(x + 1, k - 2)


@explorer.trace
def tree(x: VECTOR, k: COUNT) -> Any:
    return leaves(x, k)


def compiled(model: Any, schedule: str, threads: int = 1, depth: int = 0) -> Compilation:
    options = explorer.Options(
        grinder=Grinder(schedule, depth=depth), rammer=Rammer(threads=threads)
    )
    return explorer.compile(model, options=options)


def given(k: int) -> dict[str, Any]:
    return {"x": ONES, "k": np.array(k)}


@pytest.mark.few(1)
@pytest.mark.parametrize("schedule", ["device", "unrolled"])
@pytest.mark.parametrize("threads", [1, 2])
def test_ten_million_trips_end(schedule: str, threads: int) -> None:
    c = compiled(counted, schedule, threads)
    np.testing.assert_array_equal(c.run(given(TEN_MILLION))["output"], 2 * ONES)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "model, schedule",
    [
        (counted, "device"),
        (ended_by_data, "device"),
        (counted, "host"),
        (ended_by_data, "host"),
        (of_the_run, "auto"),
    ],
)
def test_trips_leave_nothing_in_memory(model: Any, schedule: str) -> None:
    c = compiled(model, schedule)

    def most(trips: int) -> int:
        """The bytes that a run takes at most."""
        tracemalloc.start()
        c.run(given(trips))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    most(10)
    few, many = most(100), most(2100)
    assert many < few + UNCOLLECTED  # an object a trip would be more


@pytest.mark.few(1)
@pytest.mark.parametrize("schedule", ["device", "host"])
def test_as_many_calls_may_be_open_as_was_asked_for_and_no_more(schedule: str) -> None:
    c = compiled(chain, schedule, depth=3001)
    found: list[Any] = []
    run = Thread(target=lambda: found.append(c.run(given(3000))["output"]))
    run.start()  # a thread has less room than the main one
    run.join()
    np.testing.assert_allclose(found, [3000 * ONES])
    with pytest.raises(BoundError, match="down is called more than 3001 calls deep") as told:
        c.run(given(3001))
    assert (told.value.where, told.value.expected) == ("down", "at most 3001")
    assert "depth" in told.value.try_


KINDS = [
    *((counted, "device", threads) for threads in (1, 2)),
    *((counted, "unrolled", threads) for threads in (1, 2)),
    (ended_by_data, "device", 2),
    (counted, "host", 1),
    (counted, "eager", 2),
    (of_the_run, "auto", 2),
    *((tree, "device", threads) for threads in (1, 2)),
    (tree, "host", 1),
]
ENDLESS = {counted: 10**15, ended_by_data: 10**15, of_the_run: 10**15, tree: 90}


def interrupted() -> None:
    """What the other process does: runs that only Ctrl-C ends, each after a word that it begins."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runs = [(compiled(m, s, threads, 200), given(ENDLESS[m])) for m, s, threads in KINDS]
    for c, endless in runs:
        before = c.run(given(4))["output"]
        print("begins", flush=True)
        try:
            c.run(endless)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        np.testing.assert_array_equal(c.run(given(4))["output"], before)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for one process here")
def test_ctrl_c_ends_any_of_them_within_a_second_and_the_next_run_is_right() -> None:
    code = "from tests.runtime.test_long_runs import interrupted; interrupted()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for kind in KINDS:
            assert process.stdout.readline() == "begins\n", kind
            sleep(SIGNALLED_AFTER)
            begin = perf_counter()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n", kind
            assert perf_counter() - begin < WITHIN, kind
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
