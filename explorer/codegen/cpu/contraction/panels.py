"""Contractions as panels of register tiles: runs of rows, row tables, edges, epilogues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.codegen.cpu.contraction.micro_elements import PLAIN
from explorer.codegen.cpu.contraction.micro_kernel import TABLE
from explorer.codegen.cpu.emitter import Emitter
from explorer.codegen.cpu.expressions import affine_text, dim_text
from explorer.ir.affine import affine, var
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.kernel import Const
from explorer.ir.patterns.forms import Form
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.tile_programs.elements import Do, Fetch, TileExpr
from explorer.ir.tile_programs.statements import Panels, Run
from explorer.tile.rewriting.register_tiles import row_step, settled, tabled

TILES_AHEAD = 2  # register tiles to the rows that are fetched; chosen, no measurement kept


def decode(e: Emitter, s: Panels, row: str) -> None:
    """The row axes from the flattened row number, the last axis fastest."""
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
    """Panels of columns, and in each the register tiles of all rows: the panel stays in cache."""
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
    """Register tiles along rows a constant step apart; the last one of a run is moved back."""
    inner, rows = s.rows[-1].axis, s.micro.rows
    count = _run_count(s, run)
    steps = tuple((f.offset.factor(inner), f.offset.factor(s.columns.axis)) for f in s.operands)
    stride = s.contract.a.offset.factor(inner)
    _declare(e, s, f"{name}_full", f"{stride}, {_tree(s)!r}, {steps}")
    whole = _whole_columns(s)
    if not whole:
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
        _ask_for_rows(e, s, stride)
    if not whole:
        e.line(f"if _j + {s.micro.columns} <= {e.bounds(s.columns)[1]}:")
        e.depth += 1
    _on_full_tile(e, s, f"{name}_full", tile)
    if not whole:
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
    """How many rows a run has."""
    if not run.outer:
        rest = product(tuple(x.size for x in s.rows[1:]))
        return "_count0" + (f" * {dim_text(rest)}" if len(s.rows) > 1 else "")
    inner = s.rows[-1]
    clipped = inner.clip_low or inner.clip_high
    return f"_count{len(s.rows) - 1}" if clipped else dim_text(inner.size)


def by_table(e: Emitter, s: Panels, name: str) -> None:
    """Register tiles on rows whose places stand in a table, as do those of operands without one
    distance from row to row; at the edges they go through L1, where not all stand there: rows past
    the last are the last one again.
    """
    m, table = s.micro, s.row_table.name
    stride = _constant(row_step(s.contract.a.offset, s.rows))
    full, in_table = bool(s.operands), tabled(s.operands, s.rows)
    again = full and stride is None and settled(s) and _whole_columns(s)
    again = again and all(row_step(f.offset, s.rows) in (None, 0) for f in s.operands)
    if not again:
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
    if again:
        _on_full_tile(e, s, f"{name}_full", _operands(s, f"{table} + _i * 8"))
        _move_ahead(e, s)
        return
    if full:
        fits = "" if _whole_columns(s) else f" and _j + {lanes} <= {hi}"
        e.line(f"if _i + {m.rows} <= _rows{fits}:")
        e.depth += 1
        e.line("_p = _i")
        decode(e, s, "_p")
        rows = f"{table} + _i * 8" if stride is None else f"ld_int64({table}, _i)"
        _on_full_tile(e, s, f"{name}_full", _operands(s, rows))
        e.depth -= 1
        e.line("else:")
        e.depth += 1
    e.line(f"{name}({_operands(s, f'{table} + _i * 8')}, ({s.contract.acc.name},))")
    sums = _stored_down(s)
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
    _move_ahead(e, s)


def _move_ahead(e: Emitter, s: Panels) -> None:
    """What is prefetched by the next register tile."""
    if s.prefetch:
        e.line(f"_ahead = _ahead + {_depth(s)} * _pace")


def _declare(e: Emitter, s: Panels, name: str, rest: str) -> None:
    """A micro-kernel in the header of the source."""
    c, m = s.contract, s.micro
    options = {
        "prefetch": bool(s.prefetch),
        "single": c.depth == 1,
    }
    named = "".join(f", {k}=True" for k, on in options.items() if on)
    shape = f"{m.rows}, {m.vectors}, {m.lanes}, {c.a_step}, {c.b_step}"
    e.header.append(f"{name} = micro_kernel({shape}, {rest}{named}{_form(e, s)})")


def _begin_columns(e: Emitter, s: Panels, tiles: str) -> None:
    """The loop over panels; while one is read, its tiles prefetch the next, each its share."""
    lo, hi = e.bounds(s.columns)
    c = s.contract
    ahead = bool(s.prefetch)
    step_bytes = c.b_step * ITEM_BYTES[c.b.buffer.dtype]
    if ahead:
        e.line(f"_tiles = max({tiles}, 1)")  # a task past the end of an axis has none
        e.line(f"_pace = udiv({step_bytes} + _tiles - 1, _tiles)")
    e.line(f"for _j in range({lo}, {hi}, {s.micro.columns}):")
    e.depth += 1
    e.line(f"{s.columns.axis} = _j")
    e.line(f"_panel = {c.b.buffer.name} + ({affine_text(c.b.offset)}) * {_item_bytes(c.b)}")
    e.line(f"_ahead = _panel + {_depth(s)} * {step_bytes}" if ahead else "_ahead = _pace = 0")


def _ask_for_rows(e: Emitter, s: Panels, stride: Dim) -> None:
    """The left operand's next rows, instead of the next panel."""
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


def _on_full_tile(e: Emitter, s: Panels, name: str, tile: str) -> None:
    e.line(f"{s.columns.axis} = _j")
    in_table = () if s.run is not None else tabled(s.operands, s.rows)
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
    """The epilogue on row `_r` of the tile in L1."""
    depth = e.depth
    e.line(f"for {s.columns.axis} in range(_j, {_columns_end(e, s)}):")
    e.depth += 1
    e.store(s.epilogue.target, e.expression(s.epilogue.expr))
    e.depth = depth


def _columns_end(e: Emitter, s: Panels) -> str:
    """Where the columns of a register tile end."""
    lanes = s.micro.columns
    whole = f"_j + {lanes}"
    return whole if _whole_columns(s) else f"min({whole}, {e.bounds(s.columns)[1]})"


def _stored_down(s: Panels) -> Fetch | None:
    """The sums of a tile, where they are stored as they are, and those of a column nearer to each
    other than those of a row.
    """
    target, sums = s.epilogue.target, s.epilogue.expr
    down, along = (target.offset.factor(x.axis) for x in (s.rows[-1], s.columns))
    if not isinstance(sums, Fetch) or sums.buffer != s.contract.acc or target.dynamic:
        return None
    nearer = isinstance(down, int) and isinstance(along, int) and 0 < down < along
    return sums if nearer else None


def _store_columns(e: Emitter, s: Panels, sums: Fetch) -> None:
    """The sums of the tile in L1, column by column: a gradient of 512 by 512 filters lies 18 KB on
    in each column, which row by row is another page for every number (5.3 and 3.7 ms, Zen 4). Rows
    past the last are the last one again.
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
        mine = replace(sums, offset=sums.offset.substitute({"_r": affine({}, n)}))
        e.store(Fetch(target.buffer, at), e.expression(mine))
    e.depth = depth


def _whole_columns(s: Panels) -> bool:
    c = s.columns
    return not c.clip_high and isinstance(c.size, int) and c.size % s.micro.columns == 0


def _depth(s: Panels) -> str:
    return f"{len(s.contract.segment_values)} * {dim_text(s.contract.depth)}"


def _item_bytes(f: Fetch) -> int:
    return ITEM_BYTES[f.buffer.dtype]


def _form(e: Emitter, s: Panels) -> str:
    """What the micro-kernel is told of the elements, where they are not all float32."""
    c = s.contract
    form = Form(c.a.buffer.dtype, c.b.buffer.dtype, c.acc.dtype)
    if form == PLAIN:
        return ""
    e.header.append("from explorer.ir.patterns.forms import Form")
    return f", form={form!r}, dot={e.device.target.dot_product(s.micro.lanes)!r}"


def _constant(step: Dim | None) -> int | None:
    """A step that is a number; None: it is passed when the register tile runs."""
    return int(step) if isinstance(step, int) else None


def _tree(s: Panels) -> Any:
    """The epilogue as the micro-kernel takes it: numbers of operands, constants second."""

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
        raise AssertionError(f"{e} is no epilogue on registers")

    return tree(s.epilogue.expr)
