"""A pass is tried on small random programs; where it is wrong, the smallest one found is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from explorer.compiler import compile, device_of, pipeline
from explorer.course.small_program import NAMES, SmallProgram, random_program, smaller
from explorer.errors import BadOption, IronworksError
from explorer.ops.reference.evaluate import evaluate
from explorer.options import Options
from explorer.passes.pipeline.registry import name_of, passes
from explorer.passes.pipeline.validate import difference
from explorer.sandbox.helper import Ended, Limits, in_helper, is_helper

PROGRAMS = 200  # that are tried unless the caller says how many; chosen
LIMITS = Limits(seconds=20.0)

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A program that a pass breaks, as one would write it, inputs for which it does, and what is
    wrong. No program that is a step smaller shows it.
    """

    program: str
    inputs: str
    wrong: str

    def __str__(self) -> str:
        return "\n".join(part for part in (self.program, self.inputs, self.wrong) if part)

    __repr__ = __str__


def counterexample(
    run: Callable[..., Any], after: str = "", *, programs: int = PROGRAMS, seed: int = 0
) -> Counterexample | None:
    """The smallest program found that a pass breaks; None where it broke none of so many.

    `after` is the step that the pass comes after, where it was not registered with one. All of it
    runs in a helper process: a pass that never ends or crashes is a counterexample, too. Raises
    BadOption where there is no such step.
    """
    record = passes().get(name_of(run))
    after = after or (record.after if record else "")
    stages = {s.name: s.stage for s in pipeline(Options(registered=False), device_of("cpu"))}
    if after not in stages:
        raise BadOption(
            f"the pass {name_of(run)!r} is to come after the step {after!r}, and there is none",
            where=name_of(run),
            expected=", ".join(stages),
            try_='counterexample(mine, after="fold constants")',
        )
    tried = _Tried(run, after, stages[after].name)
    if is_helper():
        return tried.found(programs, seed, lambda text: None)
    try:
        *_, last = in_helper(lambda tell: _tell(tried, programs, seed, tell), LIMITS)
    except Ended as ended:
        now = ended.reported[-1] if ended.reported else ""
        return Counterexample(json.loads(now) if now else "", "", f"the pass {ended.why}")
    found = json.loads(last)
    return Counterexample(*found) if isinstance(found, list) else None


def _tell(tried: _Tried, programs: int, seed: int, tell: Callable[[str], None]) -> None:
    found = tried.found(programs, seed, lambda text: tell(json.dumps(text)))
    parts = [found.program, found.inputs, found.wrong] if found else None
    tell(json.dumps(parts))


@dataclass(frozen=True, slots=True)
class _Tried:
    run: Callable[..., Any]
    after: str
    stage: str

    def found(
        self, programs: int, seed: int, about_to: Callable[[str], None]
    ) -> Counterexample | None:
        """`about_to` is told each program before it is tried."""
        rng = Random(seed)
        for _ in range(programs):
            program = random_program(rng)
            about_to(str(program))
            if self.wrong(program) is not None:
                return self._smallest(program, about_to)
        return None

    def _smallest(self, program: SmallProgram, about_to: Callable[[str], None]) -> Counterexample:
        now, found = program, self.wrong(program)
        while True:
            for one in smaller(now):
                about_to(str(one))
                less = self.wrong(one)
                if less is not None:
                    now, found = one, less
                    break
            else:
                assert found is not None
                return replace(found, program=str(now))

    def wrong(self, program: SmallProgram) -> Counterexample | None:
        """What the pass breaks of one program, if anything."""
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
                except Exception as problem:  # what a broken program does is anybody's guess
                    return Counterexample(
                        text, _shown(inputs), f"{type(problem).__name__}: {problem}"
                    )
            if _clear(want) and difference(want, got):
                told = f"expected {_numbers(want)}, and after the pass it is {_numbers(got)}"
                return Counterexample(text, _shown(inputs), told)
        return None


def _inputs(p: SmallProgram) -> Iterator[dict[str, np.ndarray]]:
    """Small numbers first: they are the ones that one can reckon with."""
    rng = np.random.default_rng(0)
    shape = (p.size, p.size)
    for numbers in ([1.0, 2.0], [0.0, 1.0], [-1.0, 2.0], [-2.0, 3.0]):
        yield {n: rng.choice(numbers, shape).astype(np.float32) for n in NAMES[: p.inputs]}
    yield {n: rng.normal(size=shape).astype(np.float32) for n in NAMES[: p.inputs]}


def _clear(values: Arrays) -> bool:
    """Whether nothing overflowed: where it did, another order of the same sums may differ."""
    return all(np.isfinite(v).all() for v in values.values())


def _shown(inputs: Arrays) -> str:
    return "\n".join(f"{name} = {value.tolist()}" for name, value in inputs.items())


def _numbers(values: Arrays) -> str:
    (value, *_) = values.values()
    return str(np.round(value.astype(np.float64), 4).tolist())
