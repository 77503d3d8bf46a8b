"""The drawing of all groups of a program: each a box with its kernels, and its bytes to and from
memory apart and welded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from explorer.ir.stage import Stage
from widgets.draw import theme
from widgets.draw.svg import Svg, fit, label, path_end, rect, text_width, together, wrapped
from widgets.draw.table import size_text
from widgets.model.house import House
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.welder import tile_graph
from widgets.welder.tile_graph import Group, caption, of_operator

WIDTH, LEFT, RIGHT, TOP = 780.0, 12.0, 768.0, 70.0
ACROSS, HIGH, BETWEEN = 4, 58.0, 8.0
CHIP, MOST_CHIPS, MOST_GROUPS = 10.0, 11, 400
FAMILIES = {"elementwise": "elementwise", "reduction": "reduction"}


def figure(groups: Sequence[Group], house: House, selected: str = "") -> Svg:
    """The groups in program order."""
    if not groups:
        return Svg(680, 60, label(12, 34, "Welder has not run.", "i"), "No tile graph")
    found = tuple(groups)
    on = of_operator(found, selected) if selected else None
    shown = _shown(found, on)
    said, more = caption(found), len(found) - len(shown)
    if more:
        said += f"; the {len(shown)} that move most are drawn, all are in the table"
    marks = [label(LEFT, 20, fit(said, RIGHT - LEFT), "i w", title=said), *_legend(40.0)]
    most = max((g.bytes_before for g in shown), default=1) or 1
    convs = {o.name for o in house.operators if o.family == "conv"}
    wide = (RIGHT - LEFT - BETWEEN * (ACROSS - 1)) / ACROSS
    for n, g in enumerate(shown):
        x = LEFT + n % ACROSS * (wide + BETWEEN)
        y = TOP + n // ACROSS * (HIGH + BETWEEN)
        marks.append(together(_group(g, house, x, y, wide, most, convs), g.ops))
    high = TOP + -(-len(shown) // ACROSS) * (HIGH + BETWEEN) + 4
    return Svg(WIDTH, high, "".join(marks), f"Tile graph: {said}", selected)


def _shown(groups: Sequence[Group], on: Group | None) -> list[Group]:
    """All groups, or those that move most with the one that is selected."""
    if len(groups) <= MOST_GROUPS:
        return list(groups)
    ranked = sorted(groups, key=lambda g: (g is not on, -g.bytes_before))[:MOST_GROUPS]
    kept = {g.name for g in ranked}
    return [g for g in groups if g.name in kept]


def _group(
    g: Group, house: House, x: float, y: float, wide: float, most: int, convs: Collection[str]
) -> Iterator[str]:
    count = len(g.members)
    kernels = f"{count} kernel{'s' * (count != 1)}"
    plan = f", task tile in {g.plan.level}" if g.plan else ""
    levels = ", ".join(sorted({h.level for h in g.handovers}))
    name = house.label(g.name, g.ops)
    said = (
        f"{name}: {kernels}{f', handed over at {levels}' if levels else ''}{plan}; "
        f"{size_text(g.bytes_before)} to and from memory apart, {size_text(g.bytes_after)} welded\n"
        f"{house.other_names(g.name)}"
    )
    edge = f'rx="4" stroke="var(--{"edge" if count > 1 else "line2"})" class="ground"'
    fill = "var(--tint)" if count > 1 else "var(--pane)"
    yield rect(x, y, wide, HIGH, fill, edge, title=said, ops=g.ops)
    room = (wide - 16 - text_width(kernels)) / 1.07  # names are bold
    yield label(x + 6, y + 15, fit(path_end(name), room), "i w", ops=g.ops, title=said)
    yield label(x + wide - 6, y + 15, kernels, "q", anchor="end")
    conv = bool(set(g.ops) & set(convs))
    for i, kind in enumerate(g.kinds[:MOST_CHIPS]):
        pattern = theme.family_token(_family(kind, conv=conv))
        box = 'stroke="var(--ink3)" stroke-width="0.7"'
        yield rect(x + 6 + i * (CHIP + 3), y + 21, CHIP, CHIP, f"url(#p-{pattern})", box)
    if count > MOST_CHIPS:
        yield label(x + 8 + MOST_CHIPS * (CHIP + 3), y + 30, f"+{count - MOST_CHIPS}", "q")
    yield from _bytes(g, x + 6, y + 37, wide - 12, most)


def _bytes(g: Group, x: float, y: float, wide: float, most: int) -> Iterator[str]:
    """A pair of bars, outlined apart, filled welded, with the numbers after them."""
    after = size_text(g.bytes_after)
    text = f"{size_text(g.bytes_before)} → {after}" if g.bytes_before != g.bytes_after else after
    room = wide - 108
    yield rect(x, y, max(1.0, room * g.bytes_before / most), 12, "none", 'stroke="var(--ink3)"')
    yield rect(x, y + 2, max(1.0, room * g.bytes_after / most), 8, "var(--t2)")
    yield label(x + wide, y + 10, text, "i", anchor="end")


def _family(kind: str, *, conv: bool) -> str:
    """The family whose hatch a kind of kernel has."""
    return FAMILIES.get(kind, "conv" if conv else "matmul")


def _legend(y: float) -> Iterator[str]:
    x = LEFT
    for family in ("conv", "matmul", "elementwise", "reduction"):
        box = 'stroke="var(--ink3)" stroke-width="0.7"'
        yield rect(x, y - 9, CHIP, CHIP, f"url(#p-{theme.family_token(family)})", box)
        name = "other contraction" if family == "matmul" else family
        yield label(x + 14, y, name)
        x += text_width(name) + 28
    yield rect(x, y - 9, 22, 10, "none", 'stroke="var(--ink3)"')
    yield label(x + 27, y, "to and from memory apart")
    x += 164
    yield rect(x, y - 8, 22, 8, "var(--t2)")
    yield label(x + 27, y, "welded")
    yield from (
        label(LEFT, y + 17 + 14 * i, line, "q")
        for i, line in enumerate(
            wrapped(
                "A grey box is one kernel of several; choose one to see its tiles.", RIGHT - LEFT
            )
        )
    )


def _draw(s: OnShow, op: str) -> Drawn:
    rows = tile_graph.data(s.now.compiled.program, dict(s.now.sizes))
    return rows, figure(rows, s.house, op), tile_graph.table(rows, s.house)


PICTURE = Picture(
    name="groups",
    title="Tile graph",
    words="Every group of kernels that became one, and the bytes that this saves; of a GPU, those "
    "of Welder's own tiles, not of the thread blocks that run.",
    stage=Stage.WELDED,
    about="kernel",
    draw=_draw,
)
