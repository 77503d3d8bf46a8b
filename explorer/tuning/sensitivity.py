"""Sensitivity of a plan to one change: a step left out, or a figure of the hardware.

Ablation: the plan without each step beside the plan with all of them, predicted and timed.
Hardware: the plan with half and twice of each figure of the device. Each is planned for the same
program, and for one that is compiled for the changed device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import pipeline
from explorer.devices.hardware import COSTS, LIMIT, Figure, Options, figures
from explorer.errors import Cancelled, IronworksError
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison
from explorer.passes.arrangement import why_needed
from explorer.passes.registry import current_name
from explorer.tuning.compare import compare

WELD = "fuse (Welder)"
TIMES = (0.5, 2.0)  # that a figure of the device is varied by


@dataclass(frozen=True, slots=True)
class Cost:
    """Planned cost of a program: its time, the bytes of its arena, its kernels."""

    us: float
    bytes: int
    kernels: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A step left out alone.

    `cost` is the planned cost then, or None with the reason in `refused`. `measured` compares the
    run times, if that was requested.
    """

    step: str
    cost: Cost | None = None
    refused: str = ""
    measured: Comparison | None = None


def cost_of(c: Compilation, sizes: Sizes | None = None) -> Cost:
    """Return the planned cost of a compilation: a prediction."""
    wall, memory = c.planned_wall(sizes), c.memory(sizes)
    return Cost(wall.total_us, memory.planned_bytes, len(c.program.kernel_calls))


def changed_something(c: Compilation) -> tuple[str, ...]:
    """Return the names of the steps that had an effect."""
    return tuple(s.name for s in c.snapshots if did(s))


def without(c: Compilation, step: str, until: Stage = Stage.PLANNED) -> Compilation:
    """Compile the same model with one more step off.

    Without fusion nothing is fused, but the step runs, because later steps need the tile graph.

    Raises:
        BadOption: Another step needs the result of this one.
    """
    step = current_name(step)
    if step == WELD:
        return c.with_options(until=until, welder=replace(c.options.welder, enabled=False))
    steps = replace(c.options.steps, off=(*c.options.steps.off, step))
    return c.with_options(until=until, steps=steps)


def leave_one_out(
    c: Compilation, sizes: Sizes | None = None, inputs: Mapping[str, np.ndarray] | None = None
) -> Iterator[LeftOut]:
    """Yield each step that had an effect, left out alone.

    With `inputs` each variant whose plan differs is timed in turns with the full pipeline.
    """
    full, all_steps = cost_of(c, sizes), pipeline(c.options, c.device)
    for step in changed_something(c):
        why = why_needed(all_steps, step)
        if why and step != WELD:
            yield LeftOut(step, refused=why)
            continue
        try:
            cost = cost_of(without(c, step), sizes)
            measured = None
            if inputs is not None and cost != full:
                end = Stage.EMITTED
                measured = compare(without(c, step, end), c.with_options(until=end), inputs)
            yield LeftOut(step, cost, measured=measured)
        except Cancelled:
            raise
        except IronworksError as problem:
            yield LeftOut(step, refused=problem.sentence)


class Taken(Protocol):
    """A step with the programs before and after it."""

    @property
    def before(self) -> Program:
        """The program before the step."""

    @property
    def after(self) -> Program:
        """The program after the step."""


def did(step: Taken) -> bool:
    """Return True if a step changed the program or a decision about it."""
    return step.before.decisions is not step.after.decisions or _other(step.before, step.after)


def _other(before: Program, after: Program) -> bool:
    """Return True if a binding is new, gone or different."""
    if before.functions is after.functions:
        return False
    old, new = ({b.vars: b for _, b in p.bindings()} for p in (before, after))
    return old != new


@dataclass(frozen=True, slots=True)
class Varied:
    """A figure at another value, with the planned times of a run in microseconds.

    `same_us` is that of the same program, `anew_us` that of one compiled for the changed device;
    None with the reason in `refused`.
    """

    name: str
    times: float
    value: float
    same_us: float | None = None
    anew_us: float | None = None
    refused: str = ""


def varied_figures(c: Compilation) -> tuple[Figure, ...]:
    """Return the figures that are varied: units, sizes and speeds of memory, and runtime costs."""
    return tuple(f for f in figures(c.device) if f.group not in (COSTS, LIMIT) and f.value)


def vary_each(c: Compilation, sizes: Sizes | None = None) -> Iterator[Varied]:
    """Yield each figure alone, halved and doubled; raise BadOption if nothing is planned yet."""
    sizes = dict(sizes or c.hint)
    c.planned_wall(sizes)
    for figure in varied_figures(c):
        for times in TIMES:
            value = figure.value * times
            value = float(max(1, int(value))) if figure.number.is_integer else value
            if value != figure.value:
                yield _varied(c, figure.name, times, value, sizes)


def _varied(c: Compilation, name: str, times: float, value: float, sizes: Sizes) -> Varied:
    """Plan for one changed figure."""
    others = {**dict(c.options.hardware.changed), name: value}
    varied = Varied(name, times, value)
    try:
        hardware = Options(tuple(others.items()))
        same = c.same_program(hardware).planned_wall(sizes).total_us
        varied = Varied(name, times, value, same)
        anew = c.with_options(until=Stage.PLANNED, hardware=hardware)
        return Varied(name, times, value, same, anew.planned_wall(sizes).total_us)
    except Cancelled:
        raise
    except IronworksError as problem:
        return Varied(name, times, value, varied.same_us, refused=problem.sentence)
