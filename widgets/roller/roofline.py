"""The roofline of one kernel on one device: a roof per memory level, the peak, and the tiles.

Each tile choice is a point, predicted and measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, log10

import plotly.graph_objects as go

from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.plots import colours, styled
from widgets.draw.table import Mark, Sentence, Table, rate_text, speed_text, time_text
from widgets.model.brick_wall import units_text
from widgets.model.picture import Picture
from widgets.roller.tiled_kernel import TileChoice, TiledKernel
from widgets.roller.view import TILES, of_tile

COMPUTE = "compute"
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross")  # compute, then by level
DECADE, MOST = 55, 600  # pixels: of a decade of speed, of a chart
LINE = 0.35  # decades that a line of a label takes: 17 of 55 pixels, and a little more
WORDS = "%{customdata}<extra></extra>"


@dataclass(frozen=True, slots=True)
class Roof:
    """The bandwidth of a memory level for `units` units together, in GB/s."""

    level: str
    units: int
    gb_per_s: float


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """One tile on the roofline.

    `intensity` is operations per byte from the level that bounds it lowest, and `bound` is the
    speed that this level allows. Speeds are in GFLOP/s; `measured` is 0 without a measurement.
    """

    tile: str
    level: str
    intensity: float
    bound: float
    modelled: float
    measured: float
    modelled_us: float
    measured_us: float
    n: int

    @property
    def error(self) -> float:
        """Predicted over measured time, 0 without a measurement."""
        return self.modelled_us / self.measured_us if self.measured_us else 0.0


@dataclass(frozen=True, slots=True)
class RooflineRows:
    """Roofs of one unit and of all, peaks in GFLOP/s by units, and the points by rank."""

    kernel: str
    device: str
    own: bool
    roofs: tuple[Roof, ...]
    peaks: tuple[tuple[int, float], ...]
    points: tuple[RooflinePoint, ...]
    rank: int
    ops: tuple[str, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        """The memory levels that have a roof, nearest first."""
        return tuple(dict.fromkeys(r.level for r in self.roofs))

    @property
    def all_units(self) -> tuple[int, float]:
        """The number of units, and their peak in GFLOP/s."""
        return max(self.peaks, default=(1, 0.0))

    def binds(self, p: RooflinePoint) -> str:
        """Return the level that bounds a tile, or "compute" where no level is below the peak."""
        return COMPUTE if p.bound >= self.all_units[1] > 0 else p.level

    @property
    def errors(self) -> tuple[float, ...]:
        """Predicted over measured time of each measured tile."""
        return tuple(p.error for p in self.points if p.error > 0)

    @property
    def error(self) -> float:
        """The geometric mean of the errors, 0 if there is none."""
        errors = self.errors
        return exp(sum(map(log, errors)) / len(errors)) if errors else 0.0


def data(rolled: TiledKernel) -> RooflineRows:
    """Return the roofline of one kernel."""
    device = rolled.device
    counts = tuple(dict.fromkeys((1, max(1, device.units))))
    peak = max((_peak(c, device) for c in rolled.choices), default=device.reached_gflops_per_unit)
    if target_of(device).uses_thread_blocks:
        counts = counts[-1:]
    return RooflineRows(
        rolled.title,
        device.name,
        rolled.own,
        tuple(roof for units in counts for roof in roofs(device, units)),
        tuple((units, peak * units) for units in counts),
        tuple(_point(c, device) for c in rolled.choices),
        rolled.rank,
        rolled.ops,
    )


def _peak(c: TileChoice, device: Device) -> float:
    """Return the peak GFLOP/s of a unit with a tile, on matrix units if the block uses them."""
    matrix = c.block is not None and bool(c.block.matrix)
    return device.unit_matrix_gflops if matrix else device.reached_gflops_per_unit


def roofs(device: Device, units: int) -> Iterator[Roof]:
    """Yield the bandwidth of every level for `units` units that load at the same time.

    If all units load it is the shared bandwidth, else a multiple of that of one unit.
    """
    for m in device.levels:
        every = units == device.units
        yield Roof(m.name, units, device.all_gb_per_s(m) if every else m.alone_gb_per_s * units)


def _point(c: TileChoice, device: Device) -> RooflinePoint:
    units = max(1, device.units)
    speed = {r.level: r.gb_per_s for r in roofs(device, units)}
    peak = _peak(c, device) * units
    nearest = device.levels[0].name if device.levels else ""
    bounds = []
    for level in c.levels:
        source = level.source if level.source in speed else nearest
        most = speed.get(source, peak) * level.tile.intensity
        bounds.append((most, source, level.tile.intensity))
    bound, source, intensity = min(bounds)  # the lowest roof at this tile
    us = c.measured.median_us if c.measured else 0.0
    return RooflinePoint(
        c.label,
        source,
        intensity,
        min(peak, bound),
        c.gflops(c.modelled_us),
        c.gflops(us),
        c.modelled_us,
        us,
        c.measured.n if c.measured else 0,
    )


def point_words(p: RooflinePoint, n: int) -> str:
    """Describe the tile of a rank in a sentence."""
    measured = f", measured {time_text(p.measured_us)}" if p.measured_us else ""
    return (
        f"{n + 1}: {p.tile}; {p.intensity:.3g} operations a byte from {p.level}; predicted "
        f"{time_text(p.modelled_us)}{measured}"
    )


def table(rows: RooflineRows) -> Table:
    """Return one row per tile."""
    columns = (
        "rank", "tile", "bound by", "operations a byte", "bound GFLOP/s", "predicted GFLOP/s",
        "measured GFLOP/s", "predicted µs", "measured µs", "n", "predicted over measured",
    )  # fmt: skip
    cells = tuple(
        (
            n + 1,
            p.tile,
            rows.binds(p),
            p.intensity,
            p.bound,
            p.modelled,
            p.measured or "",
            p.modelled_us,
            p.measured_us or "",
            p.n or "",
            p.error or "",
        )
        for n, p in enumerate(rows.points)
    )
    return Table(columns, cells, tuple(rows.ops for _ in cells), caption(rows), see(rows))


def see(rows: RooflineRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the bound of the current tile, its speed, and the model's error."""
    p = next(iter(rows.points[rows.rank : rows.rank + 1]), None)
    if p is None:
        return ()
    units, peak = rows.all_units
    speed = {r.level: r.gb_per_s for r in rows.roofs if r.units == units and r.gb_per_s > 0}
    sentences, bound = list[Sentence](), rows.binds(p)
    if p.level in speed:
        each = Mark(f"{p.intensity:.3g} operations a byte", "current")
        ridge = Mark(f"{peak / speed[p.level]:.3g}", f"roof:{rows.levels.index(p.level)} all")
        of = "" if bound != COMPUTE else f" from {p.level}"
        sentences.append(
            (f"{rows.kernel} is bound by {bound}: ", each, f"{of}, ridge at ", ridge, ".")
        )
    reached = Mark(speed_text(p.modelled), "current")
    clock: Sentence = ()
    if p.measured > 0:
        clock = (" (measured ", Mark(speed_text(p.measured), f"measured tile:{rows.rank}"), ")")
    most = f" of at most {speed_text(p.bound)}."
    if p.modelled > 1.01 * p.bound:
        roof = f", above the {speed_text(p.bound)} of {bound}"
        most = f"{roof}: nearer memory serves what is read again."
    sentences.append(("Predicted: ", reached, *clock, most))
    if rows.errors:
        timed = Mark(counted(len(rows.errors), "tile"), "measured")
        sentences.append(
            ("Predicted over measured time of ", timed, f": {rows.error:.2f} on average.")
        )
    elif len(rows.points) > 1:
        speeds = [x.modelled for x in rows.points]
        tiles = Mark(counted(len(speeds), "tile"), "predicted")
        ends = f" reach {speed_text(min(speeds))} to {speed_text(max(speeds))}."
        sentences.append(("All ", tiles, ends))
    return tuple(sentences)


def caption(rows: RooflineRows) -> str:
    """Describe the peak, and the error of the model where there are measurements."""
    peaks = ", ".join(f"{speed_text(p)} of {units_text(u, rows.device)}" for u, p in rows.peaks)
    text = f"{rows.kernel} on {rows.device}: {peaks}; {counted(len(rows.points), 'tile')} predicted"
    if not rows.errors:
        return f"{text}, none measured" + (" yet" if rows.own else "")
    low, high = min(rows.errors), max(rows.errors)
    spread = f", {low:.2f} to {high:.2f}" if len(rows.errors) > 1 else ""
    return f"{text}, {len(rows.errors)} measured: predicted over measured {rows.error:.2f}{spread}"


def chart(rows: RooflineRows, title: str, theme: str) -> go.Figure:
    """Draw speed over operations per byte, both logarithmic, with a roof per memory level.

    A tile's mark is an outline at its predicted speed, and filled at its measured speed.
    """
    figure = go.Figure()
    _roofs(figure, rows, colours(theme))
    order = (COMPUTE, *rows.levels)
    for bound in dict.fromkeys(map(rows.binds, rows.points)):
        mine = [n for n, p in enumerate(rows.points) if rows.binds(p) == bound]
        symbol = SYMBOLS[order.index(bound) % len(SYMBOLS)] if bound in order else SYMBOLS[0]
        _tiles(figure, rows, mine, symbol, colours(theme))
    _on_show(figure, rows, colours(theme))
    figure.update_xaxes(
        title="operations for each byte from the level that bounds the tile (operations/B)",
        type="log",
    )
    timed = "" if rows.errors else ", predicted"
    figure.update_yaxes(title=f"speed (GFLOP/s){timed}", type="log")
    return styled(figure, theme, title, 460, meta={"least": _least(rows)})


def _least(rows: RooflineRows) -> int:
    """Return the least height at which the names of roofs do not overlap."""
    speeds = [s for p in rows.points for s in (p.modelled, p.measured) if s > 0]
    speeds += [peak for _, peak in rows.peaks if peak > 0]
    low = _ends(rows, max(dict(rows.peaks), default=1))[0]
    speeds += [r.gb_per_s * low for r in rows.roofs if r.gb_per_s > 0]
    decades = log10(max(speeds, default=1.0)) - log10(min(speeds, default=1.0))
    return min(MOST, 120 + round(DECADE * decades))


def _ends(rows: RooflineRows, most: int) -> tuple[float, float]:
    """Return the range of the axis around every point and knee, in operations per byte."""
    peak = dict(rows.peaks).get(most, 0.0)
    knees = [peak / r.gb_per_s for r in rows.roofs if r.units == most and r.gb_per_s > 0]
    intensities = [x for x in (*(p.intensity for p in rows.points), *knees) if x > 0] or [1.0]
    return min(intensities) / 2, max(intensities) * 2


def _roofs(figure: go.Figure, rows: RooflineRows, c: dict[str, str]) -> None:
    """Add each roof as a line up to its peak: solid for all units, dashed for one alone."""
    peaks = dict(rows.peaks)
    most = max(peaks, default=1)
    low, high = _ends(rows, most)
    named: set[int] = set()
    ends: list[tuple[Roof, float]] = []
    for r in rows.roofs:
        peak = peaks[r.units]
        if r.gb_per_s <= 0 or peak <= 0:
            continue
        at = sorted({low, max(low, min(peak / r.gb_per_s, high)), high})
        of_all_units, units = r.units == most, units_text(r.units, rows.device)
        figure.add_scatter(
            x=at,
            y=[min(peak, r.gb_per_s * x) for x in at],
            name=f"roofs of {units}{', as all load together' if of_all_units and most > 1 else ''}",
            legendgroup=units,
            showlegend=r.units not in named,
            mode="lines",
            line={
                "color": c["ink"] if of_all_units else c["ink3"],
                "width": 1.5 if of_all_units else 1,
                "dash": "solid" if of_all_units else "dash",
            },
            customdata=[f"{r.level} of {units}: {rate_text(r.gb_per_s)}, peak {speed_text(peak)}"]
            * len(at),
            meta={"k": f"roof roof:{rows.levels.index(r.level)}{' all' * of_all_units}"},
            hovertemplate=WORDS,
        )
        named.add(r.units)
        if of_all_units:
            ends.append((r, log10(min(peak, r.gb_per_s * low))))
    for roofs, y in label_groups(ends):
        _name(figure, rows, roofs, log10(low), y, c)


def label_groups(ends: Sequence[tuple[Roof, float]]) -> list[tuple[list[Roof], float]]:
    """Group roofs whose labels would overlap, from the top, each with the decade of its first roof.

    A label of n roofs takes n lines downwards from the left end of its first roof. `ends` are roofs
    with the decade of speed at their left ends.
    """
    groups: list[tuple[list[Roof], float]] = []
    for roof, y in sorted(ends, key=lambda end: -end[1]):
        if groups and groups[-1][1] - y < LINE * len(groups[-1][0]):
            groups[-1][0].append(roof)
        else:
            groups.append(([roof], y))
    return groups


def _name(
    figure: go.Figure,
    rows: RooflineRows,
    roofs: Sequence[Roof],
    x: float,
    y: float,
    c: dict[str, str],
) -> None:
    """Add the label of roofs below the left end of the first; its ground covers other roofs."""
    figure.add_annotation(
        text="<br>".join(f"{r.level} {rate_text(r.gb_per_s)}" for r in roofs),
        x=x,
        y=y,
        align="left",
        xanchor="left",
        yanchor="top",
        showarrow=False,
        bgcolor=c["pane"],
        borderpad=1,
        font={"color": c["ink"], "size": 12},
        name=" ".join(f"roof roof:{rows.levels.index(r.level)} all" for r in roofs),
    )


def _tiles(
    figure: go.Figure, rows: RooflineRows, mine: Sequence[int], symbol: str, c: dict[str, str]
) -> None:
    """Add the tiles with the same bound: predicted and measured."""
    bound = rows.binds(rows.points[mine[0]])
    timed = [n for n in mine if rows.points[n].measured > 0]
    for numbers, measured in ((mine, False), (timed, True)):
        points: list[RooflinePoint] = [rows.points[n] for n in numbers]
        if points:
            figure.add_scatter(
                x=[p.intensity for p in points],
                y=[p.measured if measured else p.modelled for p in points],
                name=f"{'measured' if measured else 'predicted'}, bound by {bound}",
                mode="markers",
                marker={
                    "symbol": symbol if measured else f"{symbol}-open",
                    "color": c["ink"],
                    "size": 9,
                },
                customdata=[point_words(p, n) for p, n in zip(points, numbers)],
                meta={
                    "take": [{"rank": n} for n in numbers],
                    "k": [
                        f"tile {'measured' if measured else 'predicted'} tile:{n}" for n in numbers
                    ],
                },
                hovertemplate=WORDS,
            )


def _on_show(figure: go.Figure, rows: RooflineRows, c: dict[str, str]) -> None:
    """Add a ring around the tile on show."""
    for p in rows.points[rows.rank : rows.rank + 1]:
        figure.add_scatter(
            x=[p.intensity],
            y=[p.modelled],
            name="current",
            mode="markers",
            marker={"symbol": "circle-open", "color": c["accent"], "size": 15, "line_width": 2},
            customdata=[point_words(p, rows.rank)],
            meta={"k": f"current tile:{rows.rank}"},
            hovertemplate=WORDS,
        )


PICTURE = Picture(
    name="roofline",
    title="Roofline",
    words="The speed that each tile can reach under the device's compute and bandwidth.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, None, table),
    chart=chart,
)
