"""The tile graph: the groups of fused kernels, the handover levels, and the bytes saved."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.calls import View
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tile_graph import FusionGroup, GroupPlan, TileEdge
from explorer.ir.dims import evaluate_dim
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.plain_text import counted
from widgets.draw.slide import PX, fold_columns, label_width, legend, node, one_line, pipe, tip
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by, size_text
from widgets.model.house import House
from widgets.model.picture import Drawn, OnShow, Picture, placeholder
from widgets.welder import view
from widgets.welder.pipeline import PipelineRows, Scene
from widgets.welder.pipeline_picture import tile_text
from widgets.welder.view import level_name, short_name

NODE, GAP, LEAST, WIDEST = 46.0, 26.0, 112.0, 190.0  # operators; minimum and maximum column width
GUTTER, HEAD, FOOT, BUS, LOW = 86.0, 50.0, 62.0, 7.0, 320.0


@dataclass(frozen=True, slots=True)
class Handover:
    """An intermediate: its source and target members, its bytes, and its handover level."""

    source: str
    target: str
    tensor: str
    bytes: int
    level: str
    reuse_tile: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """A kernel after fusion: its members in order, and its memory traffic before and after."""

    name: str
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    handovers: tuple[Handover, ...]
    output_bytes: int
    steps: tuple[Candidate[bool], ...]
    ops: tuple[str, ...]
    plan: GroupPlan | None = None


def data(program: Program, sizes: Mapping[str, int] | None = None) -> tuple[KernelGroup, ...]:
    """Return every group in program order; empty if Welder has not run."""
    graph = program.decisions.tile_graph
    if graph is None:
        return ()
    bound = {**program.env.hints, **(sizes or {})}
    outputs = {
        b.name: sum(
            evaluate_dim(v.type.bytes, bound)
            for v in b.vars
            if isinstance(v.type, Tensor) and v.type.is_known
        )
        for b in program.kernel_calls
    }
    into: dict[str, list[int]] = {}
    for n, e in enumerate(graph.edges):
        into.setdefault(e.target, []).append(n)
    rows = []
    for g in graph.groups:
        inside = set(g.members)
        places = sorted(n for member in inside for n in into.get(member, ()))
        mine = [graph.edges[n] for n in places if graph.edges[n].source in inside]
        rows.append(_group(g, mine, outputs.get(g.name, 0), bound))
    return tuple(rows)


def groups(house: House, sizes: tuple[tuple[str, int], ...]) -> tuple[KernelGroup, ...]:
    """Return the memoized groups of the current program."""
    return house.cached("groups", sizes, lambda: data(house.compiled.program, dict(sizes)))


def _group(
    group: FusionGroup,
    inner: Sequence[TileEdge],
    output_bytes: int,
    sizes: Mapping[str, int],
) -> KernelGroup:
    return KernelGroup(
        group.name,
        group.members,
        group.kinds,
        group.bytes_before,
        group.bytes_after,
        tuple(_handover(e, sizes) for e in inner),
        output_bytes,
        group.steps,
        tuple(sorted(group.origin)),
        group.plan,
    )


def _handover(e: TileEdge, sizes: Mapping[str, int]) -> Handover:
    return Handover(
        e.source, e.target, e.tensor, evaluate_dim(e.bytes, sizes), e.level, e.reuse_tile
    )


def of_operator(groups: tuple[KernelGroup, ...], op: str) -> KernelGroup | None:
    """Return the group that computes an operator, else the largest one."""
    mine = next((g for g in groups if op in g.ops), None)
    return mine or max(groups, key=lambda g: len(g.members), default=None)


def table(groups: tuple[KernelGroup, ...], house: House, see: tuple[Sentence, ...] = ()) -> Table:
    """Return one row per group."""
    return Table(
        ("group", "members", "bytes before", "bytes after", "levels decided"),
        tuple(
            (
                house.label(g.name, g.ops),
                " → ".join(map(house.member, g.members)),
                g.bytes_before,
                g.bytes_after,
                ", ".join(sorted({level_name(h.level) for h in g.handovers})),
            )
            for g in groups
        ),
        tuple(g.ops for g in groups),
        caption(groups),
        see,
    )


def caption(groups: tuple[KernelGroup, ...]) -> str:
    """Describe the effect of all fusion in one line."""
    before, after = sum(g.bytes_before for g in groups), sum(g.bytes_after for g in groups)
    return (
        f"{counted(sum(len(g.members) for g in groups), 'kernel')} became {len(groups)}; "
        "predicted traffic to memory "
        f"{size_text(before)} → {size_text(after)}"
    )


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """One kernel: its operators and the values between them.

    The bytes to and from memory are those of separate kernels and of the fused one.
    """

    rows: PipelineRows
    bytes_before: int
    bytes_after: int
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryEdge:
    """A value that goes through memory, between two columns and their operators."""

    source: int
    from_operator: int
    target: int
    to_operator: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GraphWindow:
    """Some columns in program order with their edges.

    `on` is the selected column; `before` and `after` count the kernels outside the window.
    """

    columns: tuple[GroupColumn, ...]
    edges: tuple[MemoryEdge, ...]
    on: int
    before: int
    after: int


def window(s: OnShow, op: str, most: int) -> GraphWindow:
    """Return at most `most` kernels around the one that computes an operator."""
    graph = s.now.compiled.program.decisions.tile_graph
    groups = graph.groups if graph else ()
    program = view.before_welding(s.now.compiled)
    alias, reads = s.house.cached(
        "reads of groups", (), lambda: _aliases_and_reads(program, groups)
    )
    first = next((g for g in groups if op and op in g.origin), None)
    first = first or max(groups, key=lambda g: g.bytes_before - g.bytes_after, default=None)
    if first is None:
        return GraphWindow((), (), 0, 0, 0)
    at = groups.index(first)
    chosen = sorted(_nearest(at, reads, most, len(groups)))
    sizes = {**s.now.compiled.program.env.hints, **dict(s.now.sizes)}
    columns = []
    for n in chosen:
        w = view.group_in_use(s, groups[n])
        if w is not None:
            rows = Scene(w, program, s.house, sizes).frame(None)
            g = groups[n]
            columns.append(GroupColumn(rows, g.bytes_before, g.bytes_after, w.ops))
    edges = tuple(_edges(columns, alias))
    before, after = chosen[0], len(groups) - 1 - chosen[-1]
    return GraphWindow(tuple(columns), edges, chosen.index(at), before, after)


def _aliases(program: Program) -> dict[str, str]:
    """Return the underlying value of each view, by name."""
    aliases: dict[str, str] = {}
    for _, b in program.bindings():
        if isinstance(b.expr, View):
            aliases[b.name] = aliases.get(b.expr.arg.name, b.expr.arg.name)
    return aliases


def _aliases_and_reads(
    program: Program, groups: Sequence[FusionGroup]
) -> tuple[dict[str, str], list[set[int]]]:
    """Return the underlying values of views, and for each group the groups that it reads."""
    alias = _aliases(program)
    home = {m: n for n, g in enumerate(groups) for m in g.members}
    reads: list[set[int]] = [set() for _ in groups]
    for _, b in program.bindings():
        if b.name in home:
            sources = {home.get(alias.get(v.name, v.name), -1) for v in b.reads}
            reads[home[b.name]] |= sources - {-1, home[b.name]}
    return alias, reads


def _nearest(at: int, reads: Sequence[Collection[int]], most: int, count: int) -> set[int]:
    """Return the groups nearest to one, by edges, then by program order."""
    readers: list[list[int]] = [[] for _ in range(count)]
    for n, sources in enumerate(reads):
        for m in sources:
            readers[m].append(n)
    distance, front = {at: 0}, deque([at])
    while front and len(distance) < 8 * most:
        n = front.popleft()
        for m in sorted({*reads[n], *readers[n]}, key=lambda m: abs(m - n)):
            if m not in distance:
                distance[m] = distance[n] + 1
                front.append(m)
    order = sorted(range(count), key=lambda n: (distance.get(n, count), abs(n - at)))
    return set(order[:most])


def _edges(columns: Sequence[GroupColumn], alias: dict[str, str]) -> Iterator[MemoryEdge]:
    producers = {
        o.name: (c, n) for c, g in enumerate(columns) for n, o in enumerate(g.rows.operators)
    }
    for target, column in enumerate(columns):
        for i in column.rows.inputs:
            source = producers.get(alias.get(i.tensor, i.tensor))
            if source is not None and source[0] < target:
                yield MemoryEdge(*source, target, i.operators[0], i.bytes)


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
            Mark(counted(members, "operator"), "node"),
            " run as ",
            Mark(counted(len(groups), "kernel"), "kernel"),
            ".",
        ),
        (Mark(f"{inner} of {counted(edges, 'edge')}", "kept"), " never reach memory."),
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
        more.append(f"{counted(w.before, 'kernel')} before")
    if w.after:
        more.append(f"{counted(w.after, 'kernel')} after")
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
    rows = groups(s.house, s.now.sizes)
    if not rows:
        return placeholder("Welder has not run.")
    shown = window(s, op, columns_for(s.view.size[0]))
    graph = s.now.compiled.program.decisions.tile_graph
    edges = len({(e.source, e.target, e.tensor) for e in graph.edges}) if graph else 0
    drawing = figure(shown, f"Tile graph: {caption(rows)}", s.view.size, op)
    return rows, drawing, table(rows, s.house, see(rows, edges))


PICTURE = Picture(
    name="groups",
    title="Tile graph",
    words="Operators with their tiles, and edges with the memory level at which each is cut; on a "
    "GPU, those of Welder's own tiles, not of the thread blocks that run.",
    stage=Stage.WELDED,
    about="kernel",
    draw=_draw,
)
