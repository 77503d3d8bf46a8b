"""What the runtime costs: a task, its time stamps, a barrier, a wake-up, a run; and a busy core.

    python -m tests.benchmarks overheads [--tries 200] [--seconds 3] [--no-busy]

A row is a median with its 99 % interval; `wanted` is the bound that the median should keep. The
second table runs models while another process spins: beside any core, or pinned to the first or to
the last; its ratios are to the same runs before, without it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns, sleep

import numpy as np

import explorer
from explorer.compiler.compilation import Compilation
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.types import Tensor
from explorer.measure.compare import Interval, median_interval
from explorer.process.allowance import cores
from explorer.runtime.workers import overheads
from explorer.runtime.workers.workers import teams

STEPS, WIDTH = 1000, 192
SPIN = (
    "import os, sys\nif sys.argv[1:]: os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
)
BEFORE_S = 0.3  # until a process that spins does


def chain(steps: int) -> Model:
    """A row through dependent small products, each with a tanh: as long as an LSTM's time."""
    kind = Tensor((1, WIDTH), "float32")
    weight = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)) / WIDTH**0.5
    constants = {"w": Constant(weight.astype(np.float32))}
    given = Var("w", constants["w"].type)
    x = value = Var("x", kind)
    body: list[Binding] = []
    for n in range(steps):
        for op, *more in (("MatMul", given), ("Tanh",)):
            out = Var(f"{op}_{n}", Tensor())
            body.append(Binding((out,), OpCall(op, (value, *more)), frozenset((out.name,))))
            value = out
    sources = tuple(SourceOp(b.var.name, b.var.name.split("_")[0]) for b in body)
    main = Function("main", (x,), tuple(body), (value,), ("y",))
    return Model("chain", "", Program((main,), constants, sources=sources))


def one_kernel(rows: int) -> Model:
    """A single elementwise kernel."""
    x, y = Var("x", Tensor((rows, 64), "float32")), Var("y", Tensor())
    body = (Binding((y,), OpCall("Tanh", (x,)), frozenset(("tanh",))),)
    main = Function("main", (x,), body, (y,), ("y",))
    return Model("one kernel", "", Program((main,), sources=(SourceOp("tanh", "Tanh"),)))


def interval(values: Sequence[float]) -> Interval | None:
    """A median, if anything was measured."""
    return median_interval(values) if values else None


def row(name: str, found: Interval | None, unit: str, wanted: str) -> str:
    """A line of the first table."""
    if found is None:
        return f"{name:<44} not measured: one core, or never its own"
    numbers = f"{found.median:>9.1f} ({found.low:.1f} to {found.high:.1f}) {unit}"
    return f"{name:<44} {numbers:<34} {wanted}"


def costs(tries: int) -> Iterator[str]:
    """The first table, a line at a time."""
    plain, traced = overheads.task_times(tries), overheads.task_times(tries, traced=True)
    stamps = [b - a for a, b in zip(sorted(plain), sorted(traced))]
    yield row("a task, untraced", interval(plain), "ns", "<= 60")
    yield row("time stamps of a task", interval(stamps), "ns", "<= 30")
    yield row("barrier of two threads", interval(overheads.barrier_times(tries)), "ns", "<= 500")
    yield row("launch from Python", interval(overheads.launch_times(tries)), "ns", "")
    woken = [ns / 1000 for ns in overheads.wake_times(tries)]
    yield row("wake-up of a worker that slept", interval(woken), "us", "")
    small = explorer.compile(one_kernel(1))
    given = small.random_inputs()
    out = small.run(given)
    times = {
        "c.run, one kernel": timed(lambda: small.run(given), tries),
        "c.run, one kernel, out given": timed(lambda: small.run(given, out=out), tries),
        "prepared run, one kernel": timed(small.runnable.prepared(given, out), tries),
    }
    for name, series in times.items():
        yield row(name, interval(series), "us", "<= 20" if name.startswith("c.run") else "")


def timed(work: Callable[[], object], tries: int) -> list[float]:
    """Microseconds of a call, after some that warm up."""
    for _ in range(tries):
        work()
    out = []
    for _ in range(10 * tries):
        begin = perf_counter_ns()
        work()
        out.append((perf_counter_ns() - begin) / 1000)
    return out


@contextmanager
def spinning(core: int | None) -> Iterator[None]:
    """Another process that holds a core: this one, or any."""
    words = [sys.executable, "-S", "-c", SPIN, *([] if core is None else [str(core)])]
    other = subprocess.Popen(words)
    try:
        sleep(BEFORE_S)
        yield
    finally:
        other.kill()
        other.wait()


def for_seconds(work: Callable[[], object], seconds: float) -> list[float]:
    """Microseconds of a call, again and again."""
    out: list[float] = []
    end = perf_counter() + seconds
    while perf_counter() < end or len(out) < 8:
        begin = perf_counter_ns()
        work()
        out.append((perf_counter_ns() - begin) / 1000)
    return out


def busy(seconds: float) -> Iterator[str]:
    """The second table: each model idle, then beside a process that spins."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    places = [None, *([usable[0], usable[-1]] if len(usable) > 1 else [])]
    names = "".join(f"{'any' if p is None else f'core {p}':>24}" for p in places)
    yield f"\n{'model':<20} {'idle us':>10}{names}   (wanted: <= 2.5)"
    squeezenet = load("zoo:squeezenet")
    for name, model in (
        ("one kernel, 128 KB", one_kernel(512)),
        (f"chain of {STEPS}", chain(STEPS)),
        ("squeezenet", squeezenet),
    ):
        c = explorer.compile(model)
        yield f"{name:<20} {' '.join(ratios(c, places, seconds))}"


def ratios(c: Compilation, places: Sequence[int | None], seconds: float) -> Iterator[str]:
    """The idle time, then how many times slower it is beside each spinning process."""
    given = c.random_inputs()
    out = c.run(given)
    work = c.runnable.prepared(given, out)
    for_seconds(work, seconds / 4)
    idle = median_interval(for_seconds(work, seconds)).median
    yield f"{idle:>10.1f}"
    for place in places:
        with spinning(place):
            found = median_interval([us / idle for us in for_seconds(work, seconds)])
        yield f"{found.median:>8.2f} ({found.low:.2f} to {found.high:.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """The tables that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of each row of the second table"
    )
    parser.add_argument("--no-busy", action="store_true", help="the first table only")
    given = parser.parse_args(arguments)
    teams()
    print(f"{cores()} cores")
    for line in costs(given.tries):
        print(line, flush=True)
    if not given.no_busy:
        for line in busy(given.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
