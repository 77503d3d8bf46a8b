"""Every option of every system with its legal values, as controls in a page with a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.plain_text import counted
from widgets.draw.table import Mark, Sentence, Table, draw_table
from widgets.model import settings
from widgets.model.picture import Drawn, Family, OnShow, Picture
from widgets.model.settings import Control

NOTHING_CHOSEN = {"devices": [], "device": "", "tiles": [], "rank": -1, "note": "", "more": []}


def table(controls: Sequence[Control], caption_text: str) -> Table:
    """Return one row per control."""
    rows = [(c.name, c.now, c.a, c.default, c.says, c.legal, c.source) for c in controls]
    rows = rows or [("none", "", "", "", "it was compiled elsewhere: nothing can be set", "", "")]
    columns = ("setting", "now", "A", "by default", "what it is", "may be", "from")
    return Table(columns, tuple(rows), ((),) * len(rows), caption_text)


def caption(controls: Sequence[Control], noun: str) -> str:
    """Return the number of controls, and those that differ from their defaults."""
    other = [c for c in controls if c.now != c.default]
    changed = ", ".join(f"{c.title} {c.now}" for c in other[:3])
    more = " and more" if len(other) > 3 else ""
    return f"{counted(len(controls), noun)}; " + (
        f"{len(other)} other than by default: {changed}{more}" if other else "all as by default"
    )


def _draw(s: OnShow, op: str) -> Drawn:
    controls = settings.options(s.now.compiled, s.pinned.compiled)
    words = replace(table(controls, caption(controls, "option")), see=see(controls))
    other = [c for c in controls if c.now != c.default]
    first = [*other, *(c for c in controls if c.now == c.default)]  # a drawing shows only the first
    drawn = table(first, words.caption)
    keys = [f"option{' other' * (c.now != c.default)}" for c in first]
    return controls, draw_table(drawn, keys or ["option"]), words


def see(controls: Sequence[Control]) -> tuple[Sentence, ...]:
    """Return the sentence: the number of options, and those that differ from their defaults."""
    if not controls:
        return ()
    other = [c for c in controls if c.now != c.default]
    count = Mark(counted(len(controls), "option"), "option")
    if not other:
        return ((count, ", all as by default."),)
    changed = ", ".join(f"{c.title} {c.now}" for c in other[:3])
    more = f" and {len(other) - 3} more" if len(other) > 3 else ""
    return (
        (count, ", ", Mark(f"{len(other)} other", "other"), f" than by default: {changed}{more}."),
    )


PICTURE = Picture(
    name="options",
    title="Options",
    words="Every option of every system, its legal values, and that of the baseline.",
    draw=_draw,
    family=Family("whatif", lambda s, op: NOTHING_CHOSEN),
    live="settings",
    every="What if",
)
