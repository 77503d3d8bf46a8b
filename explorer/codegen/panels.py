"""Contractions as panels of register tiles: packing, row tables, edges, epilogues."""

from __future__ import annotations

from typing import Any

from explorer.codegen.copies import turn_to
from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import Printer, affine_text, dim_text
from explorer.codegen.micro_elements import PLAIN, dot_product
from explorer.codegen.pack_groups import pack_elements
from explorer.ir.dims import Dim, product
from explorer.ir.dtypes import ITEM_BYTES, is_float
from explorer.ir.forms import Form
from explorer.ir.kernel import Affine, Const, var
from explorer.ir.tile_program import (
    Do,
    Fetch,
    Pack,
    Panels,
    Span,
    TileExpr,
)

REAL = ("add", "sub", "mul", "div", "max", "min")  # what is done on registers
WHOLE = ("add", "sub", "mul")


def pack(e: Emitter, s: Pack) -> None:
    if s.target.dtype != "float32":
        pack_elements(e, s)
        return
    place: Affine = Affine()
    total: Dim = 1
    for k in reversed(s.depth):
        place = place + var(k.axis) * product((total, s.lanes))
        total = product((total, k.size))
    n = s.columns.axis
    lo, hi = e.bounds(s.columns)
    start = e.depth
    c = affine_text(var(n) - s.columns.base)
    block, deep = dim_text(product((total, s.lanes))), affine_text(place)
    at = f"udiv({c}, {s.lanes}) * {block} + urem({c}, {s.lanes}) + {deep}"
    dense = s.source.offset.factor(s.depth[-1].axis) == 1
    turned = s.source.offset.factor(n) != 1 and dense and s.lanes % 16 == 0
    for span in s.depth[:-1] if turned else [*s.depth, s.columns]:
        e.loop(span)
    if turned:
        turn_to(e, s.columns, s.depth[-1], s.source, s.target.name, at, str(s.lanes))
    else:
        e.line(f"st_float32({s.target.name}, {at}, {Printer().fetch(s.source)})")
    e.depth = start
    size = s.columns.size
    if s.columns.clip_high or not isinstance(size, int) or size % s.lanes:
        text = dim_text(size)
        e.line(
            f"for _c in range({hi} - ({lo}), udiv({text} + {s.lanes - 1}, {s.lanes}) * {s.lanes}):"
        )
        e.line(f"    for _k in range({dim_text(total)}):")
        zero = f"udiv(_c, {s.lanes}) * {block} + urem(_c, {s.lanes}) + _k * {s.lanes}"
        e.line(f"        st_float32({s.target.name}, {zero}, F(0.0))")


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
    c, m, lanes = s.contract, s.micro, s.micro.columns
    uk, full = f"contract{e.kernels}", _on_registers(s)
    e.kernels += 1
    shape = f"{m.rows}, {m.vectors}, {m.lanes}, {c.a_step}, {c.b_step}"
    ahead = c.b.buffer.kind == "packed"
    form = _form(e, s)
    e.header.append(f"{uk} = micro_kernel({shape}, prefetch={ahead}{form})")
    if full:
        steps = tuple(
            (_row_step(f.offset, s.rows), f.offset.factor(s.columns.axis)) for f in full[1]
        )
        stride = _row_step(c.a.offset, s.rows)
        e.header.append(
            f"{uk}_full = micro_kernel({shape}, {stride}, {full[0]!r}, {steps}, {ahead}{form})"
        )
    for n, span in enumerate(s.rows):
        lo, hi = e.bounds(span)
        e.line(f"_lo{n} = {lo}")
        e.line(f"_count{n} = {hi} - _lo{n}")
    e.line("_rows = " + " * ".join(f"_count{n}" for n in range(len(s.rows))))
    e.line(f"for _i in range(udiv(_rows + {m.rows - 1}, {m.rows}) * {m.rows}):")
    e.depth += 1
    e.line("_p = min(_i, _rows - 1)")
    decode(e, s, "_p")
    e.line(f"st_int64({s.row_table.name}, _i, {affine_text(c.a.offset)})")
    e.depth -= 1
    lo, hi = e.bounds(s.columns)
    whole = (
        not s.columns.clip_high and isinstance(s.columns.size, int) and s.columns.size % lanes == 0
    )
    depth = f"{len(c.segment_values)} * {dim_text(c.depth)}"
    step_bytes = c.b_step * ITEM_BYTES[c.b.buffer.dtype]
    if ahead:
        e.line(f"_pace = udiv({step_bytes} * {m.rows} + _rows - 1, _rows)")
    e.line(f"for _j in range({lo}, {hi}, {lanes}):")
    e.depth += 1
    panel = f"{c.b.buffer.name} + ({affine_text(c.b.offset)}) * {ITEM_BYTES[c.b.buffer.dtype]}"
    if ahead:
        e.line(f"_ahead = {panel} + {depth} * {step_bytes}")
    e.line(f"for _i in range(0, _rows, {m.rows}):")
    e.depth += 1
    operands = (
        f"{c.a.buffer.name}, {s.row_table.name} + _i * 8, {c.segments.name}, "
        f"{len(c.segment_values)}, {dim_text(c.depth)}, "
        f"{panel}, "
        + (f"_ahead + udiv(_i, {m.rows}) * {depth} * _pace, _pace" if ahead else "0, 0")
    )
    if full:
        fits = "" if whole else f" and _j + {lanes} <= {hi}"
        e.line(f"if _i + {m.rows} <= _rows{fits}:")
        e.depth += 1
        e.line("_p = _i")
        decode(e, s, "_p")
        e.line(f"{s.columns.axis} = _j")
        size = ITEM_BYTES[c.acc.dtype]
        others = " ".join(f"{f.buffer.name} + ({affine_text(f.offset)}) * {size}," for f in full[1])
        e.line(f"{uk}_full({operands}, ({others}))")
        e.line("continue")
        e.depth -= 1
    e.line(f"{uk}({operands}, ({c.acc.name},))")
    e.line(f"for _r in range(min({m.rows}, _rows - _i)):")
    e.depth += 1
    e.line("_p = _i + _r")
    decode(e, s, "_p")
    end = f"_j + {lanes}" if whole else f"min(_j + {lanes}, {hi})"
    e.line(f"for {s.columns.axis} in range(_j, {end}):")
    e.depth += 1
    e.store(s.epilogue.target, e.expression(s.epilogue.expr))


def _form(e: Emitter, s: Panels) -> str:
    """What the micro-kernel is told of the elements, where they are not all float32."""
    c = s.contract
    form = Form(c.a.buffer.dtype, c.b.buffer.dtype, c.acc.dtype)
    if form == PLAIN:
        return ""
    e.header.append("from explorer.ir.forms import Form")
    return f", form={form!r}, dot={dot_product(s.micro.lanes)!r}"


def _row_step(offset: Affine, rows: tuple[Span, ...]) -> int | None:
    """The distance in memory of a flattened row to the next, where it is the same for all."""
    inner = step = offset.factor(rows[-1].axis)
    if not isinstance(step, int):
        return None
    for outer, span in zip(rows[-2::-1], rows[:0:-1], strict=True):
        if not isinstance(span.size, int):
            return None
        step *= span.size
        if span.clip_low or span.clip_high or offset.factor(outer.axis) != step:
            return None
    return int(inner) if isinstance(inner, int) else None


def _on_registers(s: Panels) -> tuple[Any, list[Fetch]] | None:
    """The epilogue as a tree for the micro-kernel, and its operands, target first; None: it must
    run on the tile in L1.

    Arithmetic is done on the registers; a function like erf would need more of them, and its cost
    hides the trip to L1.
    """
    operands, total = [s.epilogue.target], s.contract.acc.dtype
    if operands[0].buffer.dtype != total:
        return None

    def tree(e: TileExpr) -> Any:
        match e:
            case Fetch(buffer, _, _) if buffer == s.contract.acc:
                return "acc"
            case Fetch(buffer, _, dynamic):
                if dynamic or buffer.dtype != total:
                    raise LookupError
                if e not in operands[1:]:
                    operands.append(e)
                return operands.index(e, 1)
            case Const(value, dtype) if (
                dtype == total and isinstance(value, (int, float)) and value == value
            ):
                return float(value)
            case Do(op, (x, y)) if op in (REAL if is_float(total) else WHOLE):
                left, right = tree(x), tree(y)
                if op in ("max", "min") and isinstance(left, float):
                    left, right = right, left
                return (op, left, right)
        raise LookupError

    try:
        found = tree(s.epilogue.expr)
    except LookupError:
        return None
    good = all(
        _row_step(f.offset, s.rows) is not None and f.offset.factor(s.columns.axis) in (0, 1)
        for f in operands
    )
    return (found, operands) if good and operands[0].offset.factor(s.columns.axis) == 1 else None
