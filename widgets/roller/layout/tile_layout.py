"""One kernel's tiles: its output cut into tasks, a task cut into register tiles, on a GPU into
blocks and threads, and the candidates that were weighed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Block, BlockDecision, Micro, Tiling, TilingDecision
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.program import Program
from explorer.ir.shapes.dims import evaluate_dim
from explorer.ir.stage import Stage
from explorer.ir.types import ITEM_BYTES
from widgets.draw.svg import Svg, fit, label, path, rect, text_width
from widgets.draw.table import Table, count_text, size_text, time_text
from widgets.draw.theme import TERM_INKS
from widgets.model.knobs import tile_label
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.roller.block_choices import thread_blocks
from widgets.roller.layout.grid import grid
from widgets.roller.layout.threads import each, threads


@dataclass(frozen=True, slots=True)
class Cut:
    """An output axis: its extent, the tile's size along it, and how many tiles that makes."""

    axis: str
    extent: int
    tile: int

    @property
    def tiles(self) -> int:
        """How many tiles there are along the axis; the last one may be smaller."""
        return -(-self.extent // self.tile)


@dataclass(frozen=True, slots=True)
class TileRows:
    """A kernel's cuts from the slowest axis to the fastest; `micro` is None where nothing is
    contracted. On a GPU a task is a thread block, whose warps have so many `lanes`.
    """

    kernel: str
    called: str
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
        """How many tasks the output is cut into."""
        return prod(c.tiles for c in self.cuts)

    @property
    def tile_bytes(self) -> int:
        """The bytes of output that one task makes."""
        return prod(min(c.tile, c.extent) for c in self.cuts) * self.item_bytes


def data(
    program: Program,
    sizes: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
    lanes: int = 1,
) -> tuple[TileRows, ...]:
    """One entry a kernel that Roller has cut, in program order; `labels` says what kernels are
    called, `lanes` how many a warp of the device has.
    """
    bound = {**program.env.hints, **(sizes or {})}
    names, found = labels or {}, []
    for b in program.kernel_calls:
        tile = b.kernel_call.tiling or b.kernel_call.block
        if tile is not None:
            decision = program.decisions.rolled(b.name)
            ops = tuple(sorted(b.origin))
            called, kernel = names.get(b.name, b.name), b.kernel_call.kernel
            found.append(_rows(b.name, called, kernel, tile, decision, bound, ops, lanes))
    return tuple(found)


def _rows(
    name: str,
    called: str,
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
        called,
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
    """The kernel that computes an operator, else the one with the most tasks."""
    mine = next((r for r in rows if op in r.ops), None)
    return mine or max(rows, key=lambda r: r.tasks, default=None)


def table(rows: tuple[TileRows, ...]) -> Table:
    """One row a kernel."""
    return Table(
        ("kernel", "output", "tile", "tasks", "bytes a task", "registers", "weighed", "refused"),
        tuple(
            (
                r.called,
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
    )


def _registers(r: TileRows) -> str:
    if r.block is not None:
        return f"{each(r.block)} in each of {r.block.threads} threads"
    return f"{r.micro.rows}×{r.micro.columns}" if r.micro else ""


def _sizes(cuts: tuple[Cut, ...], field: str) -> str:
    return "×".join(str(getattr(c, field)) for c in cuts)


def figure(rows: tuple[TileRows, ...], selected: str = "") -> Svg:
    """Memory, one task and its register tile from top to bottom; the candidates with their cost
    terms beside.
    """
    kernel = of_operator(rows, selected)
    if kernel is None:
        return Svg(680, 60, label(12, 34, "Roller has not run.", "i"), "No tiles")
    marks = [path("M396.5 12V332", "var(--line)"), *_levels(kernel), *_weighed(kernel)]
    return Svg(680, 352, "".join(marks), f"Tile layout of {kernel.called}")


def _levels(k: TileRows) -> list[str]:
    columns = k.cuts[-1] if k.cuts else Cut("", 1, 1)
    rows = Cut("rows", prod(c.extent for c in k.cuts[:-1]), prod(c.tile for c in k.cuts[:-1]))
    down = prod(c.tiles for c in k.cuts[:-1])
    across = columns.tiles
    marks = [
        label(12, 32, "memory", "i w"),
        label(12, 48, _sizes(k.cuts, "extent")),
        label(12, 64, count_text(k.tasks, "block" if k.block else "task"), "q"),
        *grid(150, 20, 220, 104, down, across, marked=True),
        label(150, 138, fit(f"cut along {_cut_names(k)}", 236), "q"),
        label(12, 172, "one block" if k.block else "one task", "i w"),
        label(12, 188, _sizes(k.cuts, "tile")),
        label(12, 204, size_text(k.tile_bytes), "q"),
    ]
    if k.block is not None:
        return marks + threads(k.block, k.lanes)
    if k.micro is None:
        return [
            *marks,
            *grid(150, 160, 150, 76, 1, 1, marked=False),
            label(150, 252, "row by row, in vectors", "q"),
        ]
    return marks + _micro(
        k, k.micro, min(rows.tile, rows.extent), min(columns.tile, columns.extent)
    )


def _cut_names(k: TileRows) -> str:
    cut = [f"{c.axis} by {c.tile}" for c in k.cuts if c.tiles > 1]
    return ", ".join(cut) or "no axis: one task"


def _micro(k: TileRows, micro: Micro, rows: int, columns: int) -> list[str]:
    down, across = -(-rows // micro.rows), -(-columns // micro.columns)
    x, y, wide, high = 150.0, 160.0, 150.0, 76.0
    marks = grid(x, y, wide, high, down, across, marked=True)
    spare_rows, spare_columns = (
        1 - rows / (down * micro.rows),
        1 - columns / (across * micro.columns),
    )
    if spare_rows > 0:
        marks.append(rect(x, y + high * (1 - spare_rows), wide, high * spare_rows, "url(#p-pad)"))
    if spare_columns > 0:
        marks.append(
            rect(x + wide * (1 - spare_columns), y, wide * spare_columns, high, "url(#p-pad)")
        )
    padding = 1 - rows * columns / (down * micro.rows * across * micro.columns)
    marks += [
        label(150, 252, f"{down}×{across} register tiles, {padding:.0%} padding", "q"),
        label(12, 284, "registers", "i w"),
        label(12, 300, f"{micro.rows}×{micro.columns}"),
        label(12, 316, f"{micro.vectors} vectors of {micro.lanes}", "q"),
    ]
    cell = min(5.0, 220 / micro.columns, 56 / micro.rows)
    for r in range(micro.rows):
        for v in range(micro.vectors):
            marks.append(
                rect(
                    150 + v * micro.lanes * cell,
                    272 + r * cell,
                    micro.lanes * cell - 1,
                    cell - 0.8,
                    ("var(--t3)", "var(--t2)")[v % 2],
                )
            )
    note = f"{micro.rows * micro.vectors} registers hold sums, {k.depth:,} products each"
    return [*marks, label(150, 344, note, "q")]


def _weighed(k: TileRows) -> list[str]:
    terms = list(dict.fromkeys(n for c in k.candidates for n, _ in c.terms))
    inks = dict(zip(terms, TERM_INKS * 4))
    taken = [c for c in k.candidates if not c.refused]
    refused = [c for c in k.candidates if c.refused]
    most = max((c.cost_us for c in taken[:9]), default=1) or 1
    bar = 520 if k.block is None else 582  # blocks have more to tell
    head = f"Weighed; {len(refused)} refused"
    marks = [label(410, 22, head, "i w"), label(668, 22, "predicted µs", "q", anchor="end")]
    y = 34
    for c in taken[:9]:
        on = c.label == k.chosen
        text = fit(tile_label(c), bar - 416, mono=True)
        marks.append(label(410, y + 10, text, "mono " + ("a" if on else "i"), title=c.label))
        marks += _bar(c, bar, y, (616 - bar) / most, inks)
        marks.append(
            label(
                668,
                y + 10,
                time_text(c.cost_us).removesuffix(" µs"),
                "i w" if on else "i",
                anchor="end",
            )
        )
        y += 20
    for c in refused[: max(0, (296 - y) // 20)]:
        marks.append(label(410, y + 10, fit(tile_label(c), 104, mono=True), "mono q"))
        marks.append(label(520, y + 10, fit("✕ " + c.refused, 148)))
        y += 20
    x, line = 410.0, 322
    for name in terms[:4]:
        if x + 15 + text_width(name) > 668:
            x, line = 410.0, line + 16
        marks += [
            rect(x, line, 11, 9, f"var(--{inks[name]})", 'stroke="var(--t2)"'),
            label(x + 15, line + 8, name),
        ]
        x += 15 + text_width(name) + 14
    return marks


def _bar(
    c: Candidate[Tiling | Block], x: float, y: float, scale: float, inks: Mapping[str, str]
) -> list[str]:
    marks, at = [], x
    for name, us in c.terms:
        marks.append(
            rect(
                at,
                y + 2,
                max(us * scale - 0.6, 0.6),
                9,
                f"var(--{inks[name]})",
                'stroke="var(--t2)" stroke-width="0.6"',
                title=f"{name} {time_text(us)}",
            )
        )
        at += us * scale
    return marks


def _draw(s: OnShow, op: str) -> Drawn:
    lanes = s.now.compiled.device.lanes
    rows = data(s.now.compiled.program, dict(s.now.sizes), s.house.labels, lanes)
    rows = tuple(_of_wall(s, r) if r is of_operator(rows, op) else r for r in rows)
    return rows, figure(rows, op), table(rows)


def _of_wall(s: OnShow, r: TileRows) -> TileRows:
    """A kernel's thread blocks as the wall has them at the sizes on show."""
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
