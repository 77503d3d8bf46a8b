"""How the register tiles of a contraction go over its rows, and where its epilogue runs.

Rows that lie a constant step apart in every tensor need no table of their places; an epilogue of
plain arithmetic runs on the accumulators before they leave the registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity_at
from explorer.ir.dtypes import ITEM_BYTES, is_float
from explorer.ir.kernel import Const
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.tile_programs.elements import Buffer, Do, Fetch, TileExpr, fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, Once, Panels, Run, Span, Statement

WASTE_RATIO = 1.1  # rows computed over rows there, in a run; chosen, no measurement kept
PANEL_SHARE = 2 / 3  # of the nearest cache: the rest is for rows and results; chosen, 32 KiB of 48
OWN_SHARE = 1 / 2  # of a unit's farthest own cache: the rest is for other matrices; chosen
ON_REGISTERS = ("add", "sub", "mul", "div", "max", "min")  # of float elements
ON_WHOLE_NUMBERS = ("add", "sub", "mul")
REMEMBERED_MAPS = 64  # a bound on memory, chosen


def register_tiles(p: TileProgram, device: Device) -> TileProgram:
    """After: every contraction says whether its rows are runs or stand in a table, which operands
    of its epilogue are read on registers, and what is prefetched.
    """
    columns: dict[str, int] = {}  # of tables of rows
    body = tuple(_decided(s, device, columns) for s in p.body)
    tables = ((b, columns.get(b.name, 1)) for b in p.buffers)
    buffers = tuple(b if n == 1 else replace(b, size=product((b.size, n))) for b, n in tables)
    return replace(p, body=body, buffers=buffers)


def _decided(s: Statement, device: Device, columns: dict[str, int]) -> Statement:
    match s:
        case For(_, body) | Once(_, body):
            return replace(s, body=tuple(_decided(x, device, columns) for x in body))
        case Panels():
            return _with_tiles(s, device, columns)
    return s


def _with_tiles(s: Panels, device: Device, columns: dict[str, int]) -> Statement:
    """The contraction with all that is decided; `columns` that its table of rows needs are noted:
    the left operand's, and those of operands of its epilogue.
    """
    rows = lying(s.rows, s.columns, s.contract.a, s.contract.acc, s.epilogue)
    run, name = rows.run(s.micro.rows), s.row_table.name
    operands, prefetch = rows.operands, _prefetched(s, rows.rows, run is not None, device)
    if run is None:
        columns[name] = max(columns.get(name, 1), 1 + len(tabled(operands, rows.rows)))
    found: Statement = replace(s, rows=rows.rows, run=run, operands=operands, prefetch=prefetch)
    for span in reversed(rows.around):
        found = For(span, (found,))
    return found


@dataclass(frozen=True, slots=True)
class LyingRows:
    """How the rows of a contraction lie in its left operand and in what its epilogue stores and
    reads, whatever register tile goes over them.

    Row axes of one point, as of one batch, are loops `around`: the others may lie a constant step
    apart though these do not. `operands` are what an epilogue of plain arithmetic stores and reads,
    none where it is no such one. `joined`: those and the left operand go a constant step from row
    to row; `dense`: all go a known one along the last axis.
    `settled`: what is read twice is the same both times.
    """

    around: tuple[Span, ...]
    rows: tuple[Span, ...]
    operands: tuple[Fetch, ...]
    joined: bool
    dense: bool
    settled: bool

    def run(self, height: int) -> Run | None:
        """The rows as runs that register tiles of so many rows go over, None where they need a
        table, or where tiles at the edge would be wasted.

        All row axes are one run where they are joined, else the last one is. The last tile of a run
        is moved back until it is full: some rows are computed twice, which an epilogue that reads
        what may be written does not allow.
        """
        if not self.operands or not self.dense:
            return None
        found = self._joined(height) if self.joined else None
        found = found or self._last(height)
        return None if found is None or not (found.exact or self.settled) else found

    def _joined(self, height: int) -> Run | None:
        sizes, fixed = tuple(x.size for x in self.rows), _is_fixed(self.rows[0])
        inner = product(sizes[1:])
        known = product(sizes) if fixed else inner
        known = known if isinstance(known, int) else inner
        if isinstance(known, int) and known >= height:
            return Run((), known % height == 0)
        return None

    def _last(self, height: int) -> Run | None:
        last, fixed = self.rows[-1], _is_fixed(self.rows[-1])
        if len(self.rows) == 1 or not isinstance(last.size, int):
            return None
        wasted = -(-last.size // height) * height > last.size * WASTE_RATIO
        if wasted or (last.size if fixed else last.least) < height:
            return None
        return Run(self.rows[:-1], fixed and last.size % height == 0)


def lying(
    rows: tuple[Span, ...], column: Span, left: Fetch, sums: Buffer, epilogue: Map
) -> LyingRows:
    """How rows lie, as lowering laid them; `sums` has a register tile that goes through L1."""
    around = tuple(x for x in rows if x.size == 1)[: len(rows) - 1]
    rows = tuple(x for x in rows if x not in around)
    operands = _arithmetic_operands(epilogue, (column.axis, sums))
    stepped = all(row_step(f.offset, rows) is not None for f in operands)
    inner = rows[-1].axis
    return LyingRows(
        around,
        rows,
        operands,
        stepped and all(map(_is_fixed, rows[1:])) and row_step(left.offset, rows) is not None,
        all(isinstance(f.offset.factor(inner), int) for f in (left, *operands)),
        not any(_may_change(f, epilogue) for f in operands[1:]),
    )


def tabled(operands: tuple[Fetch, ...], rows: tuple[Span, ...]) -> tuple[Fetch, ...]:
    """The operands whose rows stand in a table, as they have no one distance from row to row."""
    return tuple(f for f in operands if row_step(f.offset, rows) is None)


def row_step(offset: Affine, rows: tuple[Span, ...]) -> Dim | None:
    """The distance in memory of a flattened row to the next, where it is the same for all."""
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
    """The operands of an epilogue that can run on the accumulators, what is stored first; none
    where it must run on the tile in L1. `over`: the axis of the columns, and the sums.

    A function like erf would need more registers, and its cost hides the trip to L1.
    """
    column, sums = over
    target, expr, total = epilogue.target, epilogue.expr, sums.dtype
    known = ON_REGISTERS if is_float(total) else ON_WHOLE_NUMBERS

    def is_arithmetic(e: TileExpr) -> bool:
        match e:
            case Fetch(buffer, _, dynamic):
                return buffer.dtype == total and not dynamic
            case Const(value, dtype):
                return dtype == total and isinstance(value, (int, float)) and value == value
            case Do(op, (x, y)):
                return op in known and is_arithmetic(x) and is_arithmetic(y)
        return False

    read = dict.fromkeys(f for f in fetches(expr) if f.buffer != sums)
    operands = (target, *read)
    dense = all(f.offset.factor(column) in (0, 1) for f in operands)
    if target.buffer.dtype != total or not dense or target.offset.factor(column) != 1:
        return ()
    return operands if is_arithmetic(expr) else ()


def _is_fixed(s: Span) -> bool:
    return isinstance(s.size, int) and not s.clip_low and not s.clip_high


def settled(s: Panels) -> bool:
    """Whether a row may be computed twice: what the epilogue reads is the same both times."""
    return not any(_may_change(f, s.epilogue) for f in s.operands[1:])


def _may_change(f: Fetch, epilogue: Map) -> bool:
    """Whether a tile that is computed twice might read what it wrote the first time."""
    return f.buffer == epilogue.target.buffer or f.buffer.kind not in ("constant", "scratch")


def _prefetched(s: Panels, rows: tuple[Span, ...], runs: bool, device: Device) -> str:
    """While a packed panel is read, the next one comes; where all panels stay in the nearest cache,
    the left operand's next rows do. One row reads each panel once and needs none of it again: of
    panels that stay in a cache of the unit's own nothing comes before it is asked for. To bring
    1 MiB of them into L1 took a Xeon (Sapphire Rapids) 13 us instead of 9.
    """
    c = s.contract
    if c.b.buffer.kind != "packed":
        return ""
    held = product((s.columns.extent, c.depth, ITEM_BYTES[c.b.buffer.dtype]))
    own = max((m.capacity_bytes or 0 for m in device.levels if not m.shared), default=0)
    single = product(tuple(x.size for x in rows)) == 1
    if single and isinstance(held, int) and held <= own * OWN_SHARE:
        return ""
    room = (device.levels[0].capacity_bytes or 0) * PANEL_SHARE
    dense = c.a_step == 1 and len(c.segment_values) == 1
    follow = dense and c.a.offset.factor(rows[-1].axis) == c.depth
    return "rows" if runs and follow and isinstance(held, int) and held <= room else "panel"
