"""The time of a loop's trip where Python decides it, and where the program does, in turns.

    python -m tests.benchmarks control_schedules [--seconds 1] [--programs 16]

The first table is a loop whose body does nothing; the second one of growing bodies, a product of
two squares and a tanh, and where the ways meet; the third loops and branches that a computed scalar
decides; the fourth random loops; the fifth recursions; the last two loops that need nothing of each
other, on units apart and one after the other. Times are of one trip, or of one call, or there of a
run, ratios are of times taken in turns, with their 99 % intervals; `predicted` is what the choice
was made by. `eager` launches each operator by itself and welds nothing, as frameworks do without a
compiler; `device` keeps the loop in the program and unrolls nothing, as JAX does.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.grinder import Options as Grinder
from explorer.ir.decisions.control import ControlSchedule
from explorer.measure.compare import Comparison, compare, measure
from explorer.rammer import Options as Rammer

Inputs = dict[str, np.ndarray]
SCHEDULES = ("eager", "device", "auto")  # as without a compiler; as JAX's; as chosen
Raced = dict[str, Comparison]
WAYS = (("host", ControlSchedule("host")), ("device", ControlSchedule("device")))
WIDTHS = (4, 16, 32, 64, 128, 192, 256)
DECIDED_WIDTHS = (64, 8192)
TOGETHER = 1.05  # ways that are no farther apart than this
EMPTY_TRIPS, LONGEST_US, CALLS, STEPS = 10_000, 20_000.0, 511, 64


def empty() -> bytes:
    """A loop whose length is an input, and whose body hands on what it is given."""

    def value(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    nodes = [helper.make_node("Identity", [a], [b]) for a, b in (("go", "more"), ("s", "t"))]
    scalars = [value("i", kind=TensorProto.INT64), value("go", kind=TensorProto.BOOL)]
    made = [value("more", kind=TensorProto.BOOL), value("t", 1)]
    body = helper.make_graph(nodes, "body", [*scalars, value("s", 1)], made)
    loop = helper.make_node("Loop", ["k", "", "x"], ["y"], body=body)
    inputs = [value("k", kind=TensorProto.INT64), value("x", 1)]
    graph = helper.make_graph([loop], "empty", inputs, [value("y", 1)])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def squares(width: int) -> Any:
    """A loop over a product of squares of this width."""

    @explorer.trace
    def run(a: Any, b: Any, k: Any) -> Any:
        for _ in range(k):
            a = xp.tanh(a @ b)
        return a

    square = explorer.tensor("float32", width, width)
    return run(a=square, b=square, k=explorer.tensor("int64"))


def ended(width: int) -> Any:
    """A loop that a scalar ends which its trips compute."""

    @explorer.trace
    def run(x: Any, k: Any) -> Any:
        left = k
        while left > 0:
            left = left - 1
            x = x * 0.5 + 1.0
        return x

    return run(x=explorer.tensor("float32", width), k=explorer.tensor("int64"))


def sided(width: int) -> Any:
    """A loop over a branch that a computed scalar decides."""

    @explorer.trace
    def run(x: Any, k: Any) -> Any:
        for i in range(k):
            if i % 2 == 0:
                x = x * 0.5 + 1.0
            else:
                x = xp.tanh(x)
        return x

    return run(x=explorer.tensor("float32", width), k=explorer.tensor("int64"))


EXPRESSIONS = ("{} * 0.5 + {}", "{} - {} * 0.25", "xp.tanh({} + {})", "{}[::-1] * 0.75 + {}")


def random_loop(seed: int, folder: Path) -> Any:
    """A loop of one to four assignments to three vectors, one of which may be in a branch."""
    rnd = Random(seed)
    lines = ["a, b, c = x, x * 0.5, x - 1", "for i in range(k):"]
    for _ in range(rnd.randint(1, 4)):
        text = rnd.choice(EXPRESSIONS).format(rnd.choice("abc"), rnd.choice("abc"))
        lines.append(f"    {rnd.choice('abc')} = {text}")
        if rnd.random() < 0.3:
            lines[-1:] = [f"    if {rnd.choice('abc')}.sum() > 0:", f"    {lines[-1]}"]
    head = f'@explorer.trace\ndef run(x: explorer.tensor("float32", {rnd.choice((8, 64, 1000))}),'
    text = (
        f'import explorer\nfrom explorer import np as xp\n\n{head} k: explorer.tensor("int64")):\n'
    )
    path = folder / f"loop{seed}.py"
    path.write_text(text + "".join(f"    {line}\n" for line in (*lines, "return a, b, c")))
    spec = importlib.util.spec_from_file_location(f"loop{seed}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run


class Loop:
    """One loop on so many threads, with a run of every schedule ready."""

    def __init__(self, model: Any, inputs: Inputs, threads: int) -> None:
        laid = explorer.Options(rammer=Rammer(threads=threads))
        self.first = explorer.compile(model, options=laid)
        self.inputs, self.trips = inputs, 1
        enough = self.run("device", 64)
        one_us = measure(enough, 0.05).median_us / 64
        self.trips = max(8, min(EMPTY_TRIPS, int(LONGEST_US / one_us / 8) * 8))

    def under(self, schedule: str) -> Compilation:
        """The same under another schedule; "eager" also welds nothing."""
        welder = replace(self.first.options.welder, enabled=schedule != "eager")
        return self.first.with_options(grinder=Grinder(schedule), welder=welder)

    def run(self, schedule: str, trips: int) -> Callable[[], None]:
        """A run that makes so many trips, its arrays at hand."""
        c = self.under(schedule)
        given = {**self.inputs, "k": np.array(trips)}
        return c.runnable.prepared(given, c.run(given))

    def raced(self, seconds: float) -> Raced:
        """Each schedule in turns with that which lets Python decide every trip."""
        host = self.run("host", self.trips)
        return {s: compare(self.run(s, self.trips), host, seconds=seconds) for s in SCHEDULES}

    def predicted(self) -> str:
        """What the choice was made by."""
        loops = [d for d in self.first.program.decisions.control if d.kind == "loop"]
        found = {c.value: c.cost_us for d in loops[-1:] for c in d.candidates if not c.refused}
        told = ", ".join(f"{name} {1e3 * found[way]:,.0f}" for name, way in WAYS if way in found)
        return f"predicted {told}; taken: {loops[-1].chosen.words}" if loops else ""

    def ns(self, us: float) -> str:
        """Nanoseconds of a trip."""
        return f"{1e3 * us / self.trips:>11,.0f}"


def row(name: str, loop: Loop, raced: Raced) -> str:
    """Every schedule, and host-driven and in the program in turns."""
    found = raced["device"]
    ratio = f"{found.ratio:7.2f} ({found.low:.2f} to {found.high:.2f})"
    times = (found.second.median_us, *(made.first.median_us for made in raced.values()))
    return f"{name:<20}{''.join(map(loop.ns, times))}  {ratio:<26} {loop.predicted()}"


def head(name: str) -> str:
    """The names of the columns."""
    columns = "".join(f"{schedule + ' ns':>11}" for schedule in ("host", *SCHEDULES))
    return f"\n{name:<20}{columns}  host / device"


def empty_loops(seconds: float) -> Iterator[str]:
    """The first table."""
    yield head("empty loop")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.onnx"
        path.write_bytes(empty())
        for threads in (1, 2):
            loop = Loop(path, {"x": np.zeros(1, np.float32)}, threads)
            yield row(f"{threads} threads", loop, loop.raced(seconds))


def growing(seconds: float, threads: int) -> Iterator[str]:
    """The second table."""
    yield head(f"squares, {threads} threads")
    met = 0
    for width in WIDTHS:
        rng = np.random.default_rng(width)
        a, b = (rng.standard_normal((width, width), np.float32) / width**0.5 for _ in range(2))
        loop = Loop(squares(width), {"a": a, "b": b}, threads)
        raced = loop.raced(seconds)
        met = met or (width if raced["device"].ratio < TOGETHER else 0)
        yield row(f"{width} x {width}", loop, raced)
    limit = f"within {100 * TOGETHER - 100:.0f} % of each other"
    yield f"the ways are {limit} from {met} on" if met else f"the ways are nowhere {limit}"


def decided(seconds: float) -> Iterator[str]:
    """The third table."""
    yield head("decided by a scalar")
    for name, model in (("loop", ended), ("branch", sided)):
        for width in DECIDED_WIDTHS:
            for threads in (1, 2):
                loop = Loop(model(width), {"x": np.ones(width, np.float32)}, threads)
                yield row(f"{name} {width}, {threads} thr.", loop, loop.raced(seconds))


def random_loops(seconds: float, count: int, threads: int) -> Iterator[str]:
    """The fourth table."""
    yield head(f"random, {threads} threads")
    ratios: dict[str, list[float]] = {schedule: [] for schedule in SCHEDULES}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            model = explorer.load(random_loop(seed, Path(folder)))
            size = model.program.main.params[0].tensor.dims[0]
            given = np.random.default_rng(seed).standard_normal(int(str(size)), np.float32)
            loop = Loop(model, {"x": given}, threads)
            raced = loop.raced(seconds)
            for schedule, made in raced.items():
                ratios[schedule].append(made.ratio)
            yield row(f"{seed}: {size} elements", loop, raced)
    for schedule, values in ratios.items():
        mean = exp(sum(map(log, values)) / len(values))
        yield f"{schedule} over host: {mean:.2f}x in the geometric mean of {len(values)}"


@explorer.function(result=explorer.tensor("float32", 8))
def down(x: explorer.tensor("float32", 8), k: explorer.tensor("int64")) -> Any:
    """Calls itself once."""
    return x if k <= 1 else down(x * 0.5, k - 1) + 1.0


@explorer.function(result=explorer.tensor("float32", 8))
def halves(x: explorer.tensor("float32", 8), k: explorer.tensor("int64")) -> Any:
    """Calls itself twice, in all k times for a k of 2^n - 1."""
    return x if k <= 1 else halves(x * 0.5, k // 2) + halves(x, k // 2)


@explorer.trace
def chain(x: explorer.tensor("float32", 8), k: explorer.tensor("int64")) -> Any:
    return down(x, k)


@explorer.trace
def tree(x: explorer.tensor("float32", 8), k: explorer.tensor("int64")) -> Any:
    return halves(x, k)


class Recursion(Loop):
    """One recursion; a trip is a call."""

    def __init__(self, model: Any, calls: int, threads: int) -> None:
        laid = explorer.Options(rammer=Rammer(threads=threads))
        self.first = explorer.compile(model, options=laid)
        self.inputs, self.trips = {"x": np.ones(8, np.float32)}, calls

    def run(self, schedule: str, trips: int) -> Callable[[], None]:
        """A run that makes so many calls."""
        c = self.under(schedule)
        given = {**self.inputs, "k": np.array(trips)}
        if c.executable.frames is not None:
            return partial(c.run, given)
        return c.runnable.prepared(given, c.run(given))

    def predicted(self) -> str:
        """What the choice was made by."""
        found = [d for d in self.first.program.decisions.control if d.kind == "call"]
        return found[0].reason


def recursions(seconds: float, threads: int) -> Iterator[str]:
    """The fifth table."""
    yield head(f"recursions, {threads} threads")
    for name, model in (("chain", chain), ("tree", tree)):
        found = Recursion(model, CALLS, threads)
        yield row(name, found, found.raced(seconds))


def both_directions(width: int) -> Any:
    """A recurrent layer forwards and one backwards."""

    def model(x: Any, w: Any, v: Any) -> Any:
        h, g = x[0] * 0, x[0] * 0
        for t in range(x.shape[0]):
            h = xp.tanh(x[t] + h @ w)
        for t in range(x.shape[0]):
            g = xp.tanh(x[x.shape[0] - 1 - t] + g @ v)
        return h, g

    square = explorer.tensor("float32", width, width)
    model.__annotations__ |= {"x": explorer.tensor("float32", "n", width), "w": square, "v": square}
    return explorer.trace(model)


def directions(seconds: float) -> Iterator[str]:
    """The last table."""
    yield f"two loops of {STEPS} trips, 2 threads, units apart against together"
    for width in (16, 64, 128, 256):
        model, shapes = both_directions(width), {"x": (STEPS, width)}
        shapes |= dict.fromkeys("wv", (width, width))
        rng = np.random.default_rng(0)
        given = {n: rng.normal(0, 0.05, s).astype(np.float32) for n, s in shapes.items()}
        runs = []
        for asked in ("apart", "together", "auto"):
            laid = explorer.Options(grinder=Grinder(independent=asked), rammer=Rammer(threads=2))
            c = explorer.compile(model, options=laid)
            runs.append(c.runnable.prepared(given, c.run(given)))
        found = compare(*runs[:2], seconds=seconds)
        auto = compare(runs[2], runs[1], seconds=seconds)
        apart, together = found.first.median_us, found.second.median_us
        times = f"{apart:7.1f} us apart, {together:7.1f} together"
        yield f"{width:4} wide: {times}, {found}; auto {auto}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the six tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each pair")
    parser.add_argument("--programs", type=int, default=16, help="random loops")
    flags = parser.parse_args(arguments)
    for line in empty_loops(flags.seconds):
        print(line, flush=True)
    for threads in (1, 2):
        for line in growing(flags.seconds, threads):
            print(line, flush=True)
    for line in decided(flags.seconds):
        print(line, flush=True)
    for threads in (1, 2):
        for line in random_loops(flags.seconds / 2, flags.programs, threads):
            print(line, flush=True)
    for threads in (1, 2):
        for line in recursions(flags.seconds, threads):
            print(line, flush=True)
    for line in directions(flags.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
