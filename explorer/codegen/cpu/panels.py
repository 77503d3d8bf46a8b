"""Contractions as panels of register tiles: runs of rows, row tables, edges, epilogues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.codegen.cpu.emitter import Emitter, affine_text, dim_text
from explorer.codegen.cpu.micro_elements import PLAIN
from explorer.codegen.cpu.micro_kernel import TABLE
from explorer.devices.model import LINE_BYTES
from explorer.ir.affine import affine, var
from explorer.ir.dims import Dim, product
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.kernel import Const
from explorer.ir.kernels.forms import Form
from explorer.ir.tile_program import Do, Fetch, Panels, Run, TileExpr, fetches
from explorer.tile.rewriting.register_tiles import is_repeatable, operands_in_table, row_step

PACKED_AHEAD = 4  # register tiles from here to the prefetched constants of an epilogue; chosen
TILES_AHEAD = 2  # register tiles from here to the prefetched rows; chosen, no measurement kept


def decode(e: Emitter, s: Panels, row: str) -> None:
    """Print the row axes computed from the flattened row number, the last axis fastest."""
    for n, span in reversed(list(enumerate(s.rows))):
        if n == 0:
            e.line(f"{span.axis} = _lo{n} + {row}")
            continue
        clipped = span.clip_low or span.clip_high
        count = f"_count{n}" if clipped else dim_text(span.size)
        e.line(f"{span.axis} = _lo{n} + urem({row}, {count})")
        e.line(f"_q = udiv({row}, {count})")
        row = "_q"


def panels(e: Emitter, s: Panels) -> None:
    """Print panels of columns, and in each the register tiles of all rows.

    The panel stays in cache.
    """
    for n, span in enumerate(s.rows):
        lo, hi = e.bounds(span)
        e.line(f"_lo{n} = {lo}")
        e.line(f"_count{n} = {hi} - _lo{n}")
    name = f"contract{e.kernels}"
    e.kernels += 1
    if s.run is not None:
        in_runs(e, s, name, s.run)
    else:
        by_table(e, s, name)


def in_runs(e: Emitter, s: Panels, name: str, run: Run) -> None:
    """Print register tiles along rows a constant step apart.

    The last tile of a run is moved back.
    """
    inner, rows = s.rows[-1].axis, s.micro.rows
    count = _run_count(s, run)
    steps = tuple((f.offset.factor(inner), f.offset.factor(s.columns.axis)) for f in s.operands)
    stride = s.contract.a.offset.factor(inner)
    _declare(e, s, f"{name}_full", f"{stride}, {_tree(s)!r}, {steps}")
    no_partial_columns = _has_full_panels(s)
    if not no_partial_columns:
        _declare(e, s, name, f"{stride}")
    others = s.rows[:-1] if not run.outer else ()
    for n, span in enumerate(others):
        e.line(f"{span.axis} = _lo{n}")
    runs = " * ".join(f"_count{n}" for n in range(len(run.outer))) if run.outer else "1"
    _begin_columns(e, s, f"{runs} * udiv({count} + {rows - 1}, {rows})")
    for span in run.outer:
        e.loop(span)
    e.line(f"for _i in range(0, {count}, {rows}):")
    e.depth += 1
    last = f"_lo{len(s.rows) - 1}"
    e.line(f"_s = {last} + " + ("_i" if run.exact else f"min(_i, {count} - {rows})"))
    e.line(f"{inner} = _s")
    tile = _operands(s, affine_text(s.contract.a.offset))
    if s.prefetch == "rows":
        _prefetch_rows(e, s, stride)
    if not no_partial_columns:
        e.line(f"if _j + {s.micro.columns} <= {e.bounds(s.columns)[1]}:")
        e.depth += 1
    _call_full_tile(e, s, f"{name}_full", tile)
    if not no_partial_columns:
        e.depth -= 1
        e.line("else:")
        e.depth += 1
        e.line(f"{name}({tile}, ({s.contract.acc.name},))")
        e.line(f"for _r in range({rows}):")
        e.depth += 1
        e.line(f"{inner} = _s + _r")
        _store_row(e, s)
        e.depth -= 2
    if s.prefetch:
        e.line(f"_ahead = _ahead + {_depth(s)} * _pace")


def _run_count(s: Panels, run: Run) -> str:
    """Return the number of rows of a run."""
    if not run.outer:
        inner_rows = product(tuple(x.size for x in s.rows[1:]))
        return "_count0" + (f" * {dim_text(inner_rows)}" if len(s.rows) > 1 else "")
    inner = s.rows[-1]
    clipped = inner.clip_low or inner.clip_high
    return f"_count{len(s.rows) - 1}" if clipped else dim_text(inner.size)


def by_table(e: Emitter, s: Panels, name: str) -> None:
    """Print register tiles on rows whose offsets are in a table.

    Operands without a constant distance from row to row are in the table too. Tiles at the edges go
    through L1, unless all operands are in the table: rows past the last repeat the last one.
    """
    m, table = s.micro, s.row_table.name
    stride = _constant(row_step(s.contract.a.offset, s.rows))
    full, in_table = bool(s.operands), operands_in_table(s.operands, s.rows)
    repeats_last_row = full and stride is None and is_repeatable(s) and _has_full_panels(s)
    repeats_last_row = repeats_last_row and all(
        row_step(f.offset, s.rows) in (None, 0) for f in s.operands
    )
    if not repeats_last_row:
        _declare(e, s, name, "None")
    if full:
        steps = tuple(
            (
                TABLE if f in in_table else _constant(row_step(f.offset, s.rows)),
                f.offset.factor(s.columns.axis),
            )
            for f in s.operands
        )
        _declare(e, s, f"{name}_full", f"{stride}, {_tree(s)!r}, {steps}")
    e.line("_rows = " + " * ".join(f"_count{n}" for n in range(len(s.rows))))
    e.line(f"_places = udiv(_rows + {m.rows - 1}, {m.rows}) * {m.rows}")
    e.line("for _i in range(_places):")
    e.depth += 1
    e.line("_p = min(_i, _rows - 1)")
    decode(e, s, "_p")
    e.line(f"st_int64({table}, _i, {affine_text(s.contract.a.offset)})")
    for n, f in enumerate(in_table, 1):
        place = affine_text(f.offset.without({s.columns.axis}))
        e.line(f"st_int64({table}, _i + {n} * _places, {place})")
    e.depth -= 1
    _begin_columns(e, s, f"udiv(_rows + {m.rows - 1}, {m.rows})")
    e.line(f"for _i in range(0, _rows, {m.rows}):")
    e.depth += 1
    lanes, hi = m.columns, e.bounds(s.columns)[1]
    if repeats_last_row:
        _call_full_tile(e, s, f"{name}_full", _operands(s, f"{table} + _i * 8"))
        _advance_prefetch(e, s)
        return
    if full:
        fits = "" if _has_full_panels(s) else f" and _j + {lanes} <= {hi}"
        e.line(f"if _i + {m.rows} <= _rows{fits}:")
        e.depth += 1
        e.line("_p = _i")
        decode(e, s, "_p")
        rows = f"{table} + _i * 8" if stride is None else f"ld_int64({table}, _i)"
        _call_full_tile(e, s, f"{name}_full", _operands(s, rows))
        e.depth -= 1
        e.line("else:")
        e.depth += 1
    e.line(f"{name}({_operands(s, f'{table} + _i * 8')}, ({s.contract.acc.name},))")
    sums = _sums_by_column(s)
    if sums is not None:
        _store_columns(e, s, sums)
    else:
        e.line(f"for _r in range(min({m.rows}, _rows - _i)):")
        e.depth += 1
        e.line("_p = _i + _r")
        decode(e, s, "_p")
        _store_row(e, s)
        e.depth -= 1
    e.depth -= 1 if full else 0
    _advance_prefetch(e, s)


def _advance_prefetch(e: Emitter, s: Panels) -> None:
    """Advance the prefetch address to the next register tile."""
    if s.prefetch:
        e.line(f"_ahead = _ahead + {_depth(s)} * _pace")


def _declare(e: Emitter, s: Panels, name: str, arguments: str) -> None:
    """Declare a micro-kernel in the header of the source."""
    c, m = s.contract, s.micro
    options = {
        "prefetch": bool(s.prefetch),
        "single": c.depth == 1,
    }
    named = "".join(f", {k}=True" for k, on in options.items() if on)
    shape = f"{m.rows}, {m.vectors}, {m.lanes}, {c.a_step}, {c.b_step}"
    e.header.append(f"{name} = micro_kernel({shape}, {arguments}{named}{_form(e, s)})")


def _begin_columns(e: Emitter, s: Panels, tiles: str) -> None:
    """Open the loop over panels; the tiles of one panel prefetch the next, each its share."""
    lo, hi = e.bounds(s.columns)
    c = s.contract
    ahead = bool(s.prefetch)
    step_bytes = c.b_step * ITEM_BYTES[c.b.buffer.dtype]
    if ahead:
        e.line(f"_tiles = max({tiles}, 1)")  # a task past the end of an axis has no tiles
        e.line(f"_pace = udiv({step_bytes} + _tiles - 1, _tiles)")
    e.line(f"for _j in range({lo}, {hi}, {s.micro.columns}):")
    e.depth += 1
    e.line(f"{s.columns.axis} = _j")
    e.line(f"_panel = {c.b.buffer.name} + ({affine_text(c.b.offset)}) * {_item_bytes(c.b)}")
    e.line(f"_ahead = _panel + {_depth(s)} * {step_bytes}" if ahead else "_ahead = _pace = 0")
    if ahead:
        _prefetch_packed(e, s)


def _prefetch_packed(e: Emitter, s: Panels) -> None:
    """Prefetch what the epilogue reads of constants in panels, some register tiles ahead."""
    for f in dict.fromkeys(fetches(s.epilogue.expr)):
        if f.buffer.kind == "packed":
            row_bytes = s.micro.columns * _item_bytes(f)
            first = affine_text(f.offset.substitute({s.columns.axis: var("_j")}))
            for line in range(0, row_bytes, LINE_BYTES):
                ahead = PACKED_AHEAD * row_bytes + line
                e.line(f"touch({f.buffer.name} + ({first}) * {_item_bytes(f)} + {ahead})")


def _prefetch_rows(e: Emitter, s: Panels, stride: Dim) -> None:
    """Prefetch the left operand's next rows, instead of the next panel."""
    c, rows, item = s.contract, s.micro.rows, _item_bytes(s.contract.a)
    next_rows = affine_text(c.a.offset + TILES_AHEAD * rows * stride)
    e.line(f"_ahead = {c.a.buffer.name} + ({next_rows}) * {item}")
    e.line(f"_pace = {rows * item}")


def _operands(s: Panels, rows: str) -> str:
    c = s.contract
    return (
        f"{c.a.buffer.name}, {rows}, {c.segments.name}, {len(c.segment_values)}, "
        f"{dim_text(c.depth)}, _panel, _ahead, _pace"
    )


def _call_full_tile(e: Emitter, s: Panels, name: str, tile: str) -> None:
    """Print the call of a micro-kernel on a full tile, with its epilogue on registers."""
    e.line(f"{s.columns.axis} = _j")
    in_table = () if s.run is not None else operands_in_table(s.operands, s.rows)
    column, at, more = s.columns.axis, list[str](), list[str]()
    for f in s.operands:
        step, first = row_step(f.offset, s.rows), f.offset
        if f in in_table:
            place = f"_i + {1 + in_table.index(f)} * _places"
            first = var(column) * first.factor(column)
            more.append(f"{s.row_table.name} + ({place}) * {ITEM_BYTES['int64']}")
        elif step is not None and _constant(step) is None:
            more.append(dim_text(step))
        at.append(f"{f.buffer.name} + ({affine_text(first)}) * {_item_bytes(f)}")
    at += more
    e.line(f"{name}({tile}, ({', '.join(at)},))")


def _store_row(e: Emitter, s: Panels) -> None:
    """Print the epilogue on row `_r` of the tile in L1."""
    depth = e.depth
    e.line(f"for {s.columns.axis} in range(_j, {_columns_end(e, s)}):")
    e.depth += 1
    e.store(s.epilogue.target, e.expression(s.epilogue.expr))
    e.depth = depth


def _columns_end(e: Emitter, s: Panels) -> str:
    """Return the end of the columns of a register tile."""
    lanes = s.micro.columns
    end = f"_j + {lanes}"
    return end if _has_full_panels(s) else f"min({end}, {e.bounds(s.columns)[1]})"


def _sums_by_column(s: Panels) -> Fetch | None:
    """Return the sums of a tile if they are stored unchanged, columns closer than rows."""
    target, sums = s.epilogue.target, s.epilogue.expr
    down, along = (target.offset.factor(x.axis) for x in (s.rows[-1], s.columns))
    if not isinstance(sums, Fetch) or sums.buffer != s.contract.acc or target.dynamic:
        return None
    nearer = isinstance(down, int) and isinstance(along, int) and 0 < down < along
    return sums if nearer else None


def _store_columns(e: Emitter, s: Panels, sums: Fetch) -> None:
    """Store the sums of the tile in L1 column by column; rows past the last repeat the last one.

    In a gradient of 512 by 512 filters each column is 18 KB further, so that row by row every
    number is on another page (5.3 and 3.7 ms, Zen 4).
    """
    target, axis, depth = s.epilogue.target, s.columns.axis, e.depth
    for n in range(s.micro.rows):
        e.line(f"_p = min(_i + {n}, _rows - 1)")
        decode(e, s, "_p")
        e.line(f"_at{n} = {affine_text(target.offset.without({axis}))}")
    e.line(f"for {axis} in range(_j, {_columns_end(e, s)}):")
    e.depth += 1
    for n in range(s.micro.rows):
        at = var(f"_at{n}") + var(axis) * target.offset.factor(axis)
        own_sum = replace(sums, offset=sums.offset.substitute({"_r": affine({}, n)}))
        e.store(Fetch(target.buffer, at), e.expression(own_sum))
    e.depth = depth


def _has_full_panels(s: Panels) -> bool:
    c = s.columns
    return not c.clip_high and isinstance(c.size, int) and c.size % s.micro.columns == 0


def _depth(s: Panels) -> str:
    return f"{len(s.contract.segment_values)} * {dim_text(s.contract.depth)}"


def _item_bytes(f: Fetch) -> int:
    return ITEM_BYTES[f.buffer.dtype]


def _form(e: Emitter, s: Panels) -> str:
    """Return the micro-kernel's arguments for elements that are not all float32."""
    c = s.contract
    form = Form(c.a.buffer.dtype, c.b.buffer.dtype, c.acc.dtype)
    if form == PLAIN:
        return ""
    e.header.append("from explorer.ir.kernels.forms import Form")
    return f", form={form!r}, dot={e.device.isa.dot_product(s.micro.lanes)!r}"


def _constant(step: Dim | None) -> int | None:
    """Return a constant step; None: it is passed when the register tile runs."""
    return int(step) if isinstance(step, int) else None


def _tree(s: Panels) -> Any:
    """Return the epilogue in the micro-kernel's form: numbers of operands, constants second."""

    def tree(e: TileExpr) -> Any:
        match e:
            case Fetch(buffer) if buffer == s.contract.acc:
                return "acc"
            case Fetch():
                return s.operands.index(e, 1)
            case Const():
                return float(e.number)
            case Do(op, (x, y)):
                left, right = tree(x), tree(y)
                commutes = op in ("max", "min") and isinstance(left, float)
                return (op, right, left) if commutes else (op, left, right)
        raise AssertionError(f"{e} is not an epilogue on registers")

    return tree(s.epilogue.expr)
