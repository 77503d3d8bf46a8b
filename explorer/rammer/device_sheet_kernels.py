"""Operators of a data-sheet device: rKernels from grids of thread blocks, units from occupancy.

A vEU is a place for a resident block (Rammer, section 4.2). A multiprocessor has the number of them
with which the wall of all operators ends first, each operator with a grid of which that many blocks
fit. The time of a block depends on the number of concurrent blocks; a schedule needs one number, so
it is that of its wave: with all blocks of the operators that are independent of each other, at most
as many as there are units. Blocks of other waves are neglected. In op-by-op schedules an operator
has the device to itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.cost.thread_blocks import AS_FAST_RATIO, ThreadBlocks
from explorer.devices.model import Device
from explorer.rammer.model import Facts, RKernel, ROperator, VDevice
from explorer.rammer.wavefront import waves

MOST_RESIDENT_COUNTS = 4  # numbers of resident blocks whose walls are laid; chosen


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


def choose_pair(grids: Sequence[ThreadBlocks], device: Device, resident: int = 0) -> GridPair:
    """Return the grid that is fastest alone, and the one with the least time times resources.

    With `resident`, only grids count whose blocks fit that many to a multiprocessor, and no more
    of them run there, because the others are of other operators. With 0, all grids count, at their
    full occupancy.
    """
    fits = [b for b in grids if b.resident(device) >= resident] or grids
    times = [(b.whole_us(device, resident), b) for b in fits]
    limit = AS_FAST_RATIO * min(us for us, _ in times)
    fast = [b for us, b in times if us <= limit]
    area = [(b.area_us(device), b) for b in fits]
    return GridPair(min(fast, key=lambda b: b.area_us(device)), min(area, key=lambda x: x[0])[1])


def resident_blocks(runs: Sequence[Sequence[GridOperator]], device: Device) -> list[int]:
    """Return the possible numbers of resident blocks of a multiprocessor, best first.

    The best number is that with which all operators, one after the other, end first; on a tie the
    least of the numbers with which some grid fills a multiprocessor, because concurrent blocks
    share its time. A number excludes grids of which fewer blocks fit.
    """
    every = Counter(id(o.grids) for run in runs for o in run if o.grids)
    grids_of = {id(o.grids): o.grids for run in runs for o in run if o.grids}
    resident = {n: [b.resident(device) for b in grids] for n, grids in grids_of.items()}
    most = min((max(counts) for counts in resident.values()), default=1)
    full = sorted({min(n, most) for counts in resident.values() for n in counts})
    fewer = [n for n in range(1, min(most, MOST_RESIDENT_COUNTS) + 1) if n not in full]

    def total_us(count: int) -> float:
        """Return the time of all operators with this number of resident blocks."""
        return sum(
            times
            * min(b.whole_us(device, count) for b, n in zip(grids_of[g], resident[g]) if n >= count)
            for g, times in every.items()
        )

    return sorted((*full, *fewer), key=total_us) or [1]


def virtual_devices(
    runs: Sequence[Sequence[GridOperator]], device: Device, alone: bool = False, units: int = 0
) -> tuple[VDevice, ...]:
    """Return the vDevices that a device may be for some runs, best estimate first.

    An estimate knows neither waits nor concurrent operators, unlike a wall.
    """
    candidates = resident_blocks(runs, device)[:MOST_RESIDENT_COUNTS]
    return tuple(dict.fromkeys(_vdevice(runs, device, n, alone, units) for n in candidates))


def _vdevice(
    runs: Sequence[Sequence[GridOperator]], device: Device, resident: int, alone: bool, units: int
) -> VDevice:
    """Return the vDevice with this number of resident blocks, if the widest wave fills it.

    No grid is offered that would leave all others fewer. `alone`: only the fastest may be chosen;
    `units`: that many units, unless 0.
    """
    crowds = (_crowds(run, _pairs(run, device, resident), alone) for run in runs)
    widest = max((n for crowd in crowds for both in crowd for n in both), default=1)
    resident = max(1, min(resident, -(-widest // device.units)))
    count = units or device.units * resident
    each = -(-count // device.units)
    return VDevice(
        count, device.barrier_us, device.launch_us, per_core=min(resident, each), together=True
    )


def device_facts(
    run: Sequence[GridOperator], device: Device, vdevice: VDevice, alone: bool = False
) -> Facts:
    """Return the operators of a run with their rKernels, timed beside their waves, or alone."""
    pairs = _pairs(run, device, vdevice.per_core)
    crowds = _crowds(run, pairs, alone)
    operators = []
    for o, pair, crowd in zip(run, pairs, crowds, strict=True):
        if pair is None:
            operators.append(ROperator(o.name, 0, 0.0, o.reads, o.origin))
            continue
        kernels = [_kernel("fastest", pair.fastest, crowd[0], device, vdevice)]
        if not alone and pair.efficient != pair.fastest:
            kernels.append(_kernel("efficient", pair.efficient, crowd[1], device, vdevice))
        first = kernels[0]
        operators.append(
            ROperator(o.name, first.tasks, first.task_us, o.reads, o.origin, tuple(kernels))
        )
    return Facts(tuple(operators), vdevice)


def _pairs(run: Sequence[GridOperator], device: Device, resident: int) -> list[GridPair | None]:
    """Return the grid pair of each operator, chosen once for equal kernels."""
    pairs: dict[int, GridPair | None] = {}
    for o in run:
        if id(o.grids) not in pairs:
            pairs[id(o.grids)] = choose_pair(o.grids, device, resident) if o.grids else None
    return [pairs[id(o.grids)] for o in run]


def _kernel(
    name: str, blocks: ThreadBlocks, crowd: int, device: Device, vdevice: VDevice
) -> RKernel:
    beside, flying = blocks.beside(device, crowd, vdevice.per_core)
    task_us = blocks.task_us(beside, min(flying, vdevice.units))
    return RKernel(name, blocks.grid, task_us, block=blocks.block)


def _crowds(
    run: Sequence[GridOperator], pairs: Sequence[GridPair | None], alone: bool
) -> list[tuple[int, int]]:
    """Return for each operator the blocks of its wave: with all fastest and all efficient grids."""
    counts = [(p.fastest.grid, p.efficient.grid) if p else (0, 0) for p in pairs]
    if alone:
        return counts
    crowds = list(counts)
    order = Facts(tuple(ROperator(o.name, 1, 1.0, o.reads) for o in run), VDevice(1))
    for wave in waves(order):
        total = (sum(counts[n][0] for n in wave), sum(counts[n][1] for n in wave))
        for n in wave:
            crowds[n] = total
    return crowds
