"""Small random programs, and what is smaller than one: on these a pass is tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import explorer.np as enp
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.frontends.trace import trace
from explorer.frontends.tracing.annotations import tensor

UNARY = ("abs", "exp", "negative", "relu", "tanh", "transpose")
BINARY = ("add", "matmul", "maximum", "multiply", "power", "subtract")
CONSTANTS = (0.0, 1.0, 2.0, -1.0, 0.5, 3.0)
MOST_LINES, MOST_INPUTS, MOST_CONSTANTS, MOST_SIZE = 6, 2, 2, 3  # chosen
NAMES = "xyz"


@dataclass(frozen=True, slots=True)
class Line:
    """A function of `explorer.np`, and the numbers of the values that it takes."""

    op: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SmallProgram:
    """Square matrices of one size, and constants, go in; a line is a value; the last one comes out.
    Values are numbered: inputs, constants, lines.
    """

    size: int
    inputs: int
    constants: tuple[float, ...]
    lines: tuple[Line, ...]

    @property
    def first_line(self) -> int:
        """The number of the first line's value."""
        return self.inputs + len(self.constants)

    def model(self) -> Model:
        """The program as a model."""
        given = (tensor("float32", self.size, self.size),) * self.inputs
        if self.inputs == 1:
            return load(trace(lambda x: self._run((x,)))(*given))
        return load(trace(lambda x, y: self._run((x, y)))(*given))

    def _run(self, inputs: Sequence[Any]) -> Any:
        values = [*inputs, *self.constants]
        for line in self.lines:
            values.append(getattr(enp, line.op)(*(values[a] for a in line.args)))
        return values[-1]

    def __str__(self) -> str:
        """The program as one would write it."""
        names = [*NAMES[: self.inputs], *map(str, self.constants)]
        names += [f"v{n}" for n in range(len(self.lines))]
        given = ", ".join(
            f'{n}: tensor("float32", {self.size}, {self.size})' for n in names[: self.inputs]
        )
        body = [
            f"    {names[self.first_line + n]} = "
            f"enp.{line.op}({', '.join(names[a] for a in line.args)})"
            for n, line in enumerate(self.lines)
        ]
        return "\n".join((f"def program({given}):", *body, f"    return {names[-1]}"))


def random_program(rng: Random) -> SmallProgram:
    """A program of at most six lines, which take later values more often than early ones."""
    inputs = rng.randint(1, MOST_INPUTS)
    constants = tuple(rng.choice(CONSTANTS) for _ in range(rng.randint(1, MOST_CONSTANTS)))
    first = inputs + len(constants)
    matrices = [*range(inputs)]
    lines: list[Line] = []
    for n in range(rng.randint(1, MOST_LINES)):
        one = rng.choice(matrices[-3:])
        if lines and rng.random() < 0.25:  # rules are often about what is done twice
            line = replace(lines[-1], args=(matrices[-1], *lines[-1].args[1:]))
        elif rng.random() < 0.4:
            line = Line(rng.choice(UNARY), (one,))
        else:
            op = rng.choice(BINARY)
            other = rng.choice(matrices if op == "matmul" else [*matrices, *range(inputs, first)])
            swapped = op != "power" and rng.random() < 0.5
            line = Line(op, (other, one) if swapped else (one, other))
        lines.append(line)
        matrices.append(first + n)
    return SmallProgram(rng.randint(1, MOST_SIZE), inputs, constants, tuple(lines))


def smaller(p: SmallProgram) -> Iterator[SmallProgram]:
    """Programs that are a little smaller, those that lose most first."""
    for n in range(len(p.lines) - 1):  # only the lines up to here
        yield replace(p, lines=p.lines[: n + 1])
    for n, line in enumerate(p.lines):
        for arg in line.args:
            if not p.inputs <= arg < p.first_line and len(p.lines) > 1:
                yield _without(p, n, arg)
    if p.inputs > 1:
        used = [0 if a == 1 else a - (a > 1) for line in p.lines for a in line.args]
        yield _renumbered(replace(p, inputs=1), used)
    for gone in range(p.inputs, p.first_line):
        if not any(gone in line.args for line in p.lines):
            used = [a - (a > gone) for line in p.lines for a in line.args]
            kept = p.constants[: gone - p.inputs] + p.constants[gone - p.inputs + 1 :]
            yield _renumbered(replace(p, constants=kept), used)
    if p.size > 1:
        yield replace(p, size=p.size - 1)
    for n, line in enumerate(p.lines):
        for at, arg in enumerate(line.args):
            if arg >= p.first_line:
                args = (*line.args[:at], 0, *line.args[at + 1 :])
                yield replace(p, lines=(*p.lines[:n], replace(line, args=args), *p.lines[n + 1 :]))


def _without(p: SmallProgram, n: int, instead: int) -> SmallProgram:
    """The program without line n: who read it reads `instead`, which stands before it."""
    gone = p.first_line + n
    kept = replace(p, lines=p.lines[:n] + p.lines[n + 1 :])
    used = [instead if a == gone else a - (a > gone) for line in kept.lines for a in line.args]
    return _renumbered(kept, used)


def _renumbered(p: SmallProgram, used: Sequence[int]) -> SmallProgram:
    left = iter(used)
    lines = tuple(replace(line, args=tuple(next(left) for _ in line.args)) for line in p.lines)
    return replace(p, lines=lines)
