"""Drawing of the tile graph, as in Welder's paper: operators with tiles, edges with levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.slide import PX, fold_columns, label_width, legend, node, one_line, pipe, tip
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import count_text, size_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture, placeholder
from widgets.welder import tile_graph
from widgets.welder.pipeline import PipelineRows
from widgets.welder.pipeline_figure import tile_text
from widgets.welder.tile_graph import KernelGroup, caption
from widgets.welder.tile_graph_columns import GraphWindow, GroupColumn, MemoryEdge, window
from widgets.welder.welded_group import level_name, short_name

NODE, GAP, LEAST, WIDEST = 46.0, 26.0, 112.0, 190.0  # operators; minimum and maximum column width
GUTTER, HEAD, FOOT, BUS, LOW = 86.0, 50.0, 62.0, 7.0, 320.0


def columns_for(width: int) -> int:
    """Return the number of kernels that fit next to each other."""
    return max(1, int((width - 20 + GUTTER) // (LEAST + GUTTER)))


def see(groups: Sequence[KernelGroup], edges: int) -> tuple[Sentence, ...]:
    """Return the key sentences: the operators, the edges that stay inside, and the bytes saved."""
    members = sum(len(g.members) for g in groups)
    inner = sum(len(g.handovers) for g in groups)
    before, after = sum(g.bytes_before for g in groups), sum(g.bytes_after for g in groups)
    return (
        (
            Mark(count_text(members, "operator"), "node"),
            " run as ",
            Mark(count_text(len(groups), "kernel"), "kernel"),
            ".",
        ),
        (Mark(f"{inner} of {count_text(edges, 'edge')}", "kept"), " never reach memory."),
        ("Memory traffic: ", Mark(size_text(after), "cut"), f" instead of {size_text(before)}."),
    )


def figure(w: GraphWindow, title: str, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw kernels next to each other, their operators from the top down."""
    width, height = size
    count = max(1, len(w.columns))
    room = (width - 20 - GUTTER * (count - 1)) / count
    wide_ = min(WIDEST, room)
    left = 10 + (width - 20 - count * wide_ - (count - 1) * GUTTER) / 2
    xs = [left + n * (wide_ + GUTTER) for n in range(count)]
    high, gap, foot = (NODE, GAP, FOOT) if height >= LOW else (32.0, 12.0, 40.0)
    rows = max(2, int((height - HEAD - foot - 8 + gap) // (high + gap)))
    places = [_Places(c, x, wide_, rows, selected, high, gap) for c, x in zip(w.columns, xs)]
    floor = max((p.floor for p in places), default=HEAD) + 12
    marks = [m for n, p in enumerate(places) for m in p.ground(on=n == w.on)]
    marks += _memory_edges(w, places, floor)
    marks += [m for p in places for m in p.marks()]
    marks += _remainder(w, height, width)
    return Svg(width, height, "".join(marks), title, selected, PX)


class _Places:
    """The operators of one column; those that do not fit are folded."""

    def __init__(
        self,
        c: GroupColumn,
        x: float,
        w: float,
        rows: int,
        selected: str,
        high: float,
        gap: float,
    ) -> None:
        """Place the operators of `c` in at most `rows` rows."""
        self.column, self.x, self.w, self.high, self.gap = c, x, w, high, gap
        operators = c.rows.operators
        self.on = next((n for n, o in enumerate(operators) if selected in o.ops), -1)
        self.parts = fold_columns(len(operators), rows, max(0, self.on))
        self.row = {o: n for n, part in enumerate(self.parts) for o in part}

    def top(self, row: int) -> float:
        """Return the top of a row."""
        return HEAD + 8 + row * (self.high + self.gap)

    def middle(self, operator: int) -> float:
        """Return the y of the middle of an operator."""
        return self.top(self.row[operator]) + self.high / 2

    @property
    def floor(self) -> float:
        """The bottom of the kernel."""
        return self.top(len(self.parts) - 1) + self.high + 8

    def ground(self, *, on: bool) -> Iterator[str]:
        """Draw the kernel's box with its name and its bytes."""
        c, x, w = self.column, self.x, self.w
        edge = f'rx="8" stroke="var(--{"accent" if on else "ink"})" stroke-width="2"'
        body = rect(x - 8, HEAD - 2, w + 16, self.floor - HEAD + 2, "var(--app)", edge, ops=c.ops)
        name = one_line(c.rows.title, w + 14, "kernel ")
        body += label(x - 6, 18, name, "a" if on else "i w", ops=c.ops, title=c.rows.title)
        after, before = size_text(c.bytes_after), size_text(c.bytes_before)
        words = f"{before} → {after}" if before != after else after
        body += label(x - 6, 37, words if label_width(words) <= w + 16 else after)
        yield lit_by(body, "kernel")

    def marks(self) -> Iterator[str]:
        """Draw the operators, and the edges between them with their levels."""
        rows = self.column.rows
        yield from self._edges(rows)
        tiles = {v.source: v.tile for v in rows.values}
        for n, part in enumerate(self.parts):
            y = self.top(n)
            if len(part) > 1:
                names = ", ".join(rows.operators[o].label for o in part)
                yield node(
                    self.x, y, self.w, self.high, f"{len(part)} more", dashed=True, title=names
                )
                continue
            o = rows.operators[part[0]]
            tile = tiles.get(part[0], ())
            if part[0] not in tiles:
                tile = _result_tile(rows)
            yield node(
                self.x, y, self.w, self.high, o.label, tile_text(tile) if tile else "",
                family=o.family, ops=o.ops, on=part[0] == self.on,
                title=f"{o.label}, {o.family}: tile {tile_text(tile)}",
            )  # fmt: skip

    def _edges(self, rows: PipelineRows) -> Iterator[str]:
        """Draw the direct edges with their level; longer ones run along the right side."""
        center = self.x + self.w / 2
        far = 0
        labelled: set[int] = set()
        for v in rows.values:
            source = self.row[v.source]
            for target in sorted({self.row[r] for r in v.readers} - {source}):
                y1, y2 = self.top(source) + self.high, self.top(target)
                keys = f"edge {v.level} kept"
                if target == source + 1:
                    body = pipe(f"M{center:g} {y1:g}V{y2 - 6:g}") + tip(center, y2, "down")
                    if source not in labelled and self.gap >= GAP:
                        labelled.add(source)
                        name = level_name(v.level)
                        fits = label_width(name, bold=True) + 14 < self.w / 2
                        words = name if fits else short_name(v.level)
                        at = center + label_width(words, bold=True) / 2 + 12
                        body += label(at, (y1 + y2) / 2 + 3, words, "i w", anchor="middle")
                    yield lit_by(body, keys)
                    continue
                x = self.x + self.w + 4
                a, b = y1 - 8, y2 + 12 + 4 * (far % 3)
                far += 1
                d = f"M{self.x + self.w:g} {a:g}H{x:g}V{b:g}H{self.x + self.w:g}"
                yield lit_by(pipe(d, width=1.5), keys)


def _result_tile(rows: PipelineRows) -> tuple[int, ...]:
    """Return the tile of the kernel's result that a task writes."""
    level = rows.plan.level
    mine = [t.tile for t in rows.plan.tiles if t.tensor == t.node and t.level == level]
    return mine[-1] if mine else ()


def _memory_edges(w: GraphWindow, places: Sequence[_Places], floor: float) -> Iterator[str]:
    """Draw the edges between kernels, cut at memory: straight to a neighbour, else below all."""
    tracks: dict[int, int] = {}
    chips: dict[tuple[int, int], str] = {}
    for e in w.edges:
        a, b = places[e.source], places[e.target]
        x0, y0 = a.x + a.w + 8, a.middle(e.from_operator)
        x1, y1 = b.x - 8, b.middle(e.to_operator)
        if y1 == y0 and e.target == e.source + 1:
            d = f"M{x0:g} {y0:g}H{x1 - 7:g}"
        elif e.target == e.source + 1:
            x = x1 - 13
            d = f"M{x0:g} {y0:g}H{x:g}V{y1:g}H{x1 - 7:g}"
        else:
            track = tracks.setdefault(e.source, len(tracks))
            x, y = x0 + GUTTER - 16 - 15, floor + BUS * track
            near = x1 - 11
            d = f"M{x0:g} {y0:g}H{x:g}V{y:g}H{near:g}V{y1:g}H{x1 - 7:g}"
        body = pipe(d, dashed="6 3", width=2) + tip(x1, y1, "right")
        chips[e.source, e.from_operator] = _memory_chip(e, x0, y0)
        yield lit_by(body, "edge cut memory")
    yield from (lit_by(chip, "edge cut memory") for chip in chips.values())


def _memory_chip(e: MemoryEdge, x: float, y: float) -> str:
    words = size_text(e.bytes)
    w = label_width(words, bold=True)
    return rect(x + 2, y - 10, w + 4, 20, "var(--pane)") + label(x + 4, y + 5, words, "i w")


def _remainder(w: GraphWindow, height: int, width: int) -> Iterator[str]:
    more = []
    if w.before:
        more.append(f"{count_text(w.before, 'kernel')} before")
    if w.after:
        more.append(f"{count_text(w.after, 'kernel')} after")
    remainder = ", ".join(more)
    items = [
        ("kept", "pipe", "edge, cut at the level beside it"),
        ("cut", "dash", "cut at memory"),
        ("kernel", "box", "kernel"),
    ]
    yield from legend(items, height - 9, width - (label_width(remainder) + 16 if remainder else 0))
    if remainder:
        yield label(width, height - 9, remainder, anchor="end")


def _draw(s: OnShow, op: str) -> Drawn:
    rows = tile_graph.groups(s.house, s.now.sizes)
    if not rows:
        return placeholder("Welder has not run.")
    shown = window(s, op, columns_for(s.view.size[0]))
    graph = s.now.compiled.program.decisions.tile_graph
    edges = len({(e.source, e.target, e.tensor) for e in graph.edges}) if graph else 0
    table = tile_graph.table(rows, s.house, see(rows, edges))
    return rows, figure(shown, f"Tile graph: {caption(rows)}", s.view.size, op), table


PICTURE = Picture(
    name="groups",
    title="Tile graph",
    words="Operators with their tiles, and edges with the memory level at which each is cut; on a "
    "GPU, those of Welder's own tiles, not of the thread blocks that run.",
    stage=Stage.WELDED,
    about="kernel",
    draw=_draw,
)
