"""Two-layer scheduling, one operator at a time, above Rammer's wall on one axis."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.tuning.compare import PolicyWall
from widgets.draw.slide import NARROW, PX, label_width, pipe
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by, time_text
from widgets.draw.theme import family_token
from widgets.model.brick_wall import NAMES, WallRows
from widgets.model.picture import Picture
from widgets.rammer.brick_wall_picture import (
    GUTTER,
    gap_marks,
    lane_marks,
    shared_lanes,
    tick_step,
    units_of,
)
from widgets.rammer.policies_picture import why_more
from widgets.rammer.view import WALLS_APART, PolicyWalls, of_walls, schedule_differing_walls

MOST_LANES = 60
TITLE, AXIS, LEGEND = 28.0, 30.0, 26.0


def caption(walls: PolicyWalls) -> str:
    """Describe both utilisations in one line."""
    current, base = walls.chosen.statistics, walls.baseline.statistics
    return (
        f"{walls.device}, {walls.units}, {walls.kind}: {walls.chosen.policy} "
        f"{time_text(current.total_us)}, {current.core_busy:.1%} busy, op-by-op "
        f"{time_text(base.total_us)}, {base.core_busy:.1%} busy"
    )


def see(walls: PolicyWalls) -> tuple[Sentence, ...]:
    """Return the key sentences: both makespans and utilisations, and why many cores are shown."""
    current, base = walls.chosen.statistics, walls.baseline.statistics
    ratio = base.total_us / current.total_us if current.total_us else 1.0
    return (
        (Mark(walls.chosen.policy, "chosen"), f" takes {time_text(current.total_us)}, ",
         Mark("op-by-op", "base"), f" {time_text(base.total_us)}: ",
         Mark(f"{ratio:.2f}×", "diff"), "."),
        ("The ", Mark(walls.units, "lane"),
         f" are {current.core_busy:.0%} busy instead of {base.core_busy:.0%}."),
        *why_more(walls),
    )  # fmt: skip


def table(walls: PolicyWalls) -> Table:
    """Return the unit-time by use, for both walls."""
    compared = (walls.chosen, walls.baseline)
    areas = [walls.rows(s).areas_us() for s in compared]
    names = dict.fromkeys(n for a in areas for n in a)
    current_areas, baseline_areas = areas
    rows = tuple(
        (NAMES.get(n, n), round(current_areas.get(n, 0.0), 2), round(baseline_areas.get(n, 0.0), 2))
        for n in names
    )
    total = ("all", round(sum(current_areas.values()), 2), round(sum(baseline_areas.values()), 2))
    columns = ("core × µs" if not walls.gpu else "SM × µs", walls.chosen.policy, "op-by-op")
    return Table(columns, (*rows, total), (), caption(walls), see(walls))


def figure(policy_walls: PolicyWalls, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw op-by-op above and the chosen policy below, with lines at the ends of both."""
    width, height = size
    walls = [(s, policy_walls.rows(s)) for s in (policy_walls.baseline, policy_walls.chosen)]
    total = max(rows.total_us for _, rows in walls) or 1.0
    scale = (width - GUTTER - 60) / total
    legend = list(_legend(policy_walls, [rows for _, rows in walls], height, width))
    room = (height - AXIS - LEGEND * len(legend)) / 2 - TITLE
    marks, y = list[str](), 0.0
    spans = []
    for n, (policy_wall, rows) in enumerate(walls):
        lanes = shared_lanes(rows.lanes, min(MOST_LANES, int(room / 3)))
        step = min(40.0, room / lanes)
        marks.append(label(0, y + 18, _words(policy_walls, policy_wall, width), "w i"))
        body = _wall(rows, y + TITLE, lanes, step, scale, selected, gpu=policy_walls.gpu)
        marks.append(lit_by("".join(body), "base lane" if n == 0 else "chosen lane"))
        spans.append((rows.total_us * scale + GUTTER, y + TITLE, lanes * step))
        y += TITLE + lanes * step + (8 if n == 0 else 0)
    marks += _ends(walls[0][1].total_us, walls[1][1].total_us, spans)
    marks += _axis(y + 4, total, scale, spans)
    marks += [m for line in legend for m in line]
    return Svg(
        width, height, "".join(marks), f"Versus op-by-op: {caption(policy_walls)}", selected, PX
    )


def _words(walls: PolicyWalls, policy_wall: PolicyWall, width: int) -> str:
    a = policy_wall.statistics
    name = "op-by-op (two layers)" if policy_wall is walls.baseline else policy_wall.policy
    launches = counted(a.launches, "launch", "launches")
    more = f", {launches}" if width >= NARROW else ""
    return f"{name}: {time_text(a.total_us)}, {a.core_busy:.0%} busy{more}"


def _wall(
    rows: WallRows, y: float, lanes: int, step: float, scale: float, selected: str, *, gpu: bool
) -> Iterator[str]:
    high = max(1.0, step - (2 if step > 8 else 1 if step > 5 else 0))
    yield rect(GUTTER, y, rows.total_us * scale, lanes * step, "var(--app)")
    every = max(1, round(20 / step))
    for lane in range(0, lanes, every):
        first, last = units_of(lane, lanes, rows.lanes)
        name = f"{'block' if gpu else 'core'} {first}" if first == last else f"{first}–{last}"
        if label_width(name) > GUTTER - 4:
            name = str(first)
        yield label(0, y + lane * step + min(step / 2 + 5, 16), name)
    yield from gap_marks(rows, lanes, scale, y, high, step)
    yield from lane_marks(rows, lanes, scale, y, high, step, selected, outlined=False)


def _ends(
    baseline_us: float, current_us: float, spans: list[tuple[float, float, float]]
) -> Iterator[str]:
    """Draw a dashed line at op-by-op's end, a solid one at the policy's, and the difference."""
    (x0, y0, _), (x1, y1, h1) = spans
    bottom = y1 + h1 + 4
    yield pipe(f"M{x0:g} {y0 - 4:g}V{bottom:g}", width=2, dashed="4 4")
    yield pipe(f"M{x1:g} {y1 - 4:g}V{bottom:g}", width=2)
    if not current_us or abs(x0 - x1) < 2:
        return
    gain = baseline_us - current_us
    lines = [
        f"{'−' if gain > 0 else '+'}{time_text(abs(gain))}",
        f"{baseline_us / current_us:.2f}×",
    ]
    w = max(label_width(t, bold=True) for t in lines) + 12
    middle, y = (x0 + x1) / 2, y1 + h1 / 2
    body = path(f"M{x0:g} {y + 24:g}H{x1:g}", "var(--ink)", 'stroke-width="2"')
    body += rect(middle - w / 2, y - 18, w, 36, "var(--pane)", 'rx="4" stroke="var(--edge)"')
    for n, text in enumerate(lines):
        body += label(middle, y - 3 + 16 * n, text, "i w", anchor="middle")
    yield lit_by(body, "diff")


def _axis(
    y: float, total: float, scale: float, spans: list[tuple[float, float, float]]
) -> Iterator[str]:
    """Draw the time axis in microseconds under the lanes."""
    end = GUTTER + total * scale
    step = tick_step(total, max(2, int(total * scale / 80)))
    yield path(f"M{GUTTER} {y:g}H{end:.1f}", "var(--edge)")
    total_text = time_text(total)
    yield label(end, y + 18, total_text, "i w", anchor="middle")
    for n in range(int(total / step) + 1):
        x = GUTTER + n * step * scale
        yield path(f"M{x:.1f} {y:g}v4", "var(--edge)")
        if x < end - label_width(total_text) / 2 - 26:
            yield label(x, y + 18, f"{n * step:,.6g}", anchor="middle" if n else "start")


def _legend(
    policy_walls: PolicyWalls, walls: list[WallRows], height: int, width: int
) -> Iterator[list[str]]:
    """Draw the legend of families and idle causes in as many lines as needed."""
    families = [(family_token(f), f) for f in sorted({c.family for c in policy_walls.calls})]
    causes = dict.fromkeys(n for w in walls for n, us in w.areas_us().items() if us > 0)
    idle = [(f"g-{cause}", NAMES[cause]) for cause in causes if cause in NAMES]
    lines: list[list[tuple[str, str, float]]] = [[]]
    x = 0.0
    for token, name in (*families, *idle):
        w = 30 + label_width(name)
        if x + w > width and lines[-1]:
            lines.append([])
            x = 0.0
        lines[-1].append((token, name, x))
        x += w + 18
    for n, line in enumerate(lines):
        y = height - 9 - 24.0 * (len(lines) - 1 - n)
        yield [
            rect(x + 1, y - 11, 22, 13, f"url(#p-{token})", 'stroke="var(--edge)"')
            + label(x + 28, y, name)
            for token, name, x in line
        ]


PICTURE = Picture(
    name="layers",
    title="Versus op-by-op",
    words="Rammer's wall under that of two-layer scheduling, one operator at a time, on one axis.",
    stage=Stage.RAMMED,
    family=WALLS_APART,
    draw=of_walls(figure, table, schedule_differing_walls),
)
