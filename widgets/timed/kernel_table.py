"""Every kernel of the program where it runs: least possible time, planned time, measured time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from explorer.cost.bind_kernel import bind_kernel
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
    """The least possible time of a kernel.

    The longer of its operations at the device's peak, and of its bytes, each operand once, at the
    bandwidth of the nearest level that holds them all. `bound` names the longer: "compute" or the
    level.
    """

    us: float
    bound: str
    operations: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel call.

    `planned_us` and `measured` are times of the busiest unit, per run of the call. `floor` is None
    if its sizes are known only at run time.
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
        """The measured time, else the planned one."""
        return self.measured.median_us if self.measured else self.planned_us

    @property
    def share(self) -> float:
        """The floor's share of that time; 0 without a floor."""
        return self.floor.us / self.us if self.floor and self.us else 0.0


@dataclass(frozen=True, slots=True)
class KernelRows:
    """The kernels, longest first; `figures` is the source of the device's figures."""

    device: str
    figures: str
    units: int
    own: bool
    kernels: tuple[KernelRow, ...]

    @property
    def measured(self) -> bool:
        """True if any kernel was measured."""
        return any(k.measured for k in self.kernels)


def data(
    now: Setting, house: House, planned: WallRows, measured: Mapping[str, Measurement]
) -> KernelRows:
    """Return the kernels of a planned wall, with their measurements."""
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
    """Return the least time of a kernel on these units; None unless all its sizes are known."""
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
    """Yield for each compute its operations and the bytes of an element.

    Twice as many operations on half the bytes run at once.
    """
    for c in kernel.computes:
        points = prod(evaluate_dim(a.extent, {}) for a in (*c.axes, *c.reduce))
        item = min(ITEM_BYTES["float32"], ITEM_BYTES[kernel.dtype(c.out)])
        yield points * (operations_of(c.expr) + (c.combiner is not None)), item


def _nearest(device: Device, units: int, count: int) -> tuple[str, float]:
    """Return the nearest level that holds `count` bytes, and its bandwidth in GB/s.

    On a GPU only shared levels count: near memory does not outlive a kernel.
    """
    levels = [m for m in device.levels if m.shared or device.kind == "cpu"] or [device.levels[-1]]
    speed = {r.level: r.gb_per_s for r in roofs(device, units)}
    for m in levels:
        if m.capacity_bytes is None or count <= m.capacity_bytes * (1 if m.shared else units):
            return m.name, speed[m.name]
    return levels[-1].name, speed[levels[-1].name]


def busiest_us(wall: WallRows, tasks: Mapping[str, int] | None = None) -> dict[str, float]:
    """Return by call the time of its busiest unit.

    If `tasks` gives a call's tasks per run, it is the time per run: a loop runs it several times.
    """
    by_call = {}
    done = tasks_of(wall)
    spent = _by_unit(wall)
    for n, call in enumerate(wall.calls):
        if call.name in done:
            times = done[call.name] / tasks[call.name] if tasks and call.name in tasks else 1.0
            by_call[call.name] = float(spent[:, n].max()) / times
    return by_call


def tasks_of(wall: WallRows) -> dict[str, int]:
    """Return by call the number of tasks in its bricks."""
    count = (wall.last.astype(np.int64) - wall.first.astype(np.int64)) + 1
    every = np.bincount(wall.call, count, len(wall.calls))
    return {call.name: int(n) for call, n in zip(wall.calls, every) if n}


def _by_unit(wall: WallRows) -> NDArray[np.float64]:
    """Return the time by unit and call."""
    lanes, calls = wall.lanes, len(wall.calls)
    where = wall.unit.astype(np.int64) * calls + wall.call
    spent = np.bincount(where, wall.end - wall.start, lanes * calls)
    return np.asarray(spent, np.float64).reshape(lanes, calls)


def measurements(runs: Sequence[Mapping[str, float]]) -> dict[str, Measurement]:
    """Return by call the median of many runs with its interval; empty with too few runs."""
    from explorer.measure.interval import LEAST_VALUES, median_interval
    from explorer.measure.machine import machine

    if len(runs) < LEAST_VALUES:
        return {}
    by_call = {}
    for call in runs[0]:
        series = [run[call] for run in runs if call in run]
        if len(series) == len(runs):
            i = median_interval(series)
            by_call[call] = Measurement(i.median, i.low, i.high, len(series), machine().line)
    return by_call
