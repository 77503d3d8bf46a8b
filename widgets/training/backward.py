"""The training graph, backward under forward, with the values saved or recomputed in between."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from explorer.ir.calls import Gradient, KernelCall, OpCall, Var
from explorer.ir.dims import evaluate_dim, symbols_of
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.plain_text import counted
from widgets.draw.slide import (
    NARROW,
    PX,
    fold_columns,
    label_width,
    legend,
    node,
    pipe,
    small_box,
    small_box_size,
    tip,
)
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Cell, Mark, Sentence, Table, lit_by, size_text
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture

STEP, RECOMPUTING = "differentiate", "rematerialise"
RECOMPUTED_SUFFIX = re.compile(r"(\.again)?(\.\d+)?$")  # suffix of a recomputed value's name
Phase = Literal["forward", "backward", "recomputed", "update"]
PHASES: tuple[Phase, ...] = get_args(Phase)
LEAST, WIDEST, GAP = 88.0, 150.0, 16.0  # limits of a node's width; gap
BETWEEN, TOP, FOOT = 10.0, 30.0, 30.0
ROOMY, TIGHT = (46.0, 92.0), (30.0, 52.0)  # heights of a node and of the saved values
LOW = 340  # pictures lower than this use TIGHT


@dataclass(frozen=True, slots=True)
class BackwardNode:
    """A binding; `band` is the forward node that it belongs to by its source operators."""

    name: str
    label: str
    phase: Phase
    bytes: int
    ops: tuple[str, ...]
    band: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A value that the backward part reads; `producer` is its node, None for an input."""

    name: str
    bytes: int
    producer: int | None
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BackwardRows:
    """Nodes in program order, after the last `step` that determined the computations.

    `saved` are values of the forward part; `inputs` are read again, and exist in any case.
    """

    step: str
    nodes: tuple[BackwardNode, ...]
    saved: tuple[Saved, ...]
    inputs: tuple[Saved, ...]

    @property
    def saved_bytes(self) -> int:
        """The bytes of the saved values of the forward part."""
        return sum(s.bytes for s in self.saved)


def data(c: Compiled, sizes: Mapping[str, int]) -> BackwardRows:
    """Return the two graphs after differentiation, or after rematerialisation if it ran."""
    steps = {s.name: s for s in c.snapshots if s.name in (STEP, RECOMPUTING)}
    step = steps.get(STEP)
    last = steps.get(RECOMPUTING, step)
    if step is None or last is None:
        body = c.snapshots[0].after.main.body if c.snapshots else c.program.main.body
        phases: list[Phase] = ["forward"] * len(body)
    else:
        body, phases = last.after.main.body, _phases(step.before, last.after)
    nodes = tuple(_nodes(body, phases, sizes))
    saved, inputs = _saved(body, phases, sizes)
    return BackwardRows(last.name if last else "", nodes, saved, inputs)


def _phases(before: Program, after: Program) -> list[Phase]:
    """Return the phase of each binding.

    Forward are the values of the differentiated functions, up to the last of them. Behind that, one
    of their values under another name is recomputed, and a value of `main` belongs to the update.
    """
    gradients = [b for b in before.main.body if isinstance(b.expr, Gradient)]
    body = after.main.body
    if not gradients:
        return ["forward"] * len(body)
    inner = {v.name for f in before.functions[1:] for b in f.body for v in b.vars}
    inner |= {b.vars[0].name for b in gradients}
    results = {v.name for b in gradients for v in b.vars[1:]}
    outer = {v.name for b in before.main.body for v in b.vars} - results
    names = [{v.name for v in b.vars} for b in body]
    last = max((n for n, defined in enumerate(names) if defined & inner), default=-1)
    phases: list[Phase] = ["forward"] * (last + 1)
    for mine in names[last + 1 :]:
        if mine & outer:
            phases.append("update")
        elif not mine & results and {RECOMPUTED_SUFFIX.sub("", n) for n in mine} & inner:
            phases.append("recomputed")
        else:
            phases.append("backward")
    return phases


def _nodes(
    body: Iterable[Binding], phases: Iterable[Phase], sizes: Mapping[str, int]
) -> Iterable[BackwardNode]:
    bands: dict[str, int] = {}
    last = 0
    for n, (b, phase) in enumerate(zip(body, phases, strict=True)):
        if phase == "forward":
            bands.update(dict.fromkeys(b.origin, n))
        bands_of_origin = [bands[o] for o in b.origin if o in bands]
        last = n if phase == "forward" else min(bands_of_origin, default=last)
        size = sum(_bytes(v, sizes) for v in b.vars)
        yield BackwardNode(b.vars[0].name, _label(b), phase, size, tuple(sorted(b.origin)), last)


def _label(b: Binding) -> str:
    match b.expr:
        case OpCall() as call:
            return call.op
        case KernelCall():
            return b.vars[0].name
    return type(b.expr).__name__.lower()


def _saved(
    body: tuple[Binding, ...], phases: list[Phase], sizes: Mapping[str, int]
) -> tuple[tuple[Saved, ...], tuple[Saved, ...]]:
    makers = {v.name: n for n, b in enumerate(body) for v in b.vars}
    readers: dict[Var, list[int]] = {}
    for n, (b, phase) in enumerate(zip(body, phases, strict=True)):
        if phase in ("backward", "recomputed"):
            for v in dict.fromkeys(b.reads):
                readers.setdefault(v, []).append(n)
    values_read = [
        Saved(v.name, _bytes(v, sizes), makers.get(v.name), tuple(at)) for v, at in readers.items()
    ]
    values = (s for s in values_read if s.producer is not None and phases[s.producer] == "forward")
    return tuple(values), tuple(
        s for s in values_read if s.producer is None and not s.name.startswith("@")
    )


def _bytes(v: Var, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a value, 0 if only a run can tell."""
    if not isinstance(v.type, Tensor) or not v.type.is_known:
        return 0
    count = v.type.bytes
    return int(evaluate_dim(count, sizes)) if symbols_of(count) <= sizes.keys() else 0


def table(rows: BackwardRows) -> Table:
    """Return one row per node, with what the backward part reads of it."""
    saved_by_node = {s.producer: s for s in rows.saved}
    lines: list[tuple[Cell, ...]] = []
    for n, made_node in enumerate(rows.nodes):
        s = saved_by_node.get(n)
        readers = ", ".join(rows.nodes[r].name for r in s.readers) if s else ""
        lines.append(
            (made_node.name, made_node.label, made_node.phase, s.bytes if s else 0, readers)
        )
    lines += [
        (s.name, "input", "read again", s.bytes, ", ".join(rows.nodes[r].name for r in s.readers))
        for s in rows.inputs
    ]
    ops = (*(n.ops for n in rows.nodes), *(() for _ in rows.inputs))
    columns = ("value", "what", "part", "bytes kept", "read by")
    return Table(columns, tuple(lines), ops, caption(rows), see(rows))


def caption(rows: BackwardRows) -> str:
    """Describe the two graphs in one sentence."""
    count = {phase: sum(n.phase == phase for n in rows.nodes) for phase in PHASES}
    if not count["backward"]:
        return f"{counted(count['forward'], 'forward node')} and no gradient"
    recomputed_text = f", {count['recomputed']} recomputed" if count["recomputed"] else ""
    return (
        f"{counted(count['forward'], 'forward node')}, {count['backward']} backward"
        f"{recomputed_text}; "
        f"{counted(len(rows.saved), 'value')} kept in between, {size_text(rows.saved_bytes)}"
    )


def see(rows: BackwardRows) -> tuple[Sentence, ...]:
    """Return the key sentences: both parts, the values saved between them, and recomputation."""
    count = {phase: sum(n.phase == phase for n in rows.nodes) for phase in PHASES}
    if not count["backward"]:
        return ((Mark(counted(count["forward"], "forward node"), "forward"), ", no gradient."),)
    sentences: list[Sentence] = [
        (
            Mark(counted(count["forward"], "forward node"), "forward"),
            ", ",
            Mark(f"{count['backward']} backward", "backward"),
            ".",
        ),
        (
            Mark(counted(len(rows.saved), "value"), "kept"),
            " is" if len(rows.saved) == 1 else " are",
            " kept in between, ",
            Mark(size_text(rows.saved_bytes), "kept"),
            ".",
        ),
    ]
    if count["recomputed"]:
        recomputed_mark = Mark(counted(count["recomputed"], "value"), "recomputed")
        verb = "is" if count["recomputed"] == 1 else "are"
        sentences.append((recomputed_mark, f" {verb} computed again in place of being kept."))
    return tuple(sentences)


@dataclass(frozen=True, slots=True)
class _Column:
    """Forward nodes of a column, one or several folded, with their derivatives below.

    The derivative that runs first is at the top.
    """

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    x: float
    wide: float

    @property
    def middle(self) -> float:
        """The x of its centre."""
        return self.x + self.wide / 2


def figure(
    rows: BackwardRows,
    size: tuple[int, int],
    selected: str = "",
    families: Mapping[str, str] | None = None,
) -> Svg:
    """Draw forward from left to right on top, and backward from right to left below it.

    The values that are saved are in between.
    """
    width, height = size
    columns = _columns(rows, width, selected)
    high, saved_height = ROOMY if height >= LOW else TIGHT
    base = TOP + high + saved_height + 22
    deep = max(1, int((height - FOOT - base + BETWEEN) / (high + BETWEEN)))
    tops: dict[int, float] = {}
    for c in columns:
        for row, part in enumerate(fold_columns(len(c.backward), deep) if c.backward else ()):
            tops |= {c.backward[n]: base + row * (high + BETWEEN) for n in part}
    draw = _Marks(rows, columns, tops, families or {}, selected, high, saved_height)
    marks = [
        label(0, 16, "forward →", "big"),
        *draw.order(base),
        *draw.saved_values(),
        *draw.forward(),
        *draw.backward(deep, base),
        *_legend(rows, size),
    ]
    if any(n.phase == "backward" for n in rows.nodes):
        right = columns[-1].x + columns[-1].wide
        marks.append(rect(right - 96, base - 27, 96, 22, "var(--pane)"))
        marks.append(label(right, base - 10, "← backward", "big", anchor="end"))
    return Svg(width, height, "".join(marks), f"Training graph: {caption(rows)}", selected, PX)


def _columns(rows: BackwardRows, width: int, selected: str) -> tuple[_Column, ...]:
    """Return as many columns as fit; of more forward nodes those whose values are saved."""
    forward = [n for n, node_ in enumerate(rows.nodes) if node_.phase == "forward"]
    if not forward:
        return ()
    saved_bytes = {s.producer: s.bytes for s in rows.saved}
    most = max(1, int((width - 14 + GAP) / (LEAST + GAP)))
    on = next((i for i, n in enumerate(forward) if selected in rows.nodes[n].ops), 0)
    weights = [float(saved_bytes.get(n, 0)) for n in forward]
    parts = fold_columns(len(forward), most, on, weights)
    each = min(WIDEST, (width - 14 + GAP) / len(parts) - GAP)
    columns = []
    for i, part in enumerate(parts):
        mine = tuple(forward[n] for n in part)
        below = [n for n, b in enumerate(rows.nodes) if b.phase in ("backward", "recomputed")]
        columns.append(
            _Column(
                mine, tuple(n for n in below if rows.nodes[n].band in mine),
                1 + i * (each + GAP), each,
            )
        )  # fmt: skip
    return tuple(columns)


@dataclass(frozen=True, slots=True)
class _Marks:
    """The marks of one drawing."""

    rows: BackwardRows
    columns: Sequence[_Column]
    tops: Mapping[int, float]
    families: Mapping[str, str]
    selected: str
    high: float
    room: float

    def column_of(self, n: int) -> _Column | None:
        """Return the column of a node."""
        return next((c for c in self.columns if n in c.forward or n in c.backward), None)

    def order(self, base: float) -> Iterator[str]:
        """Draw lines between neighbours: forward to the right, around, and backward to the left."""
        y = TOP + self.high / 2
        for a, b in pairwise(self.columns):
            line = pipe(f"M{a.x + a.wide:g} {y:g}H{b.x - 7:g}", width=2) + tip(b.x, y, "right")
            yield lit_by(line, "forward")
        some = [c for c in self.columns if c.backward]
        y = base + self.high / 2
        for a, b in pairwise(some):
            line = pipe(f"M{b.x:g} {y:g}H{a.x + a.wide + 7:g}", width=2)
            yield lit_by(line + tip(a.x + a.wide, y, "left"), "backward")
        if some:
            last, turn = self.columns[-1], some[-1]
            x, right = last.x + last.wide, last.x + last.wide + 10
            d = f"M{x:g} {TOP + self.high / 2:g}H{right:g}V{y:g}H{turn.x + turn.wide + 7:g}"
            yield lit_by(pipe(d, width=2) + tip(turn.x + turn.wide, y, "left"), "backward")

    def forward(self) -> Iterator[str]:
        """Draw the nodes of the forward part."""
        for c in self.columns:
            yield self._node(c.forward, c, TOP, "forward")

    def backward(self, deep: int, base: float) -> Iterator[str]:
        """Draw the derivatives below the nodes that they belong to."""
        for c in self.columns:
            for part in fold_columns(len(c.backward), deep) if c.backward else ():
                mine = tuple(c.backward[n] for n in part)
                yield self._node(mine, c, self.tops[mine[0]], self.rows.nodes[mine[0]].phase)

    def _node(self, mine: Sequence[int], c: _Column, y: float, keys: str) -> str:
        first: BackwardNode = self.rows.nodes[mine[0]]
        ops = tuple(op for n in mine for op in self.rows.nodes[n].ops)
        title = ", ".join(f"{self.rows.nodes[n].name} ({self.rows.nodes[n].label})" for n in mine)
        if len(mine) > 1:
            words = f"{len(mine)} more"
            return node(
                c.x, y, c.wide, self.high, words, ops=ops, dashed=True, title=title, keys=keys
            )
        words = f"again: {first.label}" if first.phase == "recomputed" else first.label
        family = next((self.families[o] for o in first.ops if o in self.families), "")
        return node(
            c.x, y, c.wide, self.high, words, size_text(first.bytes), family=family, ops=ops,
            on=bool(self.selected) and self.selected in first.ops,
            dashed=first.phase == "recomputed", title=f"{title}, {size_text(first.bytes)}",
            keys=keys,
        )  # fmt: skip

    def saved_values(self) -> Iterator[str]:
        """Draw the values that are saved, from their producers to their readers."""
        lines, boxes = list[str](), list[str]()
        by_column: dict[int, list[Saved]] = {}
        for s in self.rows.saved:
            for i, c in enumerate(self.columns):
                if s.producer in c.forward:
                    by_column.setdefault(i, []).append(s)
        for i, saved in by_column.items():
            c, readers = self.columns[i], dict[int, float]()
            for n in (n for s in saved for n in s.readers):
                if n in self.tops:
                    at = self.column_of(n)
                    assert at is not None
                    readers[self.columns.index(at)] = min(
                        self.tops[n], readers.get(self.columns.index(at), 1e9)
                    )
            y = TOP + self.high + self.room * 0.43
            size = size_text(sum(s.bytes for s in saved))
            names = ", ".join(f"{s.name} {size_text(s.bytes)}" for s in saved)
            first = min(self.tops.values(), default=0.0)
            for to, top in readers.items():
                route = self._route(c, self.columns[to], y, top, i, under=top > first)
                lines.append(lit_by(route, "kept"))
            name = saved[0].name if len(saved) == 1 else counted(len(saved), "value")
            shown = [name, size] if label_width(name, bold=True) <= c.wide - 14 else [size]
            if small_box_size(shown)[0] > c.wide or self.room < 80:
                shown = [size]
            box = small_box(c.middle, y, shown, title=f"kept: {names}")
            boxes.append(lit_by(box, "kept"))
        yield from lines
        yield from boxes

    def _route(
        self, a: _Column, b: _Column, y: float, top: float, track: int, *, under: bool
    ) -> str:
        """Draw a line from a forward node down to a derivative.

        It is straight, or runs along the space in between, and enters from the side if the
        derivative is below another.
        """
        x = a.middle
        low = y + (26 if self.room >= 80 else 16) + 4 * (track % 4)
        if under:
            to = top + self.high / 2
            d = f"M{x:g} {TOP + self.high:g}V{low:g}H{b.x - 9:g}V{to:g}H{b.x - 7:g}"
            return pipe(d, ink="ink2", width=1.5) + tip(b.x, to, "right", "ink2")
        start = TOP + self.high
        if a is b:
            d = f"M{x:g} {start:g}V{top - 7:g}"
            return pipe(d, ink="ink2", width=2) + tip(x, top - 1, "down", "ink2")
        to = b.middle + 8
        d = f"M{x:g} {start:g}V{low:g}H{to:g}V{top - 7:g}"
        return pipe(d, ink="ink2", width=1.5) + tip(to, top - 1, "down", "ink2")


def _legend(rows: BackwardRows, size: tuple[int, int]) -> Iterator[str]:
    width, height = size
    more = []
    updates = sum(n.phase == "update" for n in rows.nodes)
    if updates:
        more.append(counted(updates, "update"))
    if rows.inputs:
        many = size_text(sum(i.bytes for i in rows.inputs))
        more.append(f"{counted(len(rows.inputs), 'input')} read again, {many}")
    summary = "; ".join(more)
    if label_width(summary) > width:
        summary = more[-1]
    narrow = width < NARROW
    items = [("forward", "pipe", "order"), ("kept", "box", "value kept")]
    if any(n.phase == "recomputed" for n in rows.nodes):
        items.append(("recomputed", "dashbox", "computed again"))
    yield from legend(
        items, height - 9, 0 if narrow and summary else width - label_width(summary) - 14
    )
    if summary:
        yield label(width, height - 9, summary, anchor="end")


def _draw(s: OnShow, op: str) -> Drawn:
    rows = data(s.now.compiled, dict(s.now.sizes))
    families = {o.name: o.family for o in s.house.operators}
    return rows, figure(rows, s.view.size, op, families), table(rows)


PICTURE = Picture(
    name="backward",
    title="Training graph",
    words="The forward and backward graphs, and the values saved between them.",
    draw=_draw,
    stage=Stage.DIFFERENTIATED,
    about="operator",
)
