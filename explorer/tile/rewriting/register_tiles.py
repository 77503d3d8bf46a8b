"""How the register tiles of a contraction go over its rows, and where its epilogue runs.

Rows that lie a constant step apart in every tensor need no table of their places; an epilogue of
plain arithmetic runs on the accumulators before they leave the registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.dtypes import ITEM_BYTES, is_float
from explorer.ir.kernel import Const
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.tile_programs.elements import Do, Fetch, TileExpr, fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Once, Panels, Run, Span, Statement

WASTE_RATIO = 1.1  # rows computed over rows there, in a run; chosen, no measurement kept
PANEL_SHARE = 2 / 3  # of the nearest cache: the rest is for rows and results; chosen, 32 KiB of 48
OWN_SHARE = 1 / 2  # of a unit's farthest own cache: the rest is for other matrices; chosen
ON_REGISTERS = ("add", "sub", "mul", "div", "max", "min")  # of float elements
ON_WHOLE_NUMBERS = ("add", "sub", "mul")


def register_tiles(p: TileProgram, device: Device) -> TileProgram:
    """After: every contraction says whether its rows are runs or stand in a table, which operands
    of its epilogue are read on registers, and what is prefetched.
    """
    return replace(p, body=tuple(_decided(s, device) for s in p.body))


def _decided(s: Statement, device: Device) -> Statement:
    match s:
        case For(_, body) | Once(_, body):
            return replace(s, body=tuple(_decided(x, device) for x in body))
        case Panels():
            return _with_tiles(s, device)
    return s


def _with_tiles(s: Panels, device: Device) -> Statement:
    """Row axes of one point, as of one batch, become loops around: the others may lie a constant
    step apart though these do not.
    """
    single = tuple(x for x in s.rows if x.size == 1)[: len(s.rows) - 1]
    s = replace(s, rows=tuple(x for x in s.rows if x not in single))
    operands = _on_registers(s)
    run = _run_of(s, operands) if operands else None
    if run is None and any(row_step(f.offset, s.rows) is None for f in operands):
        operands = ()
    found: Statement = replace(
        s, run=run, operands=operands, prefetch=_prefetched(s, run is not None, device)
    )
    for span in reversed(single):
        found = For(span, (found,))
    return found


def row_step(offset: Affine, rows: tuple[Span, ...]) -> Dim | None:
    """The distance in memory of a flattened row to the next, where it is the same for all."""
    inner = step = offset.factor(rows[-1].axis)
    for outer, span in zip(rows[-2::-1], rows[:0:-1], strict=True):
        if not isinstance(span.size, int):
            return None
        step = step * span.size
        if span.clip_low or span.clip_high or offset.factor(outer.axis) != step:
            return None
    return inner


def _on_registers(s: Panels) -> tuple[Fetch, ...]:
    """The operands of an epilogue that runs on the accumulators, what is stored first; none where
    it must run on the tile in L1.

    A function like erf would need more registers, and its cost hides the trip to L1.
    """
    target, expr, total = s.epilogue.target, s.epilogue.expr, s.contract.acc.dtype
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

    read = dict.fromkeys(f for f in fetches(expr) if f.buffer != s.contract.acc)
    operands, column = (target, *read), s.columns.axis
    dense = all(f.offset.factor(column) in (0, 1) for f in operands)
    if target.buffer.dtype != total or not dense or target.offset.factor(column) != 1:
        return ()
    return operands if is_arithmetic(expr) else ()


def _run_of(s: Panels, operands: tuple[Fetch, ...]) -> Run | None:
    """The rows as runs, None where they need a table, or where tiles at the edge would be wasted.

    The last tile of a run is moved back until it is full: some rows are computed twice, which an
    epilogue that reads what may be written does not allow.
    """
    inner = s.rows[-1]
    fetched = (s.contract.a, *operands)
    if any(not isinstance(f.offset.factor(inner.axis), int) for f in fetched):
        return None
    joined = all(_is_one_run(f.offset, s.rows) for f in fetched)
    sizes, fixed = tuple(x.size for x in s.rows), tuple(_is_fixed(x) for x in s.rows)
    found = rows_in_runs(sizes, fixed, inner.least, joined, s.micro.rows)
    if found is None or (not found.exact and any(_may_change(f, s) for f in operands[1:])):
        return None
    return Run(s.rows[: len(s.rows) - found.axes], found.exact)


@dataclass(frozen=True, slots=True)
class RowsInRuns:
    """Of the row axes, how many of the last ones a run goes over, and whether whole register tiles
    are all of it in every task.
    """

    axes: int
    exact: bool


def rows_in_runs(
    sizes: Sequence[Dim], fixed: Sequence[bool], least: Dim, joined: bool, rows: int
) -> RowsInRuns | None:
    """Whether register tiles of so many rows go over runs: over all row axes where they are joined,
    a constant step apart; else over the last one, unless tiles at its end would be wasted. None:
    rows stand in a table.

    `sizes` are a tile's, `fixed` which of them no task has less of, `least` what every task has of
    the last axis. What a cost model knows before there is a program is enough.
    """
    if joined:
        inner = product(tuple(sizes[1:]))
        known = product(tuple(sizes)) if fixed[0] else inner
        known = known if isinstance(known, int) else inner
        if isinstance(known, int) and known >= rows:
            return RowsInRuns(len(sizes), known % rows == 0)
    last = sizes[-1]
    if len(sizes) == 1 or not isinstance(last, int):
        return None
    wasted = -(-last // rows) * rows > last * WASTE_RATIO
    if wasted or not isinstance(least, int) or (last if fixed[-1] else least) < rows:
        return None
    return RowsInRuns(1, fixed[-1] and last % rows == 0)


def _is_fixed(s: Span) -> bool:
    return isinstance(s.size, int) and not s.clip_low and not s.clip_high


def _is_one_run(offset: Affine, rows: tuple[Span, ...]) -> bool:
    return all(_is_fixed(x) for x in rows[1:]) and row_step(offset, rows) is not None


def _may_change(f: Fetch, s: Panels) -> bool:
    """Whether a tile that is computed twice might read what it wrote the first time."""
    return f.buffer == s.epilogue.target.buffer or f.buffer.kind not in ("constant", "scratch")


def _prefetched(s: Panels, runs: bool, device: Device) -> str:
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
    single = product(tuple(x.size for x in s.rows)) == 1
    if single and isinstance(held, int) and held <= own * OWN_SHARE:
        return ""
    room = (device.levels[0].capacity_bytes or 0) * PANEL_SHARE
    dense = c.a_step == 1 and len(c.segment_values) == 1
    follow = dense and c.a.offset.factor(s.rows[-1].axis) == c.depth
    return "rows" if runs and follow and isinstance(held, int) and held <= room else "panel"
