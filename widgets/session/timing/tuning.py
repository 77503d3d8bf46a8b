"""A tile tried by hand: the rule that it breaks, the model's prediction, and its timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from explorer.devices.model import Device
from explorer.errors import AnswerMismatch, BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.measure.compare import Comparison, comparison
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.measure.turns import LEAST_TO_COMPARE, LONG_NS, Series, take_turns
from explorer.roller.tiles.weigh import weigh
from explorer.roller.tiling_space import cut_axes
from explorer.tile.lowering.lower import tensor_contraction
from explorer.tuning.answers import agree
from explorer.tuning.kernel_timing import Operands, PreparedKernel, prepare
from widgets.session.timing.jobs import Job
from widgets.session.timing.watched import Rounds

BATCHES = 3  # of 20 rounds each; one where a run is long
MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel in normal form with the tile in use, on a device at a binding.

    `label` is the name that readers see.
    """

    binding: str
    label: str
    kernel: Kernel
    tiling: Tiling
    device: Device
    env: ShapeEnv
    sizes: Sizes
    threads: int

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """The axes that can be cut, outermost first, with their extents."""
        return tuple((a.name, evaluate_dim(a.extent, self.sizes)) for a in cut_axes(self.kernel))

    @property
    def contracts(self) -> bool:
        """True if there is a register tile to choose."""
        return any(tensor_contraction(self.kernel, c) for c in self.kernel.computes)


def fields_of(tiling: Tiling, s: Subject) -> dict[str, Any]:
    """Return a tiling as the fields of a form; an axis that is not cut has its extent."""
    inside = {f.name: getattr(tiling, f.name) for f in fields(Tiling) if f.name != "tile"}
    micro = inside.pop("micro")
    tile = {axis: tiling.size(axis) or extent for axis, extent in s.axes}
    return {"tile": tile, "rows": micro.rows, "vectors": micro.vectors, **inside}


def tiling_of(form_fields: Mapping[str, Any], s: Subject) -> Tiling:
    """Return the tiling that a form describes.

    Fields that are missing are those of the tile in use. Raises BadOption for an invalid field.
    """
    field_names = {"tile", "rows", "vectors", *(f.name for f in fields(Tiling))} - {"micro"}
    if unknown := sorted(set(form_fields) - field_names):
        raise BadOption(f"a tile has no field {unknown[0][:40]!r}")
    sizes = form_fields.get("tile", {})
    if not isinstance(sizes, Mapping):
        raise BadOption("the sizes of a tile are given by axis")
    extents = dict(s.axes)
    if strange := sorted(set(sizes) - set(extents)):
        have = ", ".join(extents) or "none"
        raise BadOption(f"{s.label} has no axis {str(strange[0])[:40]!r} to cut: it has {have}")
    has_static_extent = {
        name: isinstance(a.extent, int) for a in cut_axes(s.kernel) for name in (a.name,)
    }
    cut = tuple(
        (axis, size)
        for axis, extent in extents.items()
        if (size := _number(axis, sizes.get(axis, extent), 1)) < extent
        or not has_static_extent[axis]
    )
    used = s.tiling.micro
    rows = _number("rows", form_fields.get("rows", used.rows), 1)
    vectors = _number("vectors", form_fields.get("vectors", used.vectors), 1)
    inside = {
        f.name: _inside(f.name, form_fields.get(f.name, getattr(s.tiling, f.name)), f.default)
        for f in fields(Tiling)
        if f.name not in ("tile", "micro")
    }
    return Tiling(cut, Micro(rows, vectors, used.lanes), **inside)


def _inside(name: str, value: object, default: object) -> Any:
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise BadOption(f"{name} must be true or false, not {str(value)[:20]!r}", where=name)
        return value
    return _number(name, value, 0)


def _number(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < MOST:
        problem = f"{name} is a whole number from {least}, not {str(value)[:20]!r}"
        raise BadOption(problem, where=name, expected=f"{least} or more", actual=str(value)[:20])
    return value


def judge_tiling(tiling: Tiling, s: Subject) -> Candidate[Tiling]:
    """Return the modelled time of a tiling, or the rule that it breaks with its numbers."""
    return weigh(s.kernel, tiling, s.device, s.env, s.sizes)


def rounds_of(s: Subject, tiling: Tiling) -> int:
    """Return the number of rounds of a timing, as the model predicts."""
    long = judge_tiling(tiling, s).cost_us * 1e3 > LONG_NS
    return LEAST_TO_COMPARE * (1 if long else BATCHES)


def timed(
    s: Subject, tiling: Tiling, job: Job, clock: Callable[[], int] = perf_counter_ns
) -> Comparison:
    """Time the tiling against the one in use, in turns on the same operands.

    `ratio` above 1 means that it is faster. Raises BadOption for an illegal tiling, AnswerMismatch
    if the two disagree, and Cancelled.
    """
    if why := judge_tiling(tiling, s).refused:
        raise BadOption(f"this tile of {s.label} is not legal: {why}", where=s.binding)
    operands = Operands(s.kernel, s.sizes)
    job.report(0)
    first, second = (
        prepare(s.kernel, t, operands, this_cpu(), s.threads, s.env) for t in (tiling, s.tiling)
    )
    job.report(0)
    _check(first, second, s.label)
    rounds = Rounds(job)
    works = (rounds.counted(first.launch, 0), rounds.counted(second.launch, 1))
    batches = [take_turns(works, 0.0, clock) for _ in range(job.of // LEAST_TO_COMPARE)]
    job.report(job.of)
    return comparison(_join_batches(batches, 0, first.runs), _join_batches(batches, 1, second.runs))


def _check(first: PreparedKernel, second: PreparedKernel, name: str) -> None:
    first.launch(1)
    ours: np.ndarray = first.output.copy()
    second.launch(1)
    if not agree(ours, second.output):
        raise AnswerMismatch(f"two tiles of {name} give different results", where=name)


def _join_batches(batches: list[tuple[Series, ...]], which: int, runs: int) -> Series:
    """Return all turns of one function, per run instead of per launch."""
    mine = [batch[which] for batch in batches]
    turns = [[time / runs for time in turn] for series in mine for turn in series.turns]
    return replace(mine[0], calls=mine[0].calls * runs, turns=turns)
