"""How time and memory grow with a program: chains, trees and transformer-like stacks of operators.

    python -m tests.benchmarks growth [--kinds chain,tree] [--sizes 1000,10000] [--until legalized]
    python -m tests.benchmarks growth --weld gain,two_step,shipped [--sizes 200,1700,3400]

A row is a compilation in a process of its own: operators, seconds by the clock and of the
processor, the ratio of the latter to the row with a tenth of the operators, peak memory of the
process, and the slowest steps. With `--weld` a row is the grouping of a DenseNet alone, prices
included, with nothing remembered: what it takes an operator should not grow.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np

import explorer
from explorer.frontends.model import Model
from explorer.ir.calls import Attrs, OpCall, Var
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.types import Tensor
from explorer.measure.this_cpu import this_cpu
from explorer.process.garbage import rare_collections
from explorer.roller import Price
from explorer.welder import POLICIES, Weld
from explorer.welder import Options as WelderOptions

WIDTH = 64
ROWS = Tensor((symbol("n"), WIDTH), "float32")
DEFAULT = (
    ("chain", (1_000, 10_000, 100_000), "legalized"),
    ("tree", (1_000, 10_000, 100_000), "legalized"),
    ("again", (1_000, 10_000, 100_000), "legalized"),
    ("stack", (1_000, 10_000), "legalized"),
    ("chain", (1_000, 10_000), "planned"),
    ("tree", (1_000, 10_000), "planned"),
    ("again", (1_000, 10_000), "planned"),
    ("stack", (1_000, 10_000), "planned"),
)


class Body:
    """Operators, one after the other."""

    def __init__(self, inputs: int) -> None:
        self.params = tuple(Var(f"x{i}", ROWS) for i in range(inputs))
        self.bindings: list[Binding] = []
        self.sources: list[SourceOp] = []

    def op(self, op: str, *args: Var, attrs: Attrs = ()) -> Var:
        """The value of one more operator."""
        number = len(self.bindings)
        out, name = Var(f"v{number}", Tensor()), f"{op}_{number}"
        self.bindings.append(Binding((out,), OpCall(op, args, attrs), frozenset((name,))))
        self.sources.append(SourceOp(name, op))
        return out

    def program(self, outputs: tuple[Var, ...], constants: dict[str, Constant]) -> Program:
        """All of it."""
        names = tuple(f"y{i}" for i in range(len(outputs)))
        main = Function("main", self.params, tuple(self.bindings), outputs, names)
        env = ShapeEnv((SymbolBound("n", 1, None, 8),))
        return Program((main,), constants, env, tuple(self.sources))


def chain(count: int) -> Program:
    """Elementwise operators, each of the one before."""
    body = Body(1)
    value = body.params[0]
    for i in range(count):
        value = body.op(("Relu", "Exp", "Neg", "Tanh")[i % 4], value)
    return body.program((value,), {})


def tree(count: int) -> Program:
    """Sums of pairs of inputs, of pairs of these sums, until one is left."""
    body = Body(count + 1)
    level = list(body.params)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [body.op("Add", a, b) for a, b in zip(level[::2], level[1::2])] + odd
    return body.program((level[0],), {})


def again(count: int) -> Program:
    """Sums of two earlier sums, which others read too."""
    body = Body(2)
    known = list(body.params)
    for i in range(count):
        known.append(
            body.op(("Add", "Mul", "Sub")[i % 3], known[-1], known[max(0, len(known) - 7)])
        )
    return body.program((known[-1],), {})


def stack(count: int) -> Program:
    """Blocks of a transformer without heads: norm, attention over rows, two products, residuals."""
    body = Body(1)
    constants = {f"w{i}": Constant(seeded(i, (WIDTH, WIDTH))) for i in range(4)}
    constants |= {"b": Constant(seeded(9, (WIDTH,))), "s": Constant(seeded(8, (WIDTH,)))}
    given = {name: Var(name, c.type) for name, c in constants.items()}
    weights = [given[f"w{i}"] for i in range(4)]
    value = body.params[0]
    while len(body.bindings) < count:
        norm = body.op("LayerNormalization", value, given["s"], given["b"], attrs=(("axis", -1),))
        query, key = (body.op("MatMul", norm, w) for w in weights[:2])
        turned = body.op("Transpose", key, attrs=(("perm", (1, 0)),))
        weight = body.op("Softmax", body.op("MatMul", query, turned), attrs=(("axis", -1),))
        mixed = body.op("Add", body.op("MatMul", weight, norm), value)
        hidden = body.op("Relu", body.op("Add", body.op("MatMul", mixed, weights[2]), given["b"]))
        value = body.op("Add", body.op("MatMul", hidden, weights[3]), mixed)
    return body.program((value,), constants)


def seeded(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Small random weights."""
    return (np.random.default_rng(seed).standard_normal(shape) / 8).astype(np.float32)


def densenet(count: int, growth: int = 8, side: int = 14) -> Program:
    """Dense layers (norm, relu, 1 x 1, norm, relu, 3 x 3, join), 24 before each transition."""
    body, channels = Body(0), 16
    body.params = (Var("x", Tensor((1, channels, side, side), "float32")),)
    constants: dict[str, Constant] = {}

    def given(*shape: int) -> Var:
        name = f"w{len(constants)}"
        constants[name] = Constant(np.abs(seeded(len(constants), shape)) + np.float32(0.1))
        return Var(name, constants[name].type)

    def conv(x: Var, inputs: int, outputs: int, kernel: int) -> Var:
        scales = [given(inputs) for _ in range(4)]
        active = body.op("Relu", body.op("BatchNormalization", x, *scales))
        attrs = (("kernel_shape", (kernel, kernel)), ("pads", (kernel // 2,) * 4))
        return body.op("Conv", active, given(outputs, inputs, kernel, kernel), attrs=attrs)

    value, layers = body.params[0], 0
    while len(body.bindings) < count:
        narrow = conv(value, channels, 4 * growth, 1)
        more = conv(narrow, 4 * growth, growth, 3)
        value, channels = body.op("Concat", value, more, attrs=(("axis", 1),)), channels + growth
        layers += 1
        if layers % 24 == 0:
            value, channels = conv(value, channels, channels // 2, 1), channels // 2
    return body.program((value,), constants)


KINDS: dict[str, Callable[[int], Program]] = {
    "chain": chain,
    "tree": tree,
    "again": again,
    "stack": stack,
}


def measure(kind: str, count: int, until: str) -> dict[str, object]:
    """One compilation in this process."""
    program = KINDS[kind](count)
    begin, busy = perf_counter(), process_time()
    made = explorer.compile(Model(kind, "", program), until=until)
    planned = perf_counter()
    if made.stage >= explorer.Stage.PLANNED:
        made.memory()
    end = perf_counter()
    return {
        "seconds": end - begin,
        "busy": process_time() - busy,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "steps": {s.name: s.seconds for s in made.snapshots} | {"plan of a binding": end - planned},
    }


def weld(policy: str, count: int) -> dict[str, object]:
    """The grouping of a DenseNet in this process, with nothing remembered from another."""
    with TemporaryDirectory() as folder:
        os.environ["IRONWORKS_CACHE"] = folder
        before = tasked(count)
        pass_ = Weld(this_cpu(), Price(this_cpu()), WelderOptions(policy=policy))
        with rare_collections():
            begin, busy = perf_counter(), process_time()
            after = pass_(before)
            return {
                "seconds": perf_counter() - begin,
                "busy": process_time() - busy,
                "kernels": len(before.kernel_calls),
                "groups": len(after.kernel_calls),
            }


def tasked(count: int) -> Program:
    """A DenseNet as Welder is given it."""
    return explorer.compile(Model("densenet", "", densenet(count)), until="tasked").program


def weld_rows(policy: str, sizes: tuple[int, ...]) -> Iterator[str]:
    """The table of one policy, a line at a time."""
    yield f"\nDenseNet grouped by {policy}"
    names = ("operators", "kernels", "groups", "s", "CPU s", "ms an operator")
    yield "{:>10} {:>8} {:>8} {:>8} {:>8} {:>15}".format(*names)
    for count in sizes:
        found = apart("weld", policy, str(count))
        if "problem" in found:
            yield f"{count:>10,} {found['problem']}"
            continue
        seconds, busy = float(str(found["seconds"])), float(str(found["busy"]))
        yield (
            f"{count:>10,} {found['kernels']:>8} {found['groups']:>8} {seconds:>8.2f} "
            f"{busy:>8.2f} {1000 * busy / count:>15.2f}"
        )


def apart(*asked: str) -> dict[str, object]:
    """A row from a process of its own: kind, operators and last stage, or "weld", policy and
    operators.
    """
    words = [sys.executable, "-m", "tests.benchmarks.growth", "--one", *asked]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"problem": (done.stderr.splitlines() or ["no output"])[-1]}
    found: dict[str, object] = json.loads(lines[-1])
    return found


def rows(kind: str, sizes: tuple[int, ...], until: str) -> Iterator[str]:
    """The table of one kind, a line at a time."""
    yield f"\n{kind} until {until}"
    yield f"{'operators':>10} {'s':>8} {'CPU s':>8} {'ratio':>6} {'MB':>6}  slowest steps"
    known: dict[int, float] = {}
    for count in sizes:
        found = apart(kind, str(count), until)
        if "problem" in found:
            yield f"{count:>10,} {found['problem']}"
            continue
        seconds, busy = float(str(found["seconds"])), float(str(found["busy"]))
        known[count] = busy
        ratio = f"{busy / known[count // 10]:.1f}" if count // 10 in known else ""
        steps = sorted(dict(found["steps"]).items(), key=lambda s: -s[1])[:4]  # type: ignore[call-overload]
        words = ", ".join(f"{name} {took:.2f}" for name, took in steps)
        size = int(str(found["bytes"])) >> 20
        yield f"{count:>10,} {seconds:>8.2f} {busy:>8.2f} {ratio:>6} {size:>6}  {words}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The tables that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kinds", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--sizes", help="numbers of operators, with commas")
    parser.add_argument("--until", help="the last stage")
    parser.add_argument("--weld", help=f"policies of Welder's: {', '.join(POLICIES)}")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one and given.one[0] == "weld":
        print(json.dumps(weld(given.one[1], int(given.one[2]))))
        return
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]), given.one[2])))
        return
    if given.weld:
        sizes = tuple(int(n) for n in (given.sizes or "200,850,1700,3400").split(","))
        for policy in given.weld.split(","):
            for line in weld_rows(policy, sizes):
                print(line, flush=True)
        return
    wanted = DEFAULT
    if given.kinds or given.sizes or given.until:
        sizes = tuple(int(n) for n in (given.sizes or "1000,10000").split(","))
        kinds = (given.kinds or ",".join(KINDS)).split(",")
        wanted = tuple((kind, sizes, given.until or "legalized") for kind in kinds)
    for kind, counts, until in wanted:
        for line in rows(kind, counts, until):
            print(line, flush=True)


if __name__ == "__main__":
    main()
