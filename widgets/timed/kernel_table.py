"""Every kernel of the program where it runs: the least that the device could take for it, what is
planned, and what a clock said of many runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from explorer.cost.bound import bind_kernel
from explorer.cost.traffic import traffic
from explorer.devices.model import Device
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.symbols import symbols_of_kernel
from explorer.ir.types import ITEM_BYTES
from explorer.measure.compare import Measurement
from explorer.roller.construct.expression import operations_of
from widgets.model.brick_wall import WallRows
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.roller.roofline import roofs

COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time for a kernel: of its operations at the device's peak, and of its bytes, each
    operand once, at what the nearest level that holds them all lets through. `bound` names the
    longer of both: "compute", or the level.
    """

    us: float
    bound: str
    operations: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel call: `planned_us` and `measured` are the time of the busiest unit, each time that
    the call runs. `floor` is None where a run alone tells its sizes.
    """

    call: str
    label: str
    family: str
    ops: tuple[str, ...]
    floor: Floor | None
    planned_us: float
    measured: Measurement | None

    @property
    def us(self) -> float:
        """What a clock said where it did, else what is planned."""
        return self.measured.median_us if self.measured else self.planned_us

    @property
    def share(self) -> float:
        """The floor's share of that time; 0 where there is no floor."""
        return self.floor.us / self.us if self.floor and self.us else 0.0


@dataclass(frozen=True, slots=True)
class KernelRows:
    """The kernels, those that take longest first; `figures` says where the device's are from."""

    device: str
    figures: str
    units: int
    own: bool
    kernels: tuple[KernelRow, ...]

    @property
    def measured(self) -> bool:
        """Whether a clock ran."""
        return any(k.measured for k in self.kernels)


def data(
    now: Setting, house: House, planned: WallRows, measured: Mapping[str, Measurement]
) -> KernelRows:
    """The kernels of a planned wall, with what was measured of them."""
    c, device = now.compiled, now.compiled.device
    kernels = {b.name: b.kernel_call.kernel for b in c.program.kernel_calls}
    sizes = {**c.program.env.hints, **dict(now.sizes)}
    times = busiest_us(planned)
    rows = [
        KernelRow(
            call.name,
            call.label,
            call.family,
            call.ops,
            floor(kernels[call.name], device, planned.units, sizes),
            times[call.name],
            measured.get(call.name),
        )
        for call in planned.calls
        if call.name in kernels and call.name in times
    ]
    return KernelRows(
        device.name,
        getattr(device, "figures", ""),
        planned.units,
        device.kind == "cpu",
        tuple(sorted(rows, key=lambda k: -k.us)),
    )


def floor(kernel: Kernel, device: Device, units: int, sizes: Sizes) -> Floor | None:
    """The least time of a kernel on so many units; None where its sizes are not all known."""
    if not symbols_of_kernel(kernel) <= set(sizes):
        return None
    bound = bind_kernel(kernel, {n: sizes[n] for n in symbols_of_kernel(kernel)})
    count = traffic(bound, {}).total_bytes
    work = list(_operations(bound))
    peak = device.peak_gflops_per_unit * units
    computing = sum(n * item / ITEM_BYTES["float32"] for n, item in work) / peak / 1e3
    level, gb_per_s = _nearest(device, units, count)
    moving = count / gb_per_s / 1e3
    name = COMPUTE if computing >= moving else level
    return Floor(max(computing, moving), name, sum(n for n, _ in work), count)


def _operations(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """Of each compute: its operations, and the bytes of the elements that they are done on. Twice
    as many of half the bytes are done at once.
    """
    for c in kernel.computes:
        points = prod(evaluate_dim(a.extent, {}) for a in (*c.axes, *c.reduce))
        item = min(ITEM_BYTES["float32"], ITEM_BYTES[kernel.dtype(c.out)])
        yield points * (operations_of(c.expr) + (c.combiner is not None)), item


def _nearest(device: Device, units: int, count: int) -> tuple[str, float]:
    """The nearest level that holds so many bytes, and what it lets through; on a GPU, whose near
    memory does not outlive a kernel, of those that all units share.
    """
    levels = [m for m in device.levels if m.shared or device.kind == "cpu"] or [device.levels[-1]]
    speed = {r.level: r.gb_per_s for r in roofs(device, units)}
    for m in levels:
        if m.capacity_bytes is None or count <= m.capacity_bytes * (1 if m.shared else units):
            return m.name, speed[m.name]
    return levels[-1].name, speed[levels[-1].name]


def busiest_us(wall: WallRows, tasks: Mapping[str, int] | None = None) -> dict[str, float]:
    """By call the time of the unit that has most of it; each time that it runs, where `tasks` says
    how many it then has: a loop runs it again.
    """
    found = {}
    done = tasks_of(wall)
    spent = _by_unit(wall)
    for n, call in enumerate(wall.calls):
        if call.name in done:
            times = done[call.name] / tasks[call.name] if tasks and call.name in tasks else 1.0
            found[call.name] = float(spent[:, n].max()) / times
    return found


def tasks_of(wall: WallRows) -> dict[str, int]:
    """By call how many tasks its bricks have."""
    count = (wall.last.astype(np.int64) - wall.first.astype(np.int64)) + 1
    every = np.bincount(wall.call, count, len(wall.calls))
    return {call.name: int(n) for call, n in zip(wall.calls, every) if n}


def _by_unit(wall: WallRows) -> NDArray[np.float64]:
    """Time by unit and call."""
    lanes, calls = wall.lanes, len(wall.calls)
    where = wall.unit.astype(np.int64) * calls + wall.call
    spent = np.bincount(where, wall.end - wall.start, lanes * calls)
    return np.asarray(spent, np.float64).reshape(lanes, calls)


def measurements(runs: Sequence[Mapping[str, float]]) -> dict[str, Measurement]:
    """By call the median of many runs with its interval; nothing where they are too few for one."""
    from explorer.measure.interval import LEAST_VALUES, median_interval
    from explorer.measure.machine import machine

    if len(runs) < LEAST_VALUES:
        return {}
    found = {}
    for call in runs[0]:
        series = [run[call] for run in runs if call in run]
        if len(series) == len(runs):
            i = median_interval(series)
            found[call] = Measurement(i.median, i.low, i.high, len(series), machine().line)
    return found
