"""TileProgram -> Python source of one kernel `kernel(first, last, args)`, which Numba compiles to a
C function.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from explorer.codegen.expressions import Printer, affine_text, dim_text, dtype_of_tile
from explorer.codegen.loops import collapse
from explorer.ir.dims import Dim, product
from explorer.ir.dtypes import (
    ITEM_BYTES,
    DType,
    computed,
    integer_limits,
    is_float,
    is_stored_otherwise,
)
from explorer.ir.kernel import Affine, Const, var
from explorer.ir.tile_program import (
    Do,
    Fetch,
    Fill,
    For,
    Load,
    Map,
    Pack,
    Panels,
    Reduce,
    Span,
    Statement,
    TileExpr,
    TileProgram,
    fetches,
)

LEAST_ROW = 8  # results that are worth a vector
COMBINE = {"sum": "add_any_order", "prod": "mul_any_order", "max": "maximum", "min": "minimum"}
HEADER = (
    "import math",
    "from numba import cfunc, types",
    "from explorer.codegen.simd import *",
    "from explorer.codegen.memory import ACCESS",
    "from explorer.codegen.micro_kernel import micro_kernel",
    "from explorer.codegen.scalar import *",
    "from explorer.codegen.whole_numbers import *",
    "from explorer.codegen.vector_math import erf32, exp32, sigmoid32, tanh32",
    "globals().update(ACCESS)",
)
DECORATOR = (
    "@cfunc(types.void(types.int64, types.int64, types.uintp), "
    'fastmath={"contract", "nsz"}, error_model="numpy", boundscheck=False)'
)


def start_value(combiner: str, dtype: DType) -> Const:
    """What a combiner begins with."""
    if combiner in ("sum", "prod"):
        return Const(float(combiner == "prod"), dtype)
    if is_float(dtype):
        return Const(float("-inf") if combiner == "max" else float("inf"), computed(dtype))
    return Const(integer_limits(dtype)[combiner == "min"], dtype)


@dataclass(slots=True)
class _Emitter:
    lines: list[str] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    depth: int = 2
    kernels: int = 0
    expressions: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def bounds(self, s: Span) -> tuple[str, str]:
        lo, hi = affine_text(s.base), affine_text(s.base + s.size)
        low = f"max({lo}, 0)" if s.clip_low else lo
        return low, f"min({hi}, {dim_text(s.extent)})" if s.clip_high else hi

    def loop(self, s: Span) -> None:
        lo, hi = self.bounds(s)
        self.line(f"for {s.axis} in range({lo}, {hi}):")
        self.depth += 1

    def store(self, f: Fetch, value: str) -> None:
        self.line(f"st_{f.buffer.dtype}({f.buffer.name}, {affine_text(f.offset)}, {value})")

    def expression(self, expr: TileExpr) -> str:
        """Print the parts first, each once; return the name of the result."""
        self.expressions += 1
        printer = Printer(self.expressions)
        name = printer.name(expr)
        for text in printer.lines:
            self.line(text)
        return name

    def statement(self, s: Statement) -> None:
        start = self.depth
        match s:
            case For(span, body):
                self.loop(span)
                for inner in body:
                    self.statement(inner)
            case Fill(target, value):
                number = Printer().constant(Const(value, target.dtype))
                self.line(f"for _f in range({dim_text(target.size)}):")
                self.line(f"    st_{target.dtype}({target.name}, _f, {number})")
            case Load(target, source, spans):
                self.map(target, spans, source)
            case Map(target, spans, expr):
                self.map(target, spans, expr)
            case Reduce():
                self.reduce(s)
            case Pack():
                self.pack(s)
            case Panels():
                self.panels(s)
        self.depth = start

    def map(self, target: Fetch, spans: tuple[Span, ...], expr: TileExpr) -> None:
        turned = _turned(target, expr, spans)
        if turned is not None and isinstance(expr, Fetch):
            step = target.offset.factor(turned.axis)
            for span in spans[:-1]:
                if span is not turned:
                    self.loop(span)
            self.turn(spans[-1], turned, expr, target, step)
            return
        spans, expr, (target,) = collapse(spans, expr, target)
        target, expr = _moved(target, expr)
        for span in spans:
            self.loop(span)
        self.store(target, self.expression(expr))

    def reduce(self, s: Reduce) -> None:
        first = Printer().constant(start_value(s.combiner, s.dtype))
        if _along_last(s):
            self.reduce_rows(s, first)
            return
        for span in s.spans:
            self.loop(span)
        acc = f"_acc{self.expressions}"
        self.line(f"{acc} = {first}")
        before = self.depth
        over, expr, _ = collapse(s.over, s.expr)
        for span in over:
            self.loop(span)
        self.line(f"{acc} = {self.combined(s, acc, expr)}")
        self.depth = before
        self.store(s.target, acc)

    def combined(self, s: Reduce, so_far: str, expr: TileExpr) -> str:
        text = f"{COMBINE[s.combiner]}({so_far}, {self.expression(expr)})"
        return f"bool({text})" if s.dtype == "bool" else text

    def reduce_rows(self, s: Reduce, first: str) -> None:
        """The last spatial axis innermost, so that it is the one in vectors; the sums stay in the
        target, in L1.
        """
        for span in s.spans[:-1]:
            self.loop(span)
        outside = self.depth
        self.loop(s.spans[-1])
        self.store(s.target, first)
        self.depth = outside
        for span in (*s.over, s.spans[-1]):
            self.loop(span)
        at = f"ld_{s.target.buffer.dtype}({s.target.buffer.name}, {affine_text(s.target.offset)})"
        acc = f"_acc{self.expressions}"
        self.line(f"{acc} = {at}")
        self.store(s.target, self.combined(s, acc, s.expr))

    def turn(self, columns: Span, depth: Span, source: Fetch, target: Fetch, step: Dim) -> None:
        """Copy with the two axes swapped in memory: whole 16 x 16 blocks in registers, what remains
        one by one.
        """
        to, at = target.buffer.name, affine_text(target.offset)
        self.turn_to(columns, depth, source, to, at, dim_text(step))

    def turn_to(
        self, columns: Span, depth: Span, source: Fetch, to: str, at: str, step: str
    ) -> None:
        copy = f"st_float32({to}, {at}, {Printer().fetch(source)})"
        (lo, hi), (first, last) = self.bounds(columns), self.bounds(depth)
        c, d = columns.axis, depth.axis
        along = dim_text(source.offset.factor(c))
        from_ = f"{source.buffer.name} + ({affine_text(source.offset)}) * 4"
        self.line(f"_whole = {lo} + udiv({hi} - ({lo}), 16) * 16")
        self.line(f"_deep = {first} + udiv({last} - ({first}), 16) * 16")
        self.line(f"for {c} in range({lo}, _whole, 16):")
        self.line(f"    for {d} in range({first}, _deep, 16):")
        self.line(f"        transpose16({from_}, {along}, {to} + ({at}) * 4, {step})")
        self.line(f"for {c} in range({lo}, {hi}):")
        self.line(f"    for {d} in range(_deep if {c} < _whole else {first}, {last}):")
        self.line(f"        {copy}")

    def pack(self, s: Pack) -> None:
        place: Affine = Affine()
        total: Dim = 1
        for k in reversed(s.depth):
            place = place + var(k.axis) * product((total, s.lanes))
            total = product((total, k.size))
        n = s.columns.axis
        lo, hi = self.bounds(s.columns)
        start = self.depth
        c = affine_text(var(n) - s.columns.base)
        block, deep = dim_text(product((total, s.lanes))), affine_text(place)
        at = f"udiv({c}, {s.lanes}) * {block} + urem({c}, {s.lanes}) + {deep}"
        dense = s.source.offset.factor(s.depth[-1].axis) == 1
        turned = s.source.offset.factor(n) != 1 and dense and s.lanes % 16 == 0
        for span in s.depth[:-1] if turned else [*s.depth, s.columns]:
            self.loop(span)
        if turned:
            self.turn_to(s.columns, s.depth[-1], s.source, s.target.name, at, str(s.lanes))
        else:
            self.line(f"st_float32({s.target.name}, {at}, {Printer().fetch(s.source)})")
        self.depth = start
        size = s.columns.size
        if s.columns.clip_high or not isinstance(size, int) or size % s.lanes:
            text = dim_text(size)
            self.line(
                f"for _c in range({hi} - ({lo}), "
                f"udiv({text} + {s.lanes - 1}, {s.lanes}) * {s.lanes}):"
            )
            self.line(f"    for _k in range({dim_text(total)}):")
            zero = f"udiv(_c, {s.lanes}) * {block} + urem(_c, {s.lanes}) + _k * {s.lanes}"
            self.line(f"        st_float32({s.target.name}, {zero}, F(0.0))")

    def decode(self, s: Panels, row: str) -> None:
        """The row axes from the flattened row number, the last axis fastest."""
        for n, span in reversed(list(enumerate(s.rows))):
            if n == 0:
                self.line(f"{span.axis} = _lo{n} + {row}")
                continue
            clipped = span.clip_low or span.clip_high
            count = f"_count{n}" if clipped else dim_text(span.size)
            self.line(f"{span.axis} = _lo{n} + urem({row}, {count})")
            self.line(f"_q = udiv({row}, {count})")
            row = "_q"

    def panels(self, s: Panels) -> None:
        c, m, lanes = s.contract, s.micro, s.micro.columns
        uk, full = f"contract{self.kernels}", _on_registers(s)
        self.kernels += 1
        shape = f"{m.rows}, {m.vectors}, {m.lanes}, {c.a_step}, {c.b_step}"
        self.header.append(f"{uk} = micro_kernel({shape})")
        if full:
            steps = tuple(
                (_row_step(f.offset, s.rows), f.offset.factor(s.columns.axis)) for f in full[1]
            )
            stride = _row_step(c.a.offset, s.rows)
            self.header.append(f"{uk}_full = micro_kernel({shape}, {stride}, {full[0]!r}, {steps})")
        for n, span in enumerate(s.rows):
            lo, hi = self.bounds(span)
            self.line(f"_lo{n} = {lo}")
            self.line(f"_count{n} = {hi} - _lo{n}")
        self.line("_rows = " + " * ".join(f"_count{n}" for n in range(len(s.rows))))
        self.line(f"for _i in range(udiv(_rows + {m.rows - 1}, {m.rows}) * {m.rows}):")
        self.depth += 1
        self.line("_p = min(_i, _rows - 1)")
        self.decode(s, "_p")
        self.line(f"st_int64({s.row_table.name}, _i, {affine_text(c.a.offset)})")
        self.depth -= 1
        lo, hi = self.bounds(s.columns)
        whole = (
            not s.columns.clip_high
            and isinstance(s.columns.size, int)
            and s.columns.size % lanes == 0
        )
        self.line(f"for _j in range({lo}, {hi}, {lanes}):")
        self.depth += 1
        self.line(f"for _i in range(0, _rows, {m.rows}):")
        self.depth += 1
        operands = (
            f"{c.a.buffer.name}, {s.row_table.name} + _i * 8, {c.segments.name}, "
            f"{len(c.segment_values)}, {dim_text(c.depth)}, "
            f"{c.b.buffer.name} + ({affine_text(c.b.offset)}) * 4"
        )
        if full:
            fits = "" if whole else f" and _j + {lanes} <= {hi}"
            self.line(f"if _i + {m.rows} <= _rows{fits}:")
            self.depth += 1
            self.line("_p = _i")
            self.decode(s, "_p")
            self.line(f"{s.columns.axis} = _j")
            others = " ".join(f"{f.buffer.name} + ({affine_text(f.offset)}) * 4," for f in full[1])
            self.line(f"{uk}_full({operands}, ({others}))")
            self.line("continue")
            self.depth -= 1
        self.line(f"{uk}({operands}, ({c.acc.name},))")
        self.line(f"for _r in range(min({m.rows}, _rows - _i)):")
        self.depth += 1
        self.line("_p = _i + _r")
        self.decode(s, "_p")
        end = f"_j + {lanes}" if whole else f"min(_j + {lanes}, {hi})"
        self.line(f"for {s.columns.axis} in range(_j, {end}):")
        self.depth += 1
        self.store(s.epilogue.target, self.expression(s.epilogue.expr))


def _moved(target: Fetch, source: TileExpr) -> tuple[Fetch, TileExpr]:
    """What is only moved is moved as bits, and what a store rounds is not rounded before."""
    dtype = target.buffer.dtype
    match source:
        case Do(op, (value,)) if op == f"cast_{dtype}" and dtype_of_tile(value) == "float32":
            return target, value if is_stored_otherwise(dtype) else source
    if not is_stored_otherwise(dtype) or not isinstance(source, Fetch):
        return target, source
    if source.buffer.dtype != dtype:
        return target, source
    bits = "uint8" if ITEM_BYTES[dtype] == 1 else "uint16"
    return _as(target, bits), _as(source, bits)


def _as(f: Fetch, dtype: DType) -> Fetch:
    return replace(f, buffer=replace(f.buffer, dtype=dtype))


def _along_last(s: Reduce) -> bool:
    """The loads are dense along the last spatial axis, and those along the last reduced one are the
    same for a whole row: the spatial one goes innermost.

    Few reduced points with a fixed number are left to LLVM, which unrolls them and keeps the sums
    in registers.
    """
    loads = fetches(s.expr)
    sizes = [o.size for o in s.over]
    if all(isinstance(n, int) for n in sizes) and product(tuple(sizes)) <= 16:
        return False
    if is_stored_otherwise(s.target.buffer.dtype):  # sums are not rounded on the way
        return False
    if not s.spans:
        return False
    last, inner = s.spans[-1], s.over[-1].axis
    narrow = isinstance(last.size, int) and last.size < LEAST_ROW

    def reduces(f: Fetch) -> bool:
        """Dense along what is summed; one number or a window for a row of results does no harm."""
        row = f.offset.factor(last.axis) in (0, 1) and not narrow
        return f.offset.factor(inner) == 1 and not row

    return any(f.offset.factor(last.axis) == 1 for f in loads) and not any(map(reduces, loads))


def _turned(target: Fetch, source: TileExpr, spans: tuple[Span, ...]) -> Span | None:
    """The axis along which the source is dense, where the target is dense along the last one and
    the source is not.
    """
    if not isinstance(source, Fetch) or source.dynamic or not spans:
        return None
    if source.buffer.dtype != "float32":
        return None
    last = spans[-1].axis
    if target.offset.factor(last) != 1 or source.offset.factor(last) in (0, 1):
        return None
    return next(
        (
            s
            for s in spans[:-1]
            if source.offset.factor(s.axis) == 1 and target.offset.factor(s.axis) != 0
        ),
        None,
    )


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
    operands = [s.epilogue.target]

    def tree(e: TileExpr) -> Any:
        match e:
            case Fetch(buffer, _, _) if buffer == s.contract.acc:
                return "acc"
            case Fetch(buffer, _, dynamic):
                if dynamic or buffer.dtype != "float32":
                    raise LookupError
                if e not in operands[1:]:
                    operands.append(e)
                return operands.index(e, 1)
            case Const(value, "float32") if isinstance(value, (int, float)) and value == value:
                return float(value)
            case Do(op, (x, y)) if op in ("add", "sub", "mul", "div", "max", "min"):
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


def emit(p: TileProgram, arguments: tuple[tuple[str, str], ...]) -> str:
    """The source of a program. `arguments` are (local name, meaning) in the order of the argument
    block.
    """
    e = _Emitter()
    e.depth = 1
    e.line("wide()")
    for n, (local, _) in enumerate(arguments):
        e.line(f"{local} = argument(args, {n})")
    e.line("for task in range(first, last):")
    e.depth = 2
    e.line("_t = task")
    for n, g in reversed(list(enumerate(p.grid))):
        if n:
            count = dim_text(g.count)
            e.line(f"{g.variable} = urem(_t, {count}) * {g.tile}")
            e.line(f"_t = udiv(_t, {count})")
        else:
            e.line(f"{g.variable} = _t * {g.tile}")
    for s in p.body:
        e.statement(s)
    body = [DECORATOR, "def kernel(first, last, args):", *e.lines]
    return "\n".join([*HEADER, *e.header, "", *body]) + "\n"
