"""Every kernel of the program where it runs: least possible time, planned time, measured time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from explorer.cost.bind_kernel import bind_kernel
from explorer.cost.traffic import traffic
from explorer.devices.catalogue import unit_word
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.kernel import Kernel, operations_of
from explorer.ir.stage import Stage
from explorer.ir.symbols import symbols_of_kernel
from explorer.ir.types import ITEM_BYTES
from explorer.measure.compare import Measurement
from explorer.plain_text import counted
from widgets.draw.plots import colours, least_height, styled
from widgets.draw.table import Cell, Mark, Sentence, Table, size_text, time_text
from widgets.model import brick_wall
from widgets.model.brick_wall import WallRows, units_text
from widgets.model.compiled import COLUMNS, Arrays, cells, measured_text, whiskers
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.picture import Clock, Drawn, OnShow, Picture
from widgets.roller.roofline import COMPUTE, roofs

NAME = "kernels"
RUNS, SECONDS = 40, 3.0  # of the program, at most: then 8 are enough
LEAST = 8
MOST = 16  # that the chart has room for
ROOM = 1.26  # times the longest: for the words behind its bar
CUT = 2.0  # times the longest: no interval is drawn further


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
    target = target_of(device)
    kernels = {b.name: b.kernel_call.kernel for b in c.program.kernel_calls}
    sizes = {**c.program.env.hints, **dict(now.sizes)}
    times = busiest_us(planned)
    units = min(planned.units, device.units)  # a GPU's wall has a lane for each resident block
    rows = [
        KernelRow(
            call.name,
            call.label,
            call.family,
            call.ops,
            floor(kernels[call.name], device, units, sizes),
            times[call.name],
            measured.get(call.name),
        )
        for call in planned.calls
        if call.name in kernels and call.name in times
    ]
    return KernelRows(
        device.name,
        getattr(device, "figures", ""),
        units,
        target.is_emitted,
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
    level, gb_per_s = nearest_level(device, units, count)
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


def nearest_level(device: Device, units: int, count: int) -> tuple[str, float]:
    """Return the nearest level that holds `count` bytes, and its bandwidth in GB/s.

    Without resident workers only shared levels count: near memory does not outlive a kernel.
    """
    levels = [m for m in device.levels if m.shared or target_of(device).has_resident_workers] or [
        device.levels[-1]
    ]
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
    from explorer.measure.compare import LEAST_VALUES, median_interval
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


def caption(rows: KernelRows) -> str:
    """Return the sums of floors and times, and the kernel farthest above its floor."""
    with_floor = [k for k in rows.kernels if k.floor]
    limit_text = f"; the {MOST} longest" if len(rows.kernels) > MOST else ""
    figures = f"{rows.figures} figures" if rows.figures else "data sheet"
    least = sum(k.floor.us for k in with_floor if k.floor)
    text = (
        f"{counted(len(rows.kernels), 'kernel')} on {units_text(rows.units, rows.device)} of "
        f"{rows.device}: floor {time_text(least)} ({figures}), predicted "
        f"{time_text(sum(k.planned_us for k in rows.kernels))}"
    )
    if rows.measured:
        took = sum(k.measured.median_us for k in rows.kernels if k.measured)
        text += f", measured {time_text(took)}"
    elif rows.own:
        text += ", none measured yet"
    if not with_floor:
        return text + limit_text
    most = max(with_floor, key=lambda k: k.us - (k.floor.us if k.floor else 0.0))
    return (
        f"{text}; most above its floor: {most.label}, {1 / max(most.share, 1e-9):.1f} times as long"
    )


def see(rows: KernelRows) -> tuple[Sentence, ...]:
    """Return the sentences.

    The longest kernel, the one farthest above its floor, and the number measured below theirs.
    """
    if not rows.kernels:
        return ()
    shown, k = rows.kernels[:MOST], rows.kernels[0]
    times: Sentence = (Mark(time_text(k.planned_us), "predicted kernel:0"), " predicted")
    if k.measured:
        measured = Mark(time_text(k.measured.median_us), "measured kernel:0")
        times = (*times, ", ", measured, " measured")
    share = k.us / (sum(x.us for x in rows.kernels) or 1)
    sentences: list[Sentence] = [
        (Mark(k.label, "kernel:0"), " takes longest: ", *times, f", {share:.0%} of all kernels.")
    ]
    above = [(x.us - x.floor.us, n) for n, x in enumerate(rows.kernels) if x.floor and x.share < 1]
    if above:
        n = max(above)[1]
        label, ratio = rows.kernels[n].label, 1 / max(rows.kernels[n].share, 1e-9)
        over = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}"
        name = Mark(label, f"kernel:{n}") if n < MOST else label
        sentences.append((name, f" is farthest above its floor, the least possible time: {over}×."))
    below = [n for n, x in enumerate(shown) if x.measured and x.share > 1]
    if below:
        count = Mark(counted(len(below), "kernel"), "|".join(f"kernel:{n}" for n in below))
        sentences.append((count, " ran below the floor: the device is faster than its figures."))
    return tuple(sentences)


def table(rows: KernelRows) -> Table:
    """Return one row per kernel."""
    columns = (
        "kernel", "in the program", "family", "operations", "bytes", "floor µs", "bound by",
        "predicted µs", *COLUMNS, "floor ÷ time", "measured ÷ predicted",
    )  # fmt: skip
    cells_of_rows = tuple(map(_row, rows.kernels))
    return Table(
        columns, cells_of_rows, tuple(k.ops for k in rows.kernels), caption(rows), see(rows)
    )


def _row(k: KernelRow) -> tuple[Cell, ...]:
    f, m = k.floor, k.measured
    least: tuple[Cell, ...] = ("", "", "", "")
    if f is not None:
        least = (f.operations, f.bytes, round(f.us, 3), f.bound)
    ratio = round(m.median_us / k.planned_us, 3) if m and k.planned_us else ""
    share = f"{k.share:.1%}" if f else ""
    planned = round(k.planned_us, 3)
    return (k.label, k.call, k.family, *least, planned, *cells(m), share, ratio)


def chart(rows: KernelRows, title: str, theme: str) -> go.Figure:
    """Draw two bars per kernel, one inside the other, and a mark at the floor.

    The planned time is an outline; the measured time is filled, with its interval.
    """
    c, figure, shown = colours(theme), go.Figure(), rows.kernels[:MOST]
    names = [f"{n + 1}  {k.label}" for n, k in enumerate(shown)]
    lit = {"marker": {"color": c["accent"], "opacity": 1}}
    common = {"orientation": "h", "hovertemplate": "%{customdata}<extra></extra>"}
    figure.add_bar(
        x=[k.planned_us for k in shown],
        y=names,
        name="predicted",
        width=0.72,
        marker={"color": c["pane"], "line": {"color": c["ink2"], "width": 1}},
        customdata=list(map(words, shown)),
        selected={"marker": {"color": c["soft"], "opacity": 1}},  # the clock's bar stands on it
        unselected={"marker": {"opacity": 1}},
        meta={
            "ops": [list(k.ops) for k in shown],
            "k": [f"predicted kernel:{n}" for n in range(len(shown))],
        },
        **common,
    )
    timed = [(n, k, k.measured) for n, k in enumerate(shown) if k.measured]
    if timed:
        figure.add_bar(
            x=[m.median_us for _, _, m in timed],
            y=[names[n] for n, _, _ in timed],
            name="measured, 99 % interval",
            width=0.36,
            marker={"color": c["t2"], "line": {"color": c["line2"], "width": 1}},
            error_x=whiskers([m for _, _, m in timed], c["ink"], thickness=1.4, width=3),
            customdata=[words(k) for _, k, _ in timed],
            selected=lit,
            unselected={"marker": {"opacity": 1}},
            meta={
                "ops": [list(k.ops) for _, k, _ in timed],
                "k": [f"measured kernel:{n}" for n, _, _ in timed],
            },
            **common,
        )
    floors = [(n, k) for n, k in enumerate(shown) if k.floor]
    figure.add_scatter(
        x=[k.floor.us for _, k in floors if k.floor],
        y=[names[n] for n, _ in floors],
        name="floor, predicted",
        mode="markers",
        marker={
            "symbol": "line-ns-open",
            "size": 13,
            "color": c["bad"],
            "line": {"width": 2, "color": c["bad"]},
        },
        customdata=[words(k) for _, k in floors],
        meta={"k": [f"floor kernel:{n}" for n, _ in floors]},
        hovertemplate="%{customdata}<extra></extra>",
    )
    ends, cut = list(map(_end, shown)), _cut(shown)
    _shares(figure, shown, names, cut, c["ink"])
    most = min(cut, max(ends, default=1.0))
    figure.update_layout(barmode="overlay", meta=least_height(len(shown)))
    figure.update_xaxes(
        title=f"time of a kernel on its busiest {unit_word(rows.device)} (µs), longest first",
        range=[0, ROOM * most],
        side="top",
    )
    figure.update_yaxes(
        title="kernel",
        categoryorder="array",
        categoryarray=names,
        autorange="reversed",
    )
    return styled(figure, theme, title, max(300, 150 + 24 * len(names)), showlegend=True)


def _shares(
    figure: go.Figure, shown: Sequence[KernelRow], names: list[str], cut: float, ink: str
) -> None:
    """Write behind each bar its distance from the floor, and the end of an interval that is cut."""
    texts, cut_off = [], [_end(k) > cut for k in shown]
    for k, off in zip(shown, cut_off, strict=True):
        text = f"floor is {k.share:.0%}" if k.floor else "no floor"
        texts.append(f"to {time_text(_end(k))}; {text}" if off else f"  {text}")
    figure.add_scatter(
        x=[min(_end(k), cut) for k in shown],
        y=names,
        mode="text",
        text=texts,
        textposition=["top left" if off else "middle right" for off in cut_off],
        textfont={"color": ink, "size": 12},
        cliponaxis=False,
        meta={"k": [f"kernel:{n}" for n in range(len(shown))]},
        hoverinfo="skip",
        showlegend=False,
    )


def _cut(shown: Sequence[KernelRow]) -> float:
    """Return the end of the axis.

    A longer interval shows a disturbed machine and would leave no room for the others.
    """
    return CUT * max((max(k.planned_us, k.us) for k in shown), default=1.0)


def _end(k: KernelRow) -> float:
    high = k.measured.high_us if k.measured else 0.0
    return max(k.planned_us, high, k.floor.us if k.floor else 0.0)


def words(k: KernelRow) -> str:
    """Describe a kernel in a sentence."""
    text = f"{k.label} ({k.call}): predicted {time_text(k.planned_us)}"
    if k.measured:
        text += f"<br>{measured_text(k.measured)}"
    f = k.floor
    if f is None:
        return f"{text}<br>no floor: a run alone tells its sizes"
    how = "at peak" if f.bound == "compute" else f"through {f.bound}"
    return (
        f"{text}<br>floor {time_text(f.us)} {how}: {f.operations:,} operations"
        f"<br>{size_text(f.bytes)}; {k.share:.0%} of what the device can do"
    )


def _draw(s: OnShow, op: str) -> Drawn:
    planned = s.walls.planned
    if planned is None:
        words = "no kernel is placed yet: compile through RAMMED"
        return (), None, Table(("kernel",), (), (), words)
    rows = data(s.now, s.house, planned, s.clocked(NAME, "") or {})
    if not rows.kernels:
        return (), None, Table(("kernel",), (), (), "no kernel is on the wall")
    return rows, None, table(rows)


def _measured(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Run the program with time stamps, and yield the measurements so far."""
    plan = brick_wall.data(now.compiled.planned_wall(dict(now.sizes)), house.calls)
    tasks, runs = tasks_of(plan), list[dict[str, float]]()
    now.compiled.measured_wall(inputs)  # warm-up
    end = perf_counter() + SECONDS
    while len(runs) < LEAST or (len(runs) < RUNS and perf_counter() < end):
        wall = brick_wall.data(now.compiled.measured_wall(inputs), house.calls)
        runs.append(busiest_us(wall, tasks))
        yield len(runs), RUNS, measurements(runs) or None


PICTURE = Picture(
    name=NAME,
    title="Kernel table",
    words="Each kernel of the program: least possible time on this device, predicted, measured.",
    stage=Stage.EMITTED,
    draw=_draw,
    chart=chart,
    clock=Clock(
        "Measure the kernels",
        lambda s, op: "" if s.walls.planned is not None else None,
        _measured,
        lambda times: f"{counted(len(times), 'kernel')} measured" if times else "",
    ),
)
