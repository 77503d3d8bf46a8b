"""Policies side by side: how long each wall is, what fills it, and what it costs to begin."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.stage import Stage
from explorer.tuning.races.side_by_side import Side
from widgets.draw.svg import Svg, fit, label, path, rect, text_width
from widgets.draw.table import Table, time_text
from widgets.model.brick_wall import NAMES
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, Rammed, of_walls

WIDTH, LEFT, BAR, ROW = 780.0, 170.0, 300.0, 34.0


def caption(found: Rammed) -> str:
    """The chosen policy against two-layer scheduling in one line."""
    one, base = found.chosen, found.baseline
    a = one.account
    ratio = base.account.total_us / a.total_us if a.total_us else 1.0
    return (
        f"{one.policy} on {a.units} units of {found.device}, {found.kind}: "
        f"{time_text(a.total_us)}, {a.busy:.1%} busy, {ratio:.2f}× two-layer scheduling"
    )


def table(found: Rammed) -> Table:
    """One row a policy."""
    columns = (
        "policy",
        f"{found.chosen.wall.kind} µs",
        "two-layer ÷ it",
        "units busy",
        "cores busy",
        "rPrograms",
        "launch µs",
        "barriers",
        "bricks",
    )
    base = found.baseline.account.total_us
    rows = tuple(
        (
            s.policy,
            round(s.account.total_us, 2),
            round(base / s.account.total_us, 3) if s.account.total_us else 1.0,
            f"{s.account.busy:.1%}",
            f"{s.account.core_busy:.1%}",
            s.account.launches,
            round(s.account.overhead_us, 2),
            found.barriers(s),
            s.account.bricks,
        )
        for s in found.sides
    )
    return Table(columns, rows, (), caption(found))


def figure(found: Rammed) -> Svg:
    """A bar a policy, as long as its wall: the busy part, then idle time by cause."""
    longest = max((s.account.total_us for s in found.sides), default=0.0) or 1.0
    said = caption(found)
    marks = [label(12, 20, fit(said, WIDTH - 24), "i w", title=said)]
    marks += _heads()
    y = 62.0
    for s in found.sides:
        marks += _row(found, s, y, BAR / longest)
        y += ROW
    marks += _legend(found, y + 8)
    return Svg(WIDTH, y + 34, "".join(marks), f"Policies: {caption(found)}")


HEADS = (("rPrograms", 592.0), ("barriers", 660.0), ("busy", 712.0), ("cores", 766.0))


def _heads() -> Iterator[str]:
    yield label(LEFT, 46, "time, filled where units work", "q")
    for name, x in HEADS:
        yield label(x, 46, name, "q", anchor="end")


def _row(found: Rammed, s: Side, y: float, scale: float) -> Iterator[str]:
    a, mine = s.account, s is found.chosen
    if mine:
        yield rect(4, y - 5, WIDTH - 8, ROW - 4, "var(--soft)", 'rx="3"')
    yield label(12, y + 15, fit(s.policy, LEFT - 20), "a" if mine else "i", title=s.policy)
    x, wide = LEFT, a.total_us * scale
    for name, share in (("busy", a.busy), *_idle(s)):
        fill = "var(--t2)" if name == "busy" else f"url(#p-g-{name})"
        said = f"{NAMES.get(name, name)} {share:.1%}"
        yield rect(x, y, max(0.4, share * wide), 22, fill, title=said)
        x += share * wide
    yield rect(LEFT, y, max(1.0, wide), 22, "none", 'stroke="var(--ink2)"')
    yield label(LEFT + wide + 6, y + 15, time_text(a.total_us), "i")
    values = (f"{a.launches:,}", found.barriers(s), f"{a.busy:.1%}", f"{a.core_busy:.1%}")
    for (_, at), value in zip(HEADS, values):
        yield label(at, y + 15, value, "i", anchor="end")


def _idle(s: Side) -> Iterator[tuple[str, float]]:
    area = s.account.units * s.account.total_us
    return ((name, us / area) for name, us in s.account.idle if area)


def _legend(found: Rammed, y: float) -> Iterator[str]:
    x = LEFT
    yield rect(x, y, 13, 11, "var(--t2)", 'stroke="var(--line2)"')
    yield label(x + 18, y + 10, "busy")
    x += 60
    for name in dict.fromkeys(n for s in found.sides for n, _ in _idle(s)):
        yield rect(x, y, 13, 11, f"url(#p-g-{name})", 'stroke="var(--line2)"')
        said = NAMES.get(name, name)
        yield label(x + 18, y + 10, said)
        x += 34 + text_width(said)
    yield path(f"M{LEFT} {y - 6:g}H{WIDTH - 12:g}", "var(--line)")


PICTURE = Picture(
    name="policies",
    title="Policies",
    words="Every policy's wall: how long it is, what fills it, and what it costs to begin.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(figure, table),
)
