"""The order of register tiles over the rows of a contraction, and the place of its epilogue.

Rows that lie a constant step apart in every tensor need no table of their offsets. An epilogue of
plain arithmetic runs on the accumulators before they leave the registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.dims import Dim, product
from explorer.ir.dtypes import ITEM_BYTES, is_float
from explorer.ir.kernel import Const
from explorer.ir.tile_program import (
    Buffer,
    Do,
    Fetch,
    For,
    Map,
    Once,
    Panels,
    Run,
    Span,
    Statement,
    TileExpr,
    TileProgram,
    fetches,
)

WASTE_RATIO = 1.1  # rows computed over rows needed, in a run; chosen, no measurement kept
PANEL_SHARE = 2 / 3  # of the nearest cache: the rest is for rows and results; chosen, 32 KiB of 48
PREFETCHED_LANES = 16  # from which panels of float32 are prefetched for one row
OWN_SHARE = 1 / 2  # of a unit's farthest own cache: the rest is for other matrices; chosen
ON_REGISTERS = ("add", "sub", "mul", "div", "max", "min")  # of float elements
ON_INTEGERS = ("add", "sub", "mul")
REMEMBERED_MAPS = 64  # a bound on memory, chosen


def register_tiles(p: TileProgram, device: Device) -> TileProgram:
    """Decide the row order, epilogue operands and prefetch of every contraction.

    Rows are runs or stand in a table; some operands of the epilogue are read on registers.
    """
    columns: dict[str, int] = {}  # of tables of rows
    body = tuple(_decide(s, device, columns) for s in p.body)
    tables = ((b, columns.get(b.name, 1)) for b in p.buffers)
    buffers = tuple(b if n == 1 else replace(b, size=product((b.size, n))) for b, n in tables)
    return replace(p, body=body, buffers=buffers)


def _decide(s: Statement, device: Device, columns: dict[str, int]) -> Statement:
    match s:
        case For(_, body) | Once(_, body):
            return replace(s, body=tuple(_decide(x, device, columns) for x in body))
        case Panels():
            return _with_tiles(s, device, columns)
    return s


def _with_tiles(s: Panels, device: Device, columns: dict[str, int]) -> Statement:
    """Return the contraction with all decisions; note the `columns` that its table of rows needs.

    They are the left operand's, and those of operands of its epilogue.
    """
    rows = row_layout(s.rows, s.columns, s.contract.a, s.contract.acc, s.epilogue)
    run, name = rows.run(s.micro.rows), s.row_table.name
    operands, prefetch = rows.operands, _prefetch_kind(s, rows.rows, run is not None, device)
    if run is None:
        columns[name] = max(columns.get(name, 1), 1 + len(operands_in_table(operands, rows.rows)))
    statement: Statement = replace(s, rows=rows.rows, run=run, operands=operands, prefetch=prefetch)
    for span in reversed(rows.around):
        statement = For(span, (statement,))
    return statement


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The layout of a contraction's rows in its left operand and its epilogue's operands.

    It is independent of the register tile. Row axes of one point, as of one batch, are loops
    `around`: the others may lie a constant step apart though these do not. `operands` are what an
    epilogue of plain arithmetic stores and reads, empty for other epilogues. `joined`: those and
    the left operand have a constant step from row to row; `dense`: all have a known one along the
    last axis. `settled`: a second read returns the same values.
    """

    around: tuple[Span, ...]
    rows: tuple[Span, ...]
    operands: tuple[Fetch, ...]
    joined: bool
    dense: bool
    settled: bool

    def run(self, height: int) -> Run | None:
        """Return the rows as runs for register tiles of `height` rows, or None.

        None if the rows need a table, or if tiles at the edge would waste too much.

        All row axes are one run if they are joined, else the last one is. The last tile of a run is
        moved back until it is full: some rows are computed twice, which an epilogue that reads what
        may be written does not allow.
        """
        if not self.operands or not self.dense:
            return None
        run = self._joined_run(height) if self.joined else None
        run = run or self._last_axis_runs(height)
        return None if run is None or not (run.exact or self.settled) else run

    def _joined_run(self, height: int) -> Run | None:
        sizes, fixed = tuple(x.size for x in self.rows), _is_fixed(self.rows[0])
        inner = product(sizes[1:])
        rows_at_least = product(sizes) if fixed else inner
        rows_at_least = rows_at_least if isinstance(rows_at_least, int) else inner
        if isinstance(rows_at_least, int) and rows_at_least >= height:
            return Run((), rows_at_least % height == 0)
        return None

    def _last_axis_runs(self, height: int) -> Run | None:
        last, fixed = self.rows[-1], _is_fixed(self.rows[-1])
        if len(self.rows) == 1 or not isinstance(last.size, int):
            return None
        wasted = -(-last.size // height) * height > last.size * WASTE_RATIO
        if wasted or (last.size if fixed else last.least) < height:
            return None
        return Run(self.rows[:-1], fixed and last.size % height == 0)


def row_layout(
    rows: tuple[Span, ...], column: Span, left: Fetch, sums: Buffer, epilogue: Map
) -> RowLayout:
    """Return the layout of rows; `sums` has a register tile that goes through L1."""
    around = tuple(x for x in rows if x.size == 1)[: len(rows) - 1]
    rows = tuple(x for x in rows if x not in around)
    operands = _arithmetic_operands(epilogue, (column.axis, sums))
    stepped = all(row_step(f.offset, rows) is not None for f in operands)
    inner = rows[-1].axis
    return RowLayout(
        around,
        rows,
        operands,
        stepped and all(map(_is_fixed, rows[1:])) and row_step(left.offset, rows) is not None,
        all(isinstance(f.offset.factor(inner), int) for f in (left, *operands)),
        not any(_may_change(f, epilogue) for f in operands[1:]),
    )


def operands_in_table(operands: tuple[Fetch, ...], rows: tuple[Span, ...]) -> tuple[Fetch, ...]:
    """Return the operands whose rows stand in a table: those without a constant row distance."""
    return tuple(f for f in operands if row_step(f.offset, rows) is None)


def row_step(offset: Affine, rows: tuple[Span, ...]) -> Dim | None:
    """Return the distance in memory between flattened rows if it is constant, else None."""
    inner = step = offset.factor(rows[-1].axis)
    if not any(x.axis in offset.variables for x in rows):
        return 0
    for outer, span in zip(rows[-2::-1], rows[:0:-1], strict=True):
        if not isinstance(span.size, int):
            return None
        step = step * span.size
        if span.clip_low or span.clip_high or offset.factor(outer.axis) != step:
            return None
    return inner


@by_identity_at(REMEMBERED_MAPS)
def _arithmetic_operands(epilogue: Map, over: tuple[str, Buffer]) -> tuple[Fetch, ...]:
    """Return the operands of an epilogue that can run on the accumulators, what is stored first.

    They are empty if it must run on the tile in L1. `over` is the axis of the columns, and the
    sums.

    A function like erf would need more registers, and its cost hides the trip to L1.
    """
    column, sums = over
    target, expr, total = epilogue.target, epilogue.expr, sums.dtype
    operators = ON_REGISTERS if is_float(total) else ON_INTEGERS

    def is_arithmetic(e: TileExpr) -> bool:
        match e:
            case Fetch(buffer, _, dynamic):
                return buffer.dtype == total and not dynamic
            case Const(value, dtype):
                return dtype == total and isinstance(value, (int, float)) and value == value
            case Do(op, (x, y)):
                return op in operators and is_arithmetic(x) and is_arithmetic(y)
        return False

    read = dict.fromkeys(f for f in fetches(expr) if f.buffer != sums)
    operands = (target, *read)
    dense = all(f.offset.factor(column) in (0, 1) for f in operands)
    if target.buffer.dtype != total or not dense or target.offset.factor(column) != 1:
        return ()
    return operands if is_arithmetic(expr) else ()


def _is_fixed(s: Span) -> bool:
    return isinstance(s.size, int) and not s.clip_low and not s.clip_high


def is_repeatable(s: Panels) -> bool:
    """Return True if a row may be computed twice: the epilogue reads the same values both times."""
    return not any(_may_change(f, s.epilogue) for f in s.operands[1:])


def _may_change(f: Fetch, epilogue: Map) -> bool:
    """Return True if a tile that is computed twice might read its own first results."""
    return f.buffer == epilogue.target.buffer or f.buffer.kind not in ("constant", "scratch")


def _prefetch_kind(s: Panels, rows: tuple[Span, ...], runs: bool, device: Device) -> str:
    """Return what to prefetch while a packed panel is read: the next "panel", or "rows", or "".

    Rows of the left operand are prefetched if all panels stay in the nearest cache. One row reads
    each panel once: panels that stay in a cache of the unit's own are not prefetched. Prefetching 1
    MiB of them into L1 took a Xeon (Sapphire Rapids) 13 us instead of 9. Nor are panels of float32
    on 8 lanes, which hardware prefetches fast enough: 98 MB took 4.6 ms instead of 5.5 (Zen 3); of
    bytes they took longer without. WebAssembly has no prefetch, and steps that are unrolled for one
    prefetch need more registers.
    """
    c = s.contract
    if c.b.buffer.kind != "packed" or device.isa.is_wasm:
        return ""
    item = ITEM_BYTES[c.b.buffer.dtype]
    panel_bytes = product((s.columns.extent, c.depth, item))
    own = max((m.capacity_bytes or 0 for m in device.levels if not m.shared), default=0)
    single = product(tuple(x.size for x in rows)) == 1
    every = c.b.buffer.size
    if single and item >= ITEM_BYTES["float32"] and device.lanes < PREFETCHED_LANES:
        return ""
    if single and isinstance(every, int) and every * item <= own * OWN_SHARE:
        return ""
    cache_share = (device.levels[0].capacity_bytes or 0) * PANEL_SHARE
    dense = c.a_step == 1 and len(c.segment_values) == 1
    follow = dense and c.a.offset.factor(rows[-1].axis) == c.depth
    return (
        "rows"
        if runs and follow and isinstance(panel_bytes, int) and panel_bytes <= cache_share
        else "panel"
    )
