"""Right answers whatever happens around a compilation: other processes, threads, kills, interrupts,
damaged entries, a full disk.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer import cache
from explorer import np as enp
from explorer.cache import entry
from explorer.process.counters import counters
from tests.examples import examples

needs_timers = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
SCRIPT = "from tests.test_processes import check; check({0})"


def compiled(n: int) -> explorer.Compilation:
    """A product, a fold and maps, which no other number has."""
    weights = np.random.default_rng(n).standard_normal((24, 16 + n % 7)).astype(np.float32)

    @explorer.trace
    def model(x):  # type: ignore[no-untyped-def]
        y = enp.tanh(x @ weights + float(n))
        return y / enp.sum(enp.exp(y), axis=1, keepdims=True), enp.max(x, axis=0)

    return explorer.compile(model(x=explorer.tensor("float32", "batch", 24)))


def answer_is_right(c: explorer.Compilation, n: int, batch: int = 5) -> bool:
    x = np.random.default_rng(batch).standard_normal((batch, 24)).astype(np.float32)
    weights = np.random.default_rng(n).standard_normal((24, 16 + n % 7)).astype(np.float32)
    product = np.einsum("bi,io->bo", x, weights)  # NumPy's BLAS has locks that a fork leaves held
    y = np.tanh(product + np.float32(n))
    wanted = (y / np.exp(y).sum(1, keepdims=True), x.max(0))
    found = c.run({"x": x}).values()
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, wanted, strict=True))


def check(n: int) -> None:
    assert answer_is_right(compiled(n), n)


def process(n: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-W", "error", "-c", SCRIPT.format(n)])


def interrupted_after(seconds: float, work: Callable[[], object]) -> None:
    """Work, and Ctrl-C at a moment; where that comes too late, nothing."""
    armed = True

    def interrupt(number: int, frame: object) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, seconds))  # once
            work()
        finally:
            armed = False
    except KeyboardInterrupt:
        pass
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_processes_at_once_on_an_empty_cache_all_answer_right(own_cache: Path, count: int) -> None:
    team = [process(1) for _ in range(count)]
    assert [p.wait(timeout=300) for p in team] == [0] * count
    with counters.delta() as did:
        check(1)
    assert did.kernel_compiles == 0 and cache.disk().verify().removed == 0


@pytest.mark.slow
def test_a_process_killed_while_it_compiles_leaves_no_harm(own_cache: Path) -> None:
    moments = random.Random(7)
    begin = time.monotonic()
    assert process(2).wait(timeout=300) == 0
    whole = time.monotonic() - begin
    for n in range(examples(3, few=1)):
        victim = process(3)
        time.sleep(whole * moments.uniform(0.3, 1.0))
        victim.send_signal(signal.SIGKILL)
        victim.wait(timeout=60)
        assert cache.disk().verify().removed == 0, n
    check(3)


def test_hundreds_of_damaged_entries_are_made_again(own_cache: Path) -> None:
    damage, count = random.Random(11), examples(400, few=60)
    check(4)
    for n in range(count):
        cache.disk().put(cache.content_key("filler", str(n)), bytes(damage.randbytes(100)))
    entries = sorted(own_cache.glob("*.entry"))
    assert len(entries) > count
    for path in entries:
        data = bytearray(path.read_bytes())
        match damage.randrange(4):
            case 0:
                data[damage.randrange(len(data))] ^= 1 << damage.randrange(8)
            case 1:
                del data[damage.randrange(len(data)) :]
            case 2:
                data += b"more"
            case _:
                data = bytearray(damage.randbytes(len(data)))
        path.write_bytes(data)
    assert process(4).wait(timeout=300) == 0  # a process that remembers nothing
    cache.disk().verify()
    assert cache.disk().verify().removed == 0


def test_eight_threads_run_one_compilation() -> None:
    c = compiled(5)

    def runs(seed: int) -> bool:
        return all(answer_is_right(c, 5, 1 + (seed * 7 + n) % 13) for n in range(40))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(runs, range(8)))


def test_several_compilations_at_once(own_cache: Path) -> None:
    def one(n: int) -> bool:
        return answer_is_right(compiled(n), n)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, [6, 6, 7, 8, 6, 9]))


def test_a_spawned_process_compiles_and_runs() -> None:
    check(10)
    child = multiprocessing.get_context("spawn").Process(target=check, args=(10,))
    child.start()
    child.join(300)
    assert child.exitcode == 0


@pytest.mark.exhaustive
@needs_fork
@pytest.mark.slow
def test_a_process_forked_while_others_run_and_compile_does_both() -> None:
    script = """
import faulthandler, os, signal, sys, threading
from tests.test_processes import answer_is_right, check, compiled
faulthandler.register(signal.SIGALRM, chain=True)  # says where it stands, and ends
signal.alarm(100)
c = compiled(11)
stop = threading.Event()
def runs():
    while not stop.is_set(): assert answer_is_right(c, 11)
def compiles():
    n = 1000
    while not stop.is_set(): check(n); n += 1
threads = [threading.Thread(target=t) for t in (runs, runs, compiles)]
for t in threads: t.start()
for n in range(3):
    child = os.fork()
    if not child:
        signal.alarm(60)
        ok = answer_is_right(c, 11)
        check(2000 + n)
        os._exit(0 if ok else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]): stop.set(); sys.exit(1)
stop.set()
for t in threads: t.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


@needs_fork
def test_a_fork_waits_for_a_thread_that_is_inside_of_numba() -> None:
    script = """
import os, signal, sys, threading, time
from numba.core.compiler_lock import global_compiler_lock
import explorer.codegen.cpu.object_code
held = threading.Event()
def compiles():
    with global_compiler_lock: held.set(); time.sleep(0.5)
threading.Thread(target=compiles).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(10)
    with global_compiler_lock: os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


@needs_fork
def test_a_fork_waits_for_a_thread_that_imports_a_part_of_the_compiler() -> None:
    script = """
import os, signal, sys, threading
from importlib import import_module
import explorer
NAME = "explorer.runtime.device_program.work_stealing"  # takes long: it loads Numba
assert NAME not in sys.modules
threading.Thread(target=import_module, args=(NAME,)).start()
while NAME not in sys.modules: pass
assert "numba.core.compiler" not in sys.modules
child = os.fork()
if not child:
    signal.alarm(20)
    import_module(NAME).entry
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


@needs_fork
def test_no_lock_of_another_thread_stays_locked_in_a_forked_child() -> None:
    """Every lock is held by a thread when the process forks, longer than a fork waits."""
    script = """
import os, sys, threading
from tests.test_processes import answer_is_right, check, compiled
from explorer.process import forking
forking.PATIENCE_SECONDS = 0.01
c = compiled(11)
answer_is_right(c, 11)
held, stop = threading.Event(), threading.Event()
def holds():
    every = [one for _, one in sorted(forking._every.items())]
    assert len(every) > 8
    for one in every: one.acquire()
    held.set(); stop.wait()
threading.Thread(target=holds, daemon=True).start()
held.wait()
child = os.fork()
if not child:
    ok = answer_is_right(c, 11)
    check(2000)
    os._exit(0 if ok else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


@needs_timers
def test_after_an_interrupt_at_any_moment_of_a_compilation_answers_are_right() -> None:
    moments = random.Random(13)
    check(12)
    begin = time.monotonic()
    check(13)
    whole = time.monotonic() - begin
    for n in range(20, 30):
        interrupted_after(whole * moments.random(), partial(check, n))
        check(n)


def many(once: Callable[[], bool]) -> None:
    for _ in range(20):
        once()


@needs_timers
def test_after_an_interrupt_at_any_moment_of_a_run_answers_are_right() -> None:
    moments = random.Random(17)
    c = compiled(14)
    for n in range(100):
        once = partial(answer_is_right, c, 14, 1 + n % 9)
        interrupted_after(moments.random() * 2e-3, partial(many, once))
        assert once()


def test_a_full_disk_costs_the_cache_and_one_warning(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(entry, "write", full)
    with warnings.catch_warnings(record=True) as said, counters.delta() as did:
        warnings.simplefilter("always")
        for n in (40, 41, 42):
            check(n)
    told = [str(w.message) for w in said if "not kept on disk" in str(w.message)]
    assert len(told) == 1 and "No space left" in told[0]
    assert did.cache_write_failures > 3 and cache.disk().stats().entries == 0
