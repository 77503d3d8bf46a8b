"""One kernel's tiles: its output cut into tasks, a task into register tiles, and the candidates.

On a GPU a task is a thread block, and its parts are threads. A panel is drawn per level, with the
lines from a marked tile to the next panel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling, TilingDecision
from explorer.ir.dims import evaluate_dim
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.types import ITEM_BYTES
from explorer.plain_text import counted
from explorer.views.roller import thread_blocks
from widgets.draw.slide import LINE, PX, Text, column_widths, cut_to, line
from widgets.draw.svg import Svg, label, path, rect, text_width, wrap_text
from widgets.draw.table import Mark, Sentence, Table, lit_by, size_text, time_text
from widgets.draw.theme import TERM_INKS
from widgets.model.knobs import tile_label
from widgets.model.picture import Drawn, OnShow, Picture

LISTED, ASIDE = 300, 900  # minimum height for a list, minimum width for one at the right
HEAD, GAP, LEAST = 44.0, 44.0, 34.0  # height above a box; gap; minimum height
CELL = 22.0  # maximum pixels of a register cell
MOST = 40  # distinguishable lines in each direction


@dataclass(frozen=True, slots=True)
class Cut:
    """An output axis: its extent, the tile's size along it, and the number of tiles."""

    axis: str
    extent: int
    tile: int

    @property
    def tiles(self) -> int:
        """The number of tiles along the axis; the last one may be smaller."""
        return -(-self.extent // self.tile)


@dataclass(frozen=True, slots=True)
class TileRows:
    """A kernel's cuts from the slowest axis to the fastest; `micro` is None without a contraction.

    On a GPU a task is a thread block, whose warps have `lanes` lanes.
    """

    kernel: str
    display_name: str
    cuts: tuple[Cut, ...]
    micro: Micro | None
    item_bytes: int
    depth: int
    candidates: tuple[Candidate[Tiling], ...]
    chosen: str
    pinned: bool
    ops: tuple[str, ...]
    block: Tiling | None = None
    lanes: int = 1

    @property
    def tasks(self) -> int:
        """The number of tasks that the output is cut into."""
        return prod(c.tiles for c in self.cuts)

    @property
    def tile_bytes(self) -> int:
        """The bytes of output that one task computes."""
        return prod(min(c.tile, c.extent) for c in self.cuts) * self.item_bytes


def data(
    program: Program,
    sizes: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    lanes: int = 1,
) -> tuple[TileRows, ...]:
    """Return one entry per kernel that Roller has tiled, in program order.

    `labels` are the display names of kernels; `lanes` is the number of lanes of a warp.
    """
    bound = {**program.env.hints, **(sizes or {})}
    names, rows = labels or {}, []
    for b in program.kernel_calls:
        tile = b.kernel_call.tiling
        if tile is not None:
            decision = program.decisions.tiling(b.name)
            ops = tuple(sorted(b.origin))
            display_name, kernel = names.get(b.name, b.name), b.kernel_call.kernel
            rows.append(_rows(b.name, display_name, kernel, tile, decision, bound, ops, lanes))
    return tuple(rows)


def _rows(
    name: str,
    display_name: str,
    kernel: Kernel,
    tiling: Tiling,
    decision: TilingDecision | None,
    sizes: Mapping[str, int],
    ops: tuple[str, ...],
    lanes: int,
) -> TileRows:
    summed = [c for c in kernel.computes if _multiplies(c)]
    depth = prod(evaluate_dim(a.extent, sizes) for a in summed[0].reduce) if summed else 0
    candidates = decision.candidates if decision else ()
    chosen = next(
        (c.label for c in candidates if c.value == tiling),
        candidates[0].label if candidates else "",
    )
    return TileRows(
        name,
        display_name,
        _cuts(kernel, tiling, sizes),
        tiling.micro if summed and not tiling.is_thread_block else None,
        max(ITEM_BYTES[kernel.dtype(t)] for t in kernel.outputs),
        depth,
        candidates,
        chosen,
        bool(decision and decision.pinned),
        ops,
        tiling if tiling.is_thread_block else None,
        lanes,
    )


def _cuts(kernel: Kernel, tiling: Tiling, sizes: Mapping[str, int]) -> tuple[Cut, ...]:
    cuts = []
    for axis in kernel.computes[-1].axes:
        extent = max(evaluate_dim(axis.extent, sizes), 1)
        cuts.append(Cut(axis.name, extent, min(tiling.size(axis.name) or extent, extent)))
    return tuple(cuts)


def _multiplies(c: Compute) -> bool:
    return c.combiner == "sum" and getattr(c.expr, "op", "") == "mul"


def of_operator(rows: tuple[TileRows, ...], op: str) -> TileRows | None:
    """Return the kernel that computes an operator, else the one with the most tasks."""
    mine = next((r for r in rows if op in r.ops), None)
    return mine or max(rows, key=lambda r: r.tasks, default=None)


def table(rows: tuple[TileRows, ...], selected: str = "") -> Table:
    """Return one row per kernel."""
    return Table(
        ("kernel", "output", "tile", "tasks", "bytes per task", "registers", "weighed", "refused"),
        tuple(
            (
                r.display_name,
                _sizes(r.cuts, "extent"),
                _sizes(r.cuts, "tile"),
                r.tasks,
                r.tile_bytes,
                _registers(r),
                len(r.candidates),
                sum(bool(c.refused) for c in r.candidates),
            )
            for r in rows
        ),
        tuple(r.ops for r in rows),
        see=see(of_operator(rows, selected)),
    )


def _registers(r: TileRows) -> str:
    if r.block is not None:
        return f"{register_shape(r.block)} in each of {r.block.threads} threads"
    return f"{r.micro.rows}×{r.micro.columns}" if r.micro else ""


def _sizes(cuts: tuple[Cut, ...], field: str) -> str:
    return "×".join(str(getattr(c, field)) for c in cuts) or "scalar"


def see(k: TileRows | None) -> tuple[Sentence, ...]:
    """Return the key sentences: the output's tasks, the parts of a task, and the candidates."""
    if k is None:
        return (("Roller has not run.",),)
    task = "block" if k.block is not None else "task"
    tasks = Mark(counted(k.tasks, task), "memory")
    tile = f" of {_sizes(k.cuts, 'tile')}, {size_text(k.tile_bytes)}"
    sentences: list[Sentence] = [
        (f"The {_sizes(k.cuts, 'extent')} output of {k.display_name} is ", tasks, f"{tile}.")
    ]
    if len(levels := _levels(k)) > 2:
        sentences.append((f"A {task} is ", Mark(levels[1].subtitle, "register"), "."))
    if k.candidates:
        refused = sum(bool(c.refused) for c in k.candidates)
        cost = next((c.cost_us for c in k.candidates if c.label == k.chosen), 0.0)
        many = counted(len(k.candidates), "tile")
        sentences.append(
            (f"{many} weighed, {refused} refused; it is predicted to take {time_text(cost)}.",)
        )
    return tuple(sentences)


def figure(rows: tuple[TileRows, ...], size: tuple[int, int], selected: str = "") -> Svg:
    """Draw memory, one task and its register tile from left to right.

    With enough room, the candidates are drawn with their cost terms, below or at the right.
    """
    width, height = size
    kernel = of_operator(rows, selected)
    if kernel is None:
        body = "".join(text_lines("Roller has not run.", width))
        return Svg(width, height, body, "No tiles", px=PX)
    panels = _levels(kernel)
    listed = height >= LISTED and bool(kernel.candidates)
    aside = listed and width >= ASIDE
    high = height if aside or not listed else height * 0.5
    wide = width * 0.56 if aside else width
    marks = [*draw_panels(panels, (1, 1, wide - 2, high - 2))]
    if listed:
        place = (
            (wide + 36, 0, width - wide - 38, height)
            if aside
            else (5, high + 14, width - 7, height - high - 14)
        )
        marks += _weighed(kernel, place)
    title = f"Tile layout of {kernel.display_name}"
    return Svg(width, height, "".join(marks), title, px=PX)


def _levels(k: TileRows) -> tuple[Panel, ...]:
    """Return the panels of a kernel: its output in memory, one task, and registers if any."""
    down, across = prod(c.tiles for c in k.cuts[:-1]), k.cuts[-1].tiles if k.cuts else 1
    subtitle = f"{counted(k.tasks, 'block' if k.block else 'task')}, cut along {_cut_names(k)}"
    memory = Panel("memory", f"memory: {_sizes(k.cuts, 'extent')}", subtitle, down, across)
    if k.block is not None:
        return (memory, *of_block(k.block, k.lanes))
    rows = prod(min(c.tile, c.extent) for c in k.cuts[:-1])
    width = min(k.cuts[-1].tile, k.cuts[-1].extent) if k.cuts else 1
    if k.micro is not None:
        return (memory, *of_micro(k.micro, rows, width, k.depth))
    return memory, Panel(
        "register", f"one task: {_sizes(k.cuts, 'tile')}", "row by row, in vectors"
    )


def _cut_names(k: TileRows) -> str:
    cut = [f"{c.axis} by {c.tile}" for c in k.cuts if c.tiles > 1]
    return ", ".join(cut) or "no axis"


def _weighed(k: TileRows, place: tuple[float, float, float, float]) -> Iterator[str]:
    terms = list(dict.fromkeys(n for c in k.candidates for n, _ in c.terms))
    inks = dict(zip(terms, TERM_INKS * 4))
    order = sorted(k.candidates, key=lambda c: bool(c.refused))
    refused = sum(bool(c.refused) for c in order)
    rows = [
        (
            (
                Text(tile_label(c), "mono i", title=c.label),
                Text(
                    f"✕ {c.refused}" if c.refused else time_text(c.cost_us),
                    "" if c.refused else "i w",
                ),
            ),
            () if c.refused else c.terms,
            c.label == k.chosen,
        )
        for c in order
    ]
    yield from draw_candidates(rows, f"Weighed; {refused} refused, predicted", place, inks)


@dataclass(frozen=True, slots=True)
class Panel:
    """A level: its name with its sizes, a subtitle, and its box.

    The box is cut into `down` by `across` tiles with the first marked, or into cells. `spare` are
    the padded shares below and at the right.
    """

    key: str
    title: str
    subtitle: str
    down: int = 1
    across: int = 1
    cells: tuple[int, int, int] = (0, 0, 0)  # rows, columns, columns per vector
    spare: tuple[float, float] = (0.0, 0.0)
    note: str = ""


def draw_panels(panels: Sequence[Panel], place: tuple[float, float, float, float]) -> Iterator[str]:
    """Draw panels from left to right, each enlarging one tile of the previous one.

    On a narrow page they are one below the other.
    """
    x, y, wide, high = place
    flat = wide >= 200 * len(panels)
    n = len(panels)
    each = (wide - GAP * (n - 1)) / n if flat else wide
    tall = high if flat else high / n
    for i, panel in enumerate(panels):
        left, top = (x + i * (each + GAP), y) if flat else (x, y + i * tall)
        yield lit_by(
            "".join(_panel(panel, (left, top, each, tall - (0 if flat else 6)))), panel.key
        )
        if flat and i and tall > HEAD + LEAST:
            yield _zoom(
                panels[i - 1], left - GAP - each, left, top + HEAD, (each, _low(panel, tall))
            )


def _low(panel: Panel, tall: float) -> float:
    return tall - HEAD - (LINE + 4 if panel.note else 4)


def _panel(panel: Panel, place: tuple[float, float, float, float]) -> Iterator[str]:
    x, y, wide, tall = place
    yield label(x, y + 13, cut_to(panel.title, wide, bold=True), "i w", title=panel.title)
    yield label(x, y + 13 + LINE, cut_to(panel.subtitle, wide), title=panel.subtitle)
    top, high = y + HEAD, _low(panel, tall)
    if high < LEAST:
        return
    rows, width, group = panel.cells
    if rows:
        yield from _cells(rows, width, group, (x, top, wide, high))
    else:
        yield from grid(
            x, top, wide, high, panel.down, panel.across, marked=panel.down * panel.across > 1
        )
    below, right = panel.spare
    if below > 0:
        yield rect(x, top + high * (1 - below), wide, high * below, "url(#p-pad)")
    if right > 0:
        yield rect(x + wide * (1 - right), top, wide * right, high, "url(#p-pad)")
    if panel.note:
        yield label(x, y + tall - 4, cut_to(panel.note, wide), title=panel.note)


def _cells(
    rows: int, width: int, group: int, place: tuple[float, float, float, float]
) -> Iterator[str]:
    """Draw registers as cells, those of one vector in one tint."""
    x, y, wide, high = place
    cell = min(CELL, wide / width, high / rows)
    for r in range(rows):
        for g in range(0, width, group):
            w = min(group, width - g) * cell
            fill = ("var(--t3)", "var(--t2)")[g // group % 2]
            yield rect(x + g * cell, y + r * cell, max(0.5, w - 1), max(0.5, cell - 1), fill)


def _zoom(before: Panel, x: float, to: float, top: float, size: tuple[float, float]) -> str:
    """Draw lines from the marked tile of a panel to the box of the next."""
    if before.down * before.across < 2:
        return ""
    wide, high = size
    right, low = x + max(wide / before.across, 3), top + max(high / before.down, 3)
    d = f"M{right:.1f} {top:.1f}H{to:.1f}M{right:.1f} {low:.1f}L{to:.1f} {top + high:.1f}"
    return path(d, "var(--ink3)", 'stroke-dasharray="2 3"')


def of_block(block: Tiling, lanes: int) -> tuple[Panel, Panel]:
    """Return the panels of a thread block: its warps, and the registers of one thread."""
    warps = -(-block.threads // lanes)
    sizes = [n for _, n in block.register if n > 1] or [1]
    notes = [
        *(f"{n} of {a} at once" for a, n in block.shared),
        *(f"{n} threads to a sum" for _, n in block.parts if n > 1),
        "on matrix units" if block.matrix else "",
    ]
    note = ", ".join(filter(None, notes)) or "reads operands once"
    subtitle = f"{warps:,} warp{'s' * (warps != 1)} of {lanes}"
    threads = Panel(
        "register", f"a block: {block.threads:,} threads", subtitle, warps, lanes, note=note
    )
    rows, width = prod(sizes[:-1]), sizes[-1]
    each_ = Panel(
        "registers", f"a thread: {register_shape(block)}", "in registers", cells=(rows, width, 1)
    )
    return threads, each_


def register_shape(block: Tiling) -> str:
    """Return the results of a thread along each axis."""
    return "×".join(str(n) for _, n in block.register if n > 1) or "1"


def of_micro(micro: Micro, rows: int, width: int, depth: int) -> tuple[Panel, Panel]:
    """Return the panels of a task: its register tiles with padding, and the registers of one."""
    down, across = -(-rows // micro.rows), -(-width // micro.columns)
    spare = 1 - rows / (down * micro.rows), 1 - width / (across * micro.columns)
    padding = 1 - rows * width / (down * micro.rows * across * micro.columns)
    count = down * across
    subtitle = f"{count:,} register tile{'s' * (count != 1)}, {padding:.0%} padding"
    task = Panel("register", f"one task: {rows}×{width}", subtitle, down, across, spare=spare)
    note = f"{micro.rows * micro.vectors} hold sums, {depth:,} products each"
    sums = Panel(
        "registers",
        f"registers: {micro.rows}×{micro.columns}",
        f"{micro.vectors} vector{'s' * (micro.vectors != 1)} of {micro.lanes}",
        cells=(micro.rows, micro.vectors * micro.lanes, micro.lanes),
        note=note,
    )
    return task, sums


def draw_candidates(
    rows: Sequence[tuple[Sequence[Text], Sequence[tuple[str, float]], bool]],
    title: str,
    place: tuple[float, float, float, float],
    inks: dict[str, str],
) -> Iterator[str]:
    """Draw candidate tiles with their predicted cost terms as bars, or their refusal."""
    x, y, wide, high = place
    yield label(x, y + 13, cut_to(title, wide, bold=True), "i w")
    pitch, foot = 22.0, LINE + 8 if inks else 0.0
    shown = rows[: max(0, int((high - HEAD + 14 - foot) / pitch))]
    room = column_widths([cells for cells, _, _ in shown], wide * 0.62)
    start = x + sum(room) + 16 * len(room)
    longest = max((sum(us for _, us in terms) for _, terms, _ in shown), default=0.0) or 1.0
    scale = (x + wide - start) / longest
    for n, (cells, terms, on) in enumerate(shown):
        top = y + 24 + n * pitch
        body = rect(x - 4, top, wide + 4, pitch - 2, "var(--soft)") if on else ""
        body += "".join(line(cells, room, x, top + 15))
        at = start
        for name, us in terms:
            edge = 'stroke="var(--t2)" stroke-width="0.6"'
            body += rect(
                at,
                top + 4,
                max(us * scale - 0.6, 0.6),
                12,
                f"var(--{inks[name]})",
                edge,
                title=name,
            )
            at += us * scale
        yield lit_by(body, "weighed on" if on else "weighed")
    at = x
    for name, ink in inks.items():
        w = 20 + text_width(name, PX)
        if at + w > x + wide:
            return
        yield rect(at, y + high - 15, 13, 11, f"var(--{ink})", 'stroke="var(--t2)"')
        yield label(at + 19, y + high - 5, name)
        at += w + 16


def text_lines(text: str, wide: float) -> Iterator[str]:
    """Draw text only."""
    for n, words in enumerate(wrap_text(text, wide, PX)):
        yield label(0, 16 + LINE * n, words, "i")


def grid(
    x: float, y: float, wide: float, high: float, down: int, across: int, *, marked: bool
) -> list[str]:
    """Draw a box with lines between its tiles, the first of them `marked`; of too many a tint."""
    lines = ""
    if down <= MOST:
        lines += "".join(f"M{x:g} {y + high * i / down:.1f}h{wide:g}" for i in range(1, down))
    if across <= MOST:
        lines += "".join(f"M{x + wide * i / across:.1f} {y:g}v{high:g}" for i in range(1, across))
    ground = "var(--app)" if max(down, across) <= MOST else "var(--tint)"
    marks = [
        rect(x, y, wide, high, ground, 'stroke="var(--edge)"'),
        path(lines or "M0 0", "var(--line2)"),
    ]
    if marked:
        w, h = max(wide / across, 3), max(high / down, 3)
        marks.append(rect(x, y, w, h, "var(--line2)", 'stroke="var(--ink)" stroke-width="2"'))
    return marks


def _draw(s: OnShow, op: str) -> Drawn:
    lanes = s.now.compiled.device.lanes
    rows = data(s.now.compiled.program, dict(s.now.sizes), s.house.labels, lanes)
    rows = tuple(_of_wall(s, r) if r is of_operator(rows, op) else r for r in rows)
    return rows, figure(rows, s.view.size, op), table(rows, op)


def _of_wall(s: OnShow, r: TileRows) -> TileRows:
    """Return a kernel with its thread blocks of the wall at the current sizes."""
    weighed = (
        thread_blocks(s.now.compiled, r.kernel, dict(s.now.sizes)) if r.block is not None else ()
    )
    mine = next((w.candidate for w in weighed if w.on), None)
    if mine is None:
        return r
    program = s.now.compiled.program
    kernel = next(b.kernel_call.kernel for b in program.kernel_calls if b.name == r.kernel)
    sizes = {**program.env.hints, **dict(s.now.sizes)}
    candidates = tuple(w.candidate for w in weighed)
    cuts = _cuts(kernel, mine.value, sizes)
    return replace(r, cuts=cuts, candidates=candidates, chosen=mine.label, block=mine.value)


PICTURE = Picture(
    name="layout",
    title="Tune",
    words="A kernel's output cut into tasks and register tiles, on a GPU into blocks and threads; "
    "on this machine any tile can be tried and timed.",
    stage=Stage.ROLLED,
    about="kernel",
    live="tile",
    draw=_draw,
)
