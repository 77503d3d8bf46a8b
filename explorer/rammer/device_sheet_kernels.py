"""Operators on a data-sheet device: rKernels from grids of thread blocks, and units from how many
blocks a multiprocessor holds (Rammer, section 4.2).

A vEU is a place for a resident block; a multiprocessor has as many as let the wall of all operators
end first, each with a grid of whose blocks it holds that many. How long a block takes depends on
how many run beside it; a schedule needs one number, so it is that of its wave: with all blocks of
the operators that do not need each other, at most as many as there are units. What other waves do
meanwhile is left out. Op-by-op, an operator has the device to itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.cost.thread_blocks import AS_FAST_RATIO, ThreadBlocks
from explorer.devices.model import Device
from explorer.rammer.model import Facts, RKernel, ROperator, VDevice
from explorer.rammer.policies.topological_levels import waves

MOST_WAYS = 4  # numbers of resident blocks whose walls are laid; chosen


@dataclass(frozen=True, slots=True)
class GridOperator:
    """An operator of a run with the grids that it could be launched with; none: it has no tasks."""

    name: str
    grids: tuple[ThreadBlocks, ...]
    reads: tuple[int, ...] = ()
    origin: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GridPair:
    """The two grids that a policy may choose from."""

    fastest: ThreadBlocks
    efficient: ThreadBlocks


def choose_pair(grids: Sequence[ThreadBlocks], device: Device, held: int = 0) -> GridPair:
    """The grid that is fastest alone, and the one that takes least time times resources: of those
    of which a multiprocessor holds `held`, for the blocks beside one are other operators' too, and
    no more of them run there; of all, and as many as it has room for, where that is not said.
    """
    fits = [b for b in grids if b.resident(device) >= held] or grids
    whole = [(b.whole_us(device, held), b) for b in fits]
    limit = AS_FAST_RATIO * min(us for us, _ in whole)
    fast = [b for us, b in whole if us <= limit]
    area = [(b.area_us(device), b) for b in fits]
    return GridPair(min(fast, key=lambda b: b.area_us(device)), min(area, key=lambda x: x[0])[1])


def resident_blocks(runs: Sequence[Sequence[GridOperator]], device: Device) -> list[int]:
    """How many blocks may share a multiprocessor, that with which all operators, one after the
    other, end first in front; of such numbers the least, for blocks beside each other take turns,
    and before them those of which one grid fills it. With one of them grids are out of which it
    does not hold so many.
    """
    every = Counter(id(o.grids) for run in runs for o in run if o.grids)
    known = {id(o.grids): o.grids for run in runs for o in run if o.grids}
    resident = {n: [b.resident(device) for b in grids] for n, grids in known.items()}
    most = min((max(found) for found in resident.values()), default=1)
    full = sorted({min(n, most) for found in resident.values() for n in found})
    fewer = [n for n in range(1, min(most, MOST_WAYS) + 1) if n not in full]

    def total_us(held: int) -> float:
        return sum(
            times
            * min(b.whole_us(device, held) for b, n in zip(known[g], resident[g]) if n >= held)
            for g, times in every.items()
        )

    return sorted((*full, *fewer), key=total_us) or [1]


def virtual_devices(
    runs: Sequence[Sequence[GridOperator]], device: Device, alone: bool = False, units: int = 0
) -> tuple[VDevice, ...]:
    """The units that a device may have for some runs, the ones that are estimated to be best first:
    an estimate knows neither who waits for whom nor who runs beside, which a wall does.
    """
    held = resident_blocks(runs, device)[:MOST_WAYS]
    return tuple(dict.fromkeys(_vdevice(runs, device, n, alone, units) for n in held))


def _vdevice(
    runs: Sequence[Sequence[GridOperator]], device: Device, held: int, alone: bool, units: int
) -> VDevice:
    """The units of a device for some runs: multiprocessors by resident blocks, and no more than the
    widest wave has blocks for. No grid is offered that would leave all others fewer. `alone`: only
    the fastest may be chosen; `units`: as many as asked, not 0.
    """
    crowds = (_crowds(run, _pairs(run, device, held), alone) for run in runs)
    widest = max((n for crowd in crowds for both in crowd for n in both), default=1)
    held = max(1, min(held, -(-widest // device.units)))
    count = units or device.units * held
    each = -(-count // device.units)
    return VDevice(
        count, device.barrier_us, device.launch_us, per_core=min(held, each), together=True
    )


def device_facts(
    run: Sequence[GridOperator], device: Device, vdevice: VDevice, alone: bool = False
) -> Facts:
    """The operators of a run with their rKernels, timed beside their waves, or alone."""
    pairs = _pairs(run, device, vdevice.per_core)
    crowds = _crowds(run, pairs, alone)
    made = []
    for o, pair, crowd in zip(run, pairs, crowds, strict=True):
        if pair is None:
            made.append(ROperator(o.name, 0, 0.0, o.reads, o.origin))
            continue
        kernels = [_kernel("fastest", pair.fastest, crowd[0], device, vdevice)]
        if not alone and pair.efficient != pair.fastest:
            kernels.append(_kernel("efficient", pair.efficient, crowd[1], device, vdevice))
        first = kernels[0]
        made.append(
            ROperator(o.name, first.tasks, first.task_us, o.reads, o.origin, tuple(kernels))
        )
    return Facts(tuple(made), vdevice)


def _pairs(run: Sequence[GridOperator], device: Device, held: int) -> list[GridPair | None]:
    """The pair of each operator, those of equal kernels chosen once."""
    known: dict[int, GridPair | None] = {}
    for o in run:
        if id(o.grids) not in known:
            known[id(o.grids)] = choose_pair(o.grids, device, held) if o.grids else None
    return [known[id(o.grids)] for o in run]


def _kernel(
    name: str, blocks: ThreadBlocks, crowd: int, device: Device, vdevice: VDevice
) -> RKernel:
    beside, flying = blocks.beside(device, crowd, vdevice.per_core)
    task_us = blocks.task_us(beside, min(flying, vdevice.units))
    return RKernel(name, blocks.grid, task_us, block=blocks.block)


def _crowds(
    run: Sequence[GridOperator], pairs: Sequence[GridPair | None], alone: bool
) -> list[tuple[int, int]]:
    """For each operator the blocks that there are of its wave, all fastest and all efficient."""
    counts = [(p.fastest.grid, p.efficient.grid) if p else (0, 0) for p in pairs]
    if alone:
        return counts
    found = list(counts)
    order = Facts(tuple(ROperator(o.name, 1, 1.0, o.reads) for o in run), VDevice(1))
    for wave in waves(order):
        total = (sum(counts[n][0] for n in wave), sum(counts[n][1] for n in wave))
        for n in wave:
            found[n] = total
    return found
