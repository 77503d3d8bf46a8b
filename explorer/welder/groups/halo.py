"""Halos: values that neighbouring tiles both need and both compute."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.ir.affine import Affine
from explorer.ir.kernel import Compute, Kernel, Read
from explorer.ir.patterns.contraction import contraction
from explorer.ir.shapes.dims import ShapeEnv
from explorer.welder.groups.groups import Facts, Merge
from explorer.welder.model import loads_of, points

FLOPS = 2.0  # of a product and its sum


@dataclass(frozen=True, slots=True)
class Halo:
    """The overlap of a reader's windows.

    `share`: the least part of the producer's work that is repeated if each unit has one tile:
    `rows` of overlap at each border between two of them.
    """

    rows: int
    share: float
    least_us: float


def halo(merge: Merge, facts: Facts) -> Halo | None:
    """Return the work that the reader's tiles repeat, None if no windows overlap.

    It is a lower bound: one cut for each unit, along the dim in which the fewest values overlap.
    """
    overlaps = [
        overlap
        for c, r in loads_of(merge.consumer, merge.tensor)
        if (overlap := _overlap(c, r, merge.consumer, facts.env)) is not None
    ]
    if not overlaps:
        return None
    rows, extent = max(overlaps, key=lambda o: o[0] / o[1])
    cuts = max(0, facts.device.units - 1)
    share = rows * cuts / extent
    return Halo(rows, share, share * work_us(merge.producer, facts))


def _overlap(c: Compute, read: Read, kernel: Kernel, env: ShapeEnv) -> tuple[int, int] | None:
    """Return the values that two neighbouring windows share, and the extent.

    It is the dim of a load in which these are the least part of it.
    """
    spatial = {a.name for a in c.axes}
    reduced = {a.name: env.hint(a.extent) for a in c.reduce}
    overlaps = []
    for index, extent in zip(read.index, kernel.shape(read.tensor), strict=True):
        if not isinstance(index, Affine) or not index.variables & spatial:
            continue
        steps = [abs(env.hint(k)) for n, k in index.terms if n in spatial]
        reach = 1 + sum(abs(env.hint(k)) * (reduced[n] - 1) for n, k in index.terms if n in reduced)
        overlaps.append((max(0, reach - min(steps)), max(1, env.hint(extent))))
    overlapping = [o for o in overlaps if o[0] > 0]
    if not overlapping:
        return None
    return min(overlaps, key=lambda o: o[0] / o[1]) if len(overlaps) > 1 else overlaps[0]


def work_us(kernel: Kernel, facts: Facts) -> float:
    """Return the least time of a kernel on all units: its arithmetic at the peak rate."""
    env, device = facts.env, facts.device
    flops = 0.0
    for c in kernel.computes:
        each = FLOPS if contraction(c) is not None else 1.0
        flops += each * points(c, env) * prod(env.hint(a.extent) for a in c.reduce)
    return flops / (device.peak_gflops_per_unit * 1e3 * max(1, device.units))
