"""Search for the smallest random program that a pass breaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from explorer.compiler import compile, device_of, pipeline
from explorer.course.small_program import NAMES, SmallProgram, random_program, smaller_programs
from explorer.errors import BadOption, IronworksError
from explorer.ops.reference.evaluate import evaluate
from explorer.options import Options
from explorer.passes.pipeline.registry import name_of, passes
from explorer.passes.pipeline.validate import difference
from explorer.sandbox.helper import Ended, Limits, in_helper, is_helper

PROGRAMS = 200  # the default number of programs; chosen
LIMITS = Limits(seconds=20.0)

Arrays = Mapping[str, np.ndarray]


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
        for inputs in _inputs(program):
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


def _inputs(p: SmallProgram) -> Iterator[dict[str, np.ndarray]]:
    """Yield small numbers first, which a reader can calculate with."""
    rng = np.random.default_rng(0)
    shape = (p.size, p.size)
    for numbers in ([1.0, 2.0], [0.0, 1.0], [-1.0, 2.0], [-2.0, 3.0]):
        yield {n: rng.choice(numbers, shape).astype(np.float32) for n in NAMES[: p.inputs]}
    yield {n: rng.normal(size=shape).astype(np.float32) for n in NAMES[: p.inputs]}


def _is_finite(values: Arrays) -> bool:
    """Return True if nothing overflowed; otherwise another order of the same sums may differ."""
    return all(np.isfinite(v).all() for v in values.values())


def _format_inputs(inputs: Arrays) -> str:
    return "\n".join(f"{name} = {value.tolist()}" for name, value in inputs.items())


def _format_values(values: Arrays) -> str:
    (value, *_) = values.values()
    return str(np.round(value.astype(np.float64), 4).tolist())
