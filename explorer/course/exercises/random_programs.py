"""A check of a pass on many small random programs, which are compiled as one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.answer import Answer
from explorer.course.counterexample import (
    INPUT_NAMES,
    MOST_INPUTS,
    MOST_SIZE,
    UNARY,
    Line,
    SmallProgram,
    random_program,
    smaller_programs,
)
from explorer.course.exercise import Wrong
from explorer.course.replay import Replay, as_pass, own_step, send_change
from explorer.errors import IronworksError, printable
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.validate import difference

VALUES = ((1.0, 2.0), (0.0, 1.0), (-1.0, 2.0), (-2.0, 3.0))  # a reader can calculate with them
Arrays = dict[str, np.ndarray]


def check_random_programs(
    answer: Answer, after: str, programs: int, seed: int, repeated: str = ""
) -> None:
    """Check that a pass changes no result of small random programs; Wrong shows the smallest.

    `after` is the step of the stage TYPED that the pass follows. If `repeated` is named, about half
    of the lines are this function of one matrix, half of the programs read all of their values, and
    the programs of `pairs_of` are among them: random ones seldom have a certain pair of operators.
    """
    rng = Random(seed)
    broken = [random_program(rng) for _ in range(programs)]
    if repeated:
        broken = [_with_lines_of(repeated, p, rng) for p in broken]
        broken = [p if n % 2 else _with_sum(p) for n, p in enumerate(broken)] + pairs_of(repeated)
    why = _fault(answer, after, broken, seed)
    if why:
        broken, why = smallest(answer, after, broken, why, seed)
        raise Wrong("this program is not what it was:\n" + "\n".join((*map(str, broken), why)))


def _with_lines_of(op: str, program: SmallProgram, rng: Random) -> SmallProgram:
    """Return the program with other lines instead of about half of them: `op` of a recent value."""
    matrices, lines = [*range(program.inputs)], list[Line]()
    for n, line in enumerate(program.lines):
        operand = rng.choice(matrices[-3:])
        lines.append(Line(op, (operand,)) if rng.random() < 0.5 else line)
        matrices.append(program.first_line + n)
    return replace(program, lines=tuple(lines))


def pairs_of(op: str) -> list[SmallProgram]:
    """Return programs that add two values, the second computed from the first.

    Each has a pair of functions of one matrix: `op` and another one, or a function and itself.
    """
    pairs = [(a, b) for a in UNARY for b in UNARY if op in (a, b) or a == b]
    add = Line("add", (1, 2))
    return [SmallProgram(2, 1, (), (Line(a, (0,)), Line(b, (1,)), add)) for a, b in pairs]


def _with_sum(program: SmallProgram) -> SmallProgram:
    """Return the program with the sum of all values as its result, so that each is read."""
    first, count = program.first_line, len(program.lines)
    lines, total = list(program.lines), first
    for value in range(first + 1, first + count):
        lines.append(Line("add", (total, value)))
        total = first + len(lines) - 1
    return replace(program, lines=tuple(lines))


def smallest(
    answer: Answer, after: str, broken: list[SmallProgram], why: str, seed: int
) -> tuple[list[SmallProgram], str]:
    """Return as few of the broken programs as show the fault, made small, with the fault.

    Several are left if a pass breaks none of them alone.
    """
    size = len(broken) // 2
    while size:
        for at in range(0, len(broken), size):
            fewer = broken[:at] + broken[at + size :]
            less = _fault(answer, after, fewer, seed) if fewer else ""
            if less:
                broken, why = fewer, less
                break
        else:
            size //= 2
    while len(broken) == 1:
        for candidate in smaller_programs(broken[0]):
            less = _fault(answer, after, [candidate], seed)
            if less:
                broken, why = [candidate], less
                break
        else:
            break
    return broken, why


def _fault(answer: Answer, after: str, programs: list[SmallProgram], seed: int) -> str:
    """Return how a pass breaks a program that computes all of some programs, or ''."""
    sent = answer.run(record_joint, after, [p.as_plain() for p in programs])
    if isinstance(sent, str):
        return printable(sent)
    try:
        before, own = own_step(_compiled(programs, after, Replay(sent)))
    except IronworksError as problem:
        return problem.sentence
    if own is before:
        return ""
    names = [v.name for v in before.main.params]
    for inputs in _inputs(names, seed):
        with np.errstate(all="ignore"):
            want, got = evaluate(before, inputs), evaluate(own, inputs)
        for name, value in want.items():
            # Where something overflows, another order of the same sums may differ.
            if not np.isfinite(value).all():
                continue
            if difference({name: value}, {name: got[name]}):
                shown = _format_inputs(programs, inputs)
                return (
                    f"{shown}expected {_text(value)}, and after the pass it is {_text(got[name])}"
                )
    return ""


def _format_inputs(programs: Sequence[SmallProgram], inputs: Arrays) -> str:
    """Return the inputs of one program as text, and nothing for several."""
    if len(programs) > 1:
        return ""
    names = INPUT_NAMES[: programs[0].inputs]
    return "".join(f"{n} = {inputs[f'{n}{programs[0].size}'].tolist()}\n" for n in names)


def _text(value: np.ndarray) -> str:
    return str(np.round(value.astype(np.float64), 4).tolist())


def record_joint(answer: Any, after: str, programs: list[Any]) -> Any:
    """Return what a pass changes in the joint program, or the sentence with which it fails."""
    try:
        c = _compiled(
            [SmallProgram.of_plain(stored) for stored in programs], after, as_pass(answer)
        )
    except IronworksError as problem:
        if isinstance(problem.__cause__, NotImplementedError):
            raise
        return problem.sentence
    return send_change(*own_step(c))


def _compiled(programs: Sequence[SmallProgram], after: str, own: Any) -> Any:
    options = Options(passes=((after, own),), registered=False)
    return compile(_joint(tuple(programs)), options=options, until="typed")


@lru_cache(maxsize=1)
def _joint(programs: tuple[SmallProgram, ...]) -> Any:
    """Return a model with the result of each program; programs of a size share their inputs."""

    def run(*arrays: Any) -> tuple[Any, ...]:
        return tuple(_result(p, arrays[MOST_INPUTS * (p.size - 1) :]) for p in programs)

    # The parameters of a traced function are written out.
    traced = trace(lambda x1, y1, x2, y2, x3, y3: run(x1, y1, x2, y2, x3, y3))
    sizes = range(1, MOST_SIZE + 1)
    return load(traced(*(tensor("float32", n, n) for n in sizes for _ in range(MOST_INPUTS))))


def _result(program: SmallProgram, arrays: Sequence[Any]) -> Any:
    values = [*arrays[: program.inputs], *program.constants]
    for line in program.lines:
        values.append(getattr(enp, line.op)(*(values[a] for a in line.args)))
    return values[-1]


def _inputs(names: Sequence[str], seed: int) -> Iterator[Arrays]:
    """Yield inputs of a joint program: small numbers first, then random ones."""
    rng = np.random.default_rng(seed)
    shapes = {name: (1 + n // MOST_INPUTS,) * 2 for n, name in enumerate(names)}
    for numbers in VALUES:
        yield {n: rng.choice(numbers, shape).astype(np.float32) for n, shape in shapes.items()}
    yield {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
