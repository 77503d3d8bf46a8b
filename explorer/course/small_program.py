"""Small random programs, and the smaller variants of one, for tests of a pass."""

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
    """A function of `explorer.np` and the numbers of its operands."""

    op: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SmallProgram:
    """A program on square matrices of one size and constants.

    Each line computes one value, and the last one is the result. Values are numbered: inputs,
    constants, lines.
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
        """Return the program as a model."""
        types = (tensor("float32", self.size, self.size),) * self.inputs
        if self.inputs == 1:
            return load(trace(lambda x: self._run((x,)))(*types))
        return load(trace(lambda x, y: self._run((x, y)))(*types))

    def _run(self, inputs: Sequence[Any]) -> Any:
        values = [*inputs, *self.constants]
        for line in self.lines:
            values.append(getattr(enp, line.op)(*(values[a] for a in line.args)))
        return values[-1]

    def __str__(self) -> str:
        """Return the program as Python source."""
        names = [*NAMES[: self.inputs], *map(str, self.constants)]
        names += [f"v{n}" for n in range(len(self.lines))]
        parameters = ", ".join(
            f'{n}: tensor("float32", {self.size}, {self.size})' for n in names[: self.inputs]
        )
        body = [
            f"    {names[self.first_line + n]} = "
            f"enp.{line.op}({', '.join(names[a] for a in line.args)})"
            for n, line in enumerate(self.lines)
        ]
        return "\n".join((f"def program({parameters}):", *body, f"    return {names[-1]}"))


def random_program(rng: Random) -> SmallProgram:
    """Return a program of at most six lines that prefers recent values as operands."""
    inputs = rng.randint(1, MOST_INPUTS)
    constants = tuple(rng.choice(CONSTANTS) for _ in range(rng.randint(1, MOST_CONSTANTS)))
    first = inputs + len(constants)
    matrices = [*range(inputs)]
    lines: list[Line] = []
    for n in range(rng.randint(1, MOST_LINES)):
        operand = rng.choice(matrices[-3:])
        if lines and rng.random() < 0.25:  # rewrite rules often match repeated operators
            line = replace(lines[-1], args=(matrices[-1], *lines[-1].args[1:]))
        elif rng.random() < 0.4:
            line = Line(rng.choice(UNARY), (operand,))
        else:
            op = rng.choice(BINARY)
            other = rng.choice(matrices if op == "matmul" else [*matrices, *range(inputs, first)])
            swapped = op != "power" and rng.random() < 0.5
            line = Line(op, (other, operand) if swapped else (operand, other))
        lines.append(line)
        matrices.append(first + n)
    return SmallProgram(rng.randint(1, MOST_SIZE), inputs, constants, tuple(lines))


def smaller_programs(p: SmallProgram) -> Iterator[SmallProgram]:
    """Yield programs that are one step smaller, the largest reductions first."""
    for n in range(len(p.lines) - 1):  # a prefix of the lines
        yield replace(p, lines=p.lines[: n + 1])
    for n, line in enumerate(p.lines):
        for arg in line.args:
            if not p.inputs <= arg < p.first_line and len(p.lines) > 1:
                yield _remove_line(p, n, arg)
    if p.inputs > 1:
        used = [0 if a == 1 else a - (a > 1) for line in p.lines for a in line.args]
        yield _renumber(replace(p, inputs=1), used)
    for removed in range(p.inputs, p.first_line):
        if not any(removed in line.args for line in p.lines):
            used = [a - (a > removed) for line in p.lines for a in line.args]
            remaining = p.constants[: removed - p.inputs] + p.constants[removed - p.inputs + 1 :]
            yield _renumber(replace(p, constants=remaining), used)
    if p.size > 1:
        yield replace(p, size=p.size - 1)
    for n, line in enumerate(p.lines):
        for at, arg in enumerate(line.args):
            if arg >= p.first_line:
                args = (*line.args[:at], 0, *line.args[at + 1 :])
                yield replace(p, lines=(*p.lines[:n], replace(line, args=args), *p.lines[n + 1 :]))


def _remove_line(p: SmallProgram, n: int, instead: int) -> SmallProgram:
    """Return the program without line `n`; its readers read the earlier value `instead`."""
    removed = p.first_line + n
    shorter = replace(p, lines=p.lines[:n] + p.lines[n + 1 :])
    used = [
        instead if a == removed else a - (a > removed) for line in shorter.lines for a in line.args
    ]
    return _renumber(shorter, used)


def _renumber(p: SmallProgram, used: Sequence[int]) -> SmallProgram:
    remaining = iter(used)
    lines = tuple(replace(line, args=tuple(next(remaining) for _ in line.args)) for line in p.lines)
    return replace(p, lines=lines)
