"""One kernel's tiles: its output cut into tasks, a task into register tiles, and the candidates.

On a GPU a task is a thread block, and its parts are threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, BlockDecision, Micro, Tiling, TilingDecision
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.program import Program
from explorer.ir.shapes.dims import evaluate_dim
from explorer.ir.stage import Stage
from explorer.ir.types import ITEM_BYTES
from widgets.draw.columns import Text
from widgets.draw.see import Mark, Sentence
from widgets.draw.slide import PX
from widgets.draw.svg import Svg
from widgets.draw.table import Table, count_text, size_text, time_text
from widgets.draw.theme import TERM_INKS
from widgets.model.knobs import tile_label
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.roller.block_choices import thread_blocks
from widgets.roller.layout.panels import (
    Panel,
    draw_candidates,
    draw_panels,
    of_block,
    of_micro,
    register_shape,
    text_lines,
)

LISTED, ASIDE = 300, 900  # minimum height for a list, minimum width for one at the right


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
    candidates: tuple[Candidate[Tiling | Block], ...]
    chosen: str
    pinned: bool
    ops: tuple[str, ...]
    block: Block | None = None
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
        tile = b.kernel_call.tiling or b.kernel_call.block
        if tile is not None:
            decision = program.decisions.rolled(b.name)
            ops = tuple(sorted(b.origin))
            display_name, kernel = names.get(b.name, b.name), b.kernel_call.kernel
            rows.append(_rows(b.name, display_name, kernel, tile, decision, bound, ops, lanes))
    return tuple(rows)


def _rows(
    name: str,
    display_name: str,
    kernel: Kernel,
    tiling: Tiling | Block,
    decision: TilingDecision | BlockDecision | None,
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
        tiling.micro if summed and isinstance(tiling, Tiling) else None,
        max(ITEM_BYTES[kernel.dtype(t)] for t in kernel.outputs),
        depth,
        candidates,
        chosen,
        bool(decision and decision.pinned),
        ops,
        tiling if isinstance(tiling, Block) else None,
        lanes,
    )


def _cuts(kernel: Kernel, tiling: Tiling | Block, sizes: Mapping[str, int]) -> tuple[Cut, ...]:
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
    tasks = Mark(count_text(k.tasks, task), "memory")
    tile = f" of {_sizes(k.cuts, 'tile')}, {size_text(k.tile_bytes)}"
    sentences: list[Sentence] = [
        (f"The {_sizes(k.cuts, 'extent')} output of {k.display_name} is ", tasks, f"{tile}.")
    ]
    if len(levels := _levels(k)) > 2:
        sentences.append((f"A {task} is ", Mark(levels[1].subtitle, "register"), "."))
    if k.candidates:
        refused = sum(bool(c.refused) for c in k.candidates)
        cost = next((c.cost_us for c in k.candidates if c.label == k.chosen), 0.0)
        many = count_text(len(k.candidates), "tile")
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
    subtitle = f"{count_text(k.tasks, 'block' if k.block else 'task')}, cut along {_cut_names(k)}"
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


def _draw(s: OnShow, op: str) -> Drawn:
    lanes = s.now.compiled.device.lanes
    rows = data(s.now.compiled.program, dict(s.now.sizes), s.house.labels, lanes)
    rows = tuple(_of_wall(s, r) if r is of_operator(rows, op) else r for r in rows)
    return rows, figure(rows, s.view.size, op), table(rows, op)


def _of_wall(s: OnShow, r: TileRows) -> TileRows:
    """Return a kernel with its thread blocks of the wall at the current sizes."""
    weighed = thread_blocks(s.now, r.kernel) if r.block is not None else ()
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
