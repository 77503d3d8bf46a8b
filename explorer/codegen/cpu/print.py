"""TileProgram -> Python source of one kernel `kernel(first, last, args)`.

Numba compiles it to a C function. Reductions and scans that have no vector form are printed here,
as loops over elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.codegen.cpu.copies import map_, pack, swap
from explorer.codegen.cpu.emitter import Emitter, Printer, affine_text, dim_text
from explorer.codegen.cpu.loops import vector_loop, vector_scan
from explorer.codegen.cpu.panels import panels
from explorer.codegen.cpu.windows import window
from explorer.devices.model import Device
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import product
from explorer.ir.kernel import Const
from explorer.ir.tile_program import (
    At,
    Fetch,
    Fill,
    Find,
    For,
    LoopForm,
    Map,
    Once,
    OnePass,
    Pack,
    Panels,
    Reduce,
    Scan,
    Statement,
    TileExpr,
    TileProgram,
    Window,
)
from explorer.ops.interpreter.scalar import start_value

HEADER = (
    "import math",
    "from numba import cfunc, types",
    "from explorer.codegen.cpu.simd import *",
    "from explorer.codegen.cpu.memory import ACCESS",
    "from explorer.codegen.cpu.micro_kernel import micro_kernel",
    "from explorer.codegen.cpu.scalar_math import *",
    "from explorer.codegen.cpu.whole_numbers import *",
    "from explorer.codegen.cpu.vector_math import *",
    "from explorer.codegen.cpu.vector_nest import *",
    "from explorer.codegen.cpu.window_tile import *",
    "globals().update(ACCESS)",
)
DECORATOR = (
    "@cfunc(types.void(types.int64, types.int64, types.uintp), "
    'fastmath={"contract", "nsz"}, error_model="numpy", boundscheck=False)'
)
ANY_ORDER = {"add": "add_any_order", "mul": "mul_any_order"}  # which LLVM may vectorise


def statement(e: Emitter, s: Statement, first: Sequence[str] = ()) -> None:
    """Print one statement.

    `first[level]` is the condition under which the first task with equal first `level` tile
    variables runs.
    """
    start = e.depth
    match s:
        case For(span, body):
            e.loop(span)
            for inner in body:
                statement(e, inner)
        case At(span, index, body):
            e.at(span, index)
            for inner in body:
                statement(e, inner)
        case Once(level, body):
            e.line(f"if {first[level]}:")
            e.depth += 1
            for inner in body:
                statement(e, inner)
        case Find(name, index, extent):
            at = e.expression(index)
            e.line(f"{name} = min(max(I({at}), I(0)), I({dim_text(extent)} - 1))")
        case Fill(target, value):
            number = Printer().constant(Const(value, target.dtype))
            e.line(f"for _f in range({dim_text(target.size)}):")
            e.line(f"    st_{target.dtype}({target.name}, _f, {number})")
        case Map(form=None):
            map_(e, s)
        case Map(expr=Fetch() as source, form=LoopForm("blocks") as form):
            swap(e, s, source, form)
        case Reduce(form=None):
            reduce_(e, s)
        case Reduce(form=LoopForm("sums in memory")):
            reduce_rows(e, s)
        case Map(form=LoopForm() as form) | Reduce(form=LoopForm() as form):
            vector_loop(e, s, form)
        case OnePass(_, LoopForm() as form):
            vector_loop(e, s, form)
        case Scan(form=None):
            scan(e, s)
        case Scan(form=LoopForm() as form):
            vector_scan(e, s, form)
        case Pack():
            pack(e, s)
        case Window():
            window(e, s)
        case Panels():
            panels(e, s)
        case _:
            raise AssertionError(f"{type(s).__name__} is not printed: it has no loop form")
    e.depth = start


def emit(p: TileProgram, arguments: tuple[tuple[str, str], ...], device: Device) -> str:
    """Return the source of a program.

    `arguments` are (local name, meaning) in the order of the argument block.
    """
    e = Emitter(device)
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
    first = [
        f"task == first or urem(task, {dim_text(product(tuple(g.count for g in p.grid[n:])))}) == 0"
        for n in range(len(p.grid))
    ]
    for s in p.body:
        statement(e, s, first)
        e.depth = 2
    if any("past=True" in text for text in e.header):
        e.depth = 1
        e.line("fence()")
    body = [DECORATOR, "def kernel(first, last, args):", *e.lines]
    return "\n".join([*HEADER, *e.header, "", *body]) + "\n"


def reduce_(e: Emitter, s: Reduce) -> None:
    """Print a reduction element by element; the sums are in a register."""
    first = Printer().constant(start_value(s.combiner, s.dtype))
    for span in s.spans:
        e.loop(span)
    acc = f"_acc{e.expressions}"
    e.line(f"{acc} = {first}")
    before = e.depth
    for span in s.over:
        e.loop(span)
    e.line(f"{acc} = {combined(e, s, acc, s.expr)}")
    e.depth = before
    e.store(s.target, acc)


def combined(e: Emitter, s: Reduce, so_far: str, expr: TileExpr) -> str:
    """Return the text of one more step of a reduction."""
    step, value = COMBINERS[s.combiner].step, e.expression(expr)
    if step in ANY_ORDER:
        text = f"{ANY_ORDER[step]}({so_far}, {value})"
    else:
        text = Printer().applied(step, s.dtype, [so_far, value])
    return f"bool({text})" if s.dtype == "bool" else text


def reduce_rows(e: Emitter, s: Reduce) -> None:
    """Print a reduction with the last spatial axis innermost, so that it is vectorised.

    The sums stay in the target, in L1.
    """
    first = Printer().constant(start_value(s.combiner, s.dtype))
    for span in s.spans[:-1]:
        e.loop(span)
    outside = e.depth
    e.loop(s.spans[-1])
    e.store(s.target, first)
    e.depth = outside
    for span in (*s.over, s.spans[-1]):
        e.loop(span)
    at = f"ld_{s.target.buffer.dtype}({s.target.buffer.name}, {affine_text(s.target.offset)})"
    acc = f"_acc{e.expressions}"
    e.line(f"{acc} = {at}")
    e.store(s.target, combined(e, s, acc, s.expr))


def scan(e: Emitter, s: Scan) -> None:
    """Print a scan element by element; a number is carried along each row."""
    for span in s.spans:
        e.loop(span)
    acc, count = f"_acc{e.expressions}", dim_text(s.over.size)
    e.line(f"{acc} = {Printer().constant(start_value(s.combiner, s.dtype))}")
    t = f"_{s.over.axis}"
    e.line(f"for {t} in range({count}):")
    e.depth += 1
    e.line(f"{s.over.axis} = {f'{count} - 1 - {t}' if s.backwards else t}")
    if s.exclusive:
        e.store(s.target, acc)
    reduction = Reduce(s.target, (), (), s.combiner, s.expr, s.dtype)
    e.line(f"{acc} = {combined(e, reduction, acc, s.expr)}")
    if not s.exclusive:
        e.store(s.target, acc)
