"""Search for the smallest random program that a pass breaks, and the random programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile, device_of, pipeline
from explorer.course.answer import Answer
from explorer.course.exercise import Wrong
from explorer.course.replay import Replay, as_pass, own_step, send_change
from explorer.errors import BadOption, IronworksError, printable
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.registry import name_of, passes
from explorer.passes.validate import difference
from explorer.process.sandbox import Ended, Limits, in_helper, is_helper

PROGRAMS = 200  # the default number of programs; chosen
LIMITS = Limits(seconds=20.0)

Arrays = Mapping[str, np.ndarray]
UNARY = ("abs", "exp", "negative", "relu", "tanh", "transpose")
BINARY = ("add", "matmul", "maximum", "multiply", "power", "subtract")
CONSTANT_VALUES = (0.0, 1.0, 2.0, -1.0, 0.5, 3.0)
INPUT_NAMES = "xyz"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A program that a pass breaks, inputs that show it, and the difference.

    No program that is one step smaller shows it.
    """

    program: str
    inputs: str
    wrong: str

    def __str__(self) -> str:
        """Return the program, the inputs and the difference as text."""
        return "\n".join(part for part in (self.program, self.inputs, self.wrong) if part)

    __repr__ = __str__


def counterexample(
    run: Callable[..., Any], after: str = "", *, programs: int = PROGRAMS, seed: int = 0
) -> Counterexample | None:
    """Return the smallest program found that a pass breaks, or None if it broke none.

    `after` is the step that the pass follows, unless it was registered with one. The search runs in
    a helper process: a pass that never ends or crashes is a counterexample, too.

    Raises:
        BadOption: there is no such step.
    """
    record = passes().get(name_of(run))
    after = after or (record.after if record else "")
    stages = {s.name: s.stage for s in pipeline(Options(registered=False), device_of("cpu"))}
    if after not in stages:
        raise BadOption(
            f"the pass {name_of(run)!r} follows the step {after!r}, and there is no such step",
            where=name_of(run),
            expected=", ".join(stages),
            try_='counterexample(mine, after="fold constants")',
        )
    trial = _Trial(run, after, stages[after].name)
    if is_helper():
        return trial.search(programs, seed, lambda text: None)
    try:
        *_, last = in_helper(lambda tell: _search_in_helper(trial, programs, seed, tell), LIMITS)
    except Ended as ended:
        now = ended.reported[-1] if ended.reported else ""
        return Counterexample(json.loads(now) if now else "", "", f"the pass {ended.why}")
    fields = json.loads(last)
    return Counterexample(*fields) if isinstance(fields, list) else None


def record_changes(answer: Any, after: str, programs: list[Any]) -> list[Any]:
    """Return what a pass changes in each program, or the sentence with which it fails."""
    changes: list[Any] = []
    for stored in programs:
        options = Options(passes=((after, as_pass(answer)),), registered=False)
        try:
            c = compile(SmallProgram.of_plain(stored).model(), options=options, until="typed")
            changes.append(send_change(*own_step(c)))
        except IronworksError as problem:
            if isinstance(problem.__cause__, NotImplementedError):
                raise
            changes.append(problem.sentence)
    return changes


def broken_program(answer: Answer, after: str, programs: int, seed: int) -> Counterexample | None:
    """Return a small program that the pass of an answer breaks, or None.

    The pass runs where the answer is, and the program that it returns is judged here, on inputs
    drawn from the seed. `after` is a step of the stage TYPED.
    """
    rng = Random(seed)
    broken = _first_broken(answer, after, [random_program(rng) for _ in range(programs)], seed)
    while broken is not None:
        less = _first_broken(answer, after, list(smaller_programs(broken[0])), seed)
        if less is None:
            return replace(broken[1], program=str(broken[0]))
        broken = less
    return None


def _first_broken(
    answer: Answer, after: str, programs: list[SmallProgram], seed: int
) -> tuple[SmallProgram, Counterexample] | None:
    """Return the first broken one of some programs."""
    usable = [p for p in programs if _compiles(p)]
    changes = answer.run(record_changes, after, [p.as_plain() for p in usable])
    if not isinstance(changes, list) or len(changes) != len(usable):
        raise Wrong("the pass did not return a program for each program")
    for program, change in zip(usable, changes):
        if isinstance(change, str):
            return program, Counterexample(str(program), "", printable(change))
        example = _Trial(Replay(change), after, "typed", seed).wrong(program)
        if example is not None:
            return program, example
    return None


def _compiles(program: SmallProgram) -> bool:
    """Return True if a random program is one that the compiler takes."""
    try:
        compile(program.model(), options=Options(registered=False), until="typed")
    except IronworksError:
        return False
    return True


def _search_in_helper(
    trial: _Trial, programs: int, seed: int, report: Callable[[str], None]
) -> None:
    example = trial.search(programs, seed, lambda text: report(json.dumps(text)))
    parts = [example.program, example.inputs, example.wrong] if example else None
    report(json.dumps(parts))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A pass under test, with its place in the pipeline."""

    run: Callable[..., Any]
    after: str
    stage: str
    seed: int = 0

    def search(
        self, programs: int, seed: int, report: Callable[[str], None]
    ) -> Counterexample | None:
        """Return a counterexample among random programs, or None.

        `report` is called with each program before it is tried.
        """
        rng = Random(seed)
        for _ in range(programs):
            program = random_program(rng)
            report(str(program))
            if self.wrong(program) is not None:
                return self._smallest(program, report)
        return None

    def _smallest(self, program: SmallProgram, report: Callable[[str], None]) -> Counterexample:
        """Return the counterexample after shrinking a broken program as far as possible."""
        now, broken = program, self.wrong(program)
        while True:
            for candidate in smaller_programs(now):
                report(str(candidate))
                less = self.wrong(candidate)
                if less is not None:
                    now, broken = candidate, less
                    break
            else:
                assert broken is not None
                return replace(broken, program=str(now))

    def wrong(self, program: SmallProgram) -> Counterexample | None:
        """Return a counterexample if the pass breaks this program, else None."""
        text = str(program)
        try:
            model = program.model()
            plain = compile(model, options=Options(registered=False), until=self.stage)
        except IronworksError:
            return None
        options = Options(passes=((self.after, self.run),), registered=False)
        try:
            c = compile(model, options=options, until=self.stage)
        except IronworksError as problem:
            return Counterexample(text, "", problem.sentence)
        step = next(s for s in c.snapshots if s.own)
        if step.after is step.before:
            return None
        for inputs in _inputs(program, self.seed):
            with np.errstate(all="ignore"):
                want = evaluate(plain.program, inputs)
                try:
                    got = evaluate(c.program, inputs)
                except Exception as problem:  # a broken program may raise anything
                    return Counterexample(
                        text, _format_inputs(inputs), f"{type(problem).__name__}: {problem}"
                    )
            if _is_finite(want) and difference(want, got):
                before, after = _format_values(want), _format_values(got)
                message = f"expected {before}, and after the pass it is {after}"
                return Counterexample(text, _format_inputs(inputs), message)
        return None


def _inputs(p: SmallProgram, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield small numbers first, which a reader can calculate with."""
    rng = np.random.default_rng(seed)
    shape = (p.size, p.size)
    for numbers in ([1.0, 2.0], [0.0, 1.0], [-1.0, 2.0], [-2.0, 3.0]):
        yield {n: rng.choice(numbers, shape).astype(np.float32) for n in INPUT_NAMES[: p.inputs]}
    yield {n: rng.normal(size=shape).astype(np.float32) for n in INPUT_NAMES[: p.inputs]}


def _is_finite(values: Arrays) -> bool:
    """Return True if nothing overflowed; otherwise another order of the same sums may differ."""
    return all(np.isfinite(v).all() for v in values.values())


def _format_inputs(inputs: Arrays) -> str:
    return "\n".join(f"{name} = {value.tolist()}" for name, value in inputs.items())


def _format_values(values: Arrays) -> str:
    (value, *_) = values.values()
    return str(np.round(value.astype(np.float64), 4).tolist())


MOST_LINES, MOST_INPUTS, MOST_CONSTANTS, MOST_SIZE = 6, 2, 2, 3  # chosen


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

    def as_plain(self) -> list[Any]:
        """Return the program as lists of numbers and words."""
        lines = [[line.op, list(line.args)] for line in self.lines]
        return [self.size, self.inputs, list(self.constants), lines]

    @classmethod
    def of_plain(cls, stored: list[Any]) -> SmallProgram:
        """Return the program of such lists."""
        size, inputs, constants, lines = stored
        return cls(size, inputs, tuple(constants), tuple(Line(op, tuple(a)) for op, a in lines))

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
        names = [*INPUT_NAMES[: self.inputs], *map(str, self.constants)]
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
    constants = tuple(rng.choice(CONSTANT_VALUES) for _ in range(rng.randint(1, MOST_CONSTANTS)))
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
