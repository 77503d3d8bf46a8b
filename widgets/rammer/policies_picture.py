"""The words of policies side by side: how long each wall is, and what it costs to begin."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.table import Table, time_text
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, Rammed, of_walls


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


PICTURE = Picture(
    name="policies",
    title="Policies",
    words="Every policy's wall: how long it is, what fills it, and what it costs to begin.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(None, table),
)
