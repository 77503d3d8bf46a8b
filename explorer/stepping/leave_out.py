"""Ablation: the plan without each step beside the plan with all of them, predicted and timed."""

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
from explorer.passes.pipeline.former_names import current_name
from explorer.passes.switches.arrangement import why_needed
from explorer.stepping.effects import did
from explorer.tuning.compare import compare

WELD = "fuse (Welder)"


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
