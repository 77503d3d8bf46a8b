"""What each step is worth: the plan without it beside the plan with all of them, and the clock's
word on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.compilation import Compilation
from explorer.compiler import pipeline
from explorer.errors import Cancelled, IronworksError
from explorer.ir.shapes.dims import Sizes
from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison
from explorer.passes.switches.arrangement import why_needed
from explorer.stepping.effects import did
from explorer.tuning.what_if import compare

WELD = "weld"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a program is planned to take: its time, the bytes of its arena, its kernels."""

    us: float
    bytes: int
    kernels: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A step left out alone: what the program is then planned to take (None: why not, `refused`),
    and how often as fast it is as with all steps by the clock, where that was asked.
    """

    step: str
    cost: Cost | None = None
    refused: str = ""
    measured: Comparison | None = None


def cost_of(c: Compilation, sizes: Sizes | None = None) -> Cost:
    """What a planned compilation takes by its plan: a prediction."""
    wall, memory = c.planned_wall(sizes), c.memory(sizes)
    return Cost(wall.total_us, memory.planned_bytes, len(c.program.kernel_calls))


def changed_something(c: Compilation) -> tuple[str, ...]:
    """The steps that did something."""
    return tuple(s.name for s in c.snapshots if did(s))


def without(c: Compilation, step: str, until: Stage = Stage.PLANNED) -> Compilation:
    """The same model with one more step off, or with nothing welded: what follows needs the tile
    graph all the same. BadOption where another step needs what this one makes.
    """
    if step == WELD:
        return c.with_options(until=until, welder=replace(c.options.welder, enabled=False))
    steps = replace(c.options.steps, off=(*c.options.steps.off, step))
    return c.with_options(until=until, steps=steps)


def leave_one_out(
    c: Compilation, sizes: Sizes | None = None, inputs: Mapping[str, np.ndarray] | None = None
) -> Iterator[LeftOut]:
    """Each step that did something, left out alone. With `inputs` each is timed in turns with the
    one with all steps, where its plan is another one.
    """
    whole, all_steps = cost_of(c, sizes), pipeline(c.options, c.device)
    for step in changed_something(c):
        why = why_needed(all_steps, step)
        if why and step != WELD:
            yield LeftOut(step, refused=why)
            continue
        try:
            found = cost_of(without(c, step), sizes)
            measured = None
            if inputs is not None and found != whole:
                end = Stage.EMITTED
                measured = compare(without(c, step, end), c.with_options(until=end), inputs)
            yield LeftOut(step, found, measured=measured)
        except Cancelled:
            raise
        except IronworksError as problem:
            yield LeftOut(step, refused=problem.sentence)
