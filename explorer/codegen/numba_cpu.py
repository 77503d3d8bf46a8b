"""TileProgram -> Python source of one kernel `kernel(first, last, args)`, which Numba compiles to a
C function.
"""

from __future__ import annotations

from explorer.codegen.copies import map_
from explorer.codegen.emitter import Emitter
from explorer.codegen.expressions import Printer, dim_text
from explorer.codegen.hoisting import levels
from explorer.codegen.map_groups import map_groups
from explorer.codegen.pack_panels import pack
from explorer.codegen.panels import panels
from explorer.codegen.reductions import one_pass, reduce_
from explorer.codegen.scans import scan
from explorer.codegen.windows import window, window_groups
from explorer.ir.dims import product
from explorer.ir.kernel import Const
from explorer.ir.tile_program import (
    Fill,
    For,
    Load,
    Map,
    OnePass,
    Pack,
    Panels,
    Reduce,
    Scan,
    Statement,
    TileProgram,
)

HEADER = (
    "import math",
    "from numba import cfunc, types",
    "from explorer.codegen.simd import *",
    "from explorer.codegen.memory import ACCESS",
    "from explorer.codegen.micro_kernel import micro_kernel",
    "from explorer.codegen.scalar import *",
    "from explorer.codegen.whole_numbers import *",
    "from explorer.codegen.vector_math import *",
    "from explorer.codegen.vector_nest import *",
    "from explorer.codegen.window_tile import *",
    "globals().update(ACCESS)",
)
DECORATOR = (
    "@cfunc(types.void(types.int64, types.int64, types.uintp), "
    'fastmath={"contract", "nsz"}, error_model="numpy", boundscheck=False)'
)


def statement(e: Emitter, s: Statement) -> None:
    """One statement."""
    start = e.depth
    match s:
        case For(span, body):
            e.loop(span)
            for inner in body:
                statement(e, inner)
        case Fill(target, value):
            number = Printer().constant(Const(value, target.dtype))
            e.line(f"for _f in range({dim_text(target.size)}):")
            e.line(f"    st_{target.dtype}({target.name}, _f, {number})")
        case Load(target, source, spans):
            map_(e, target, spans, source)
        case Map(target, spans, expr):
            map_(e, target, spans, expr)
        case Reduce():
            reduce_(e, s)
        case OnePass():
            one_pass(e, s)
        case Scan():
            scan(e, s)
        case Pack():
            pack(e, s)
        case Panels():
            panels(e, s)
    e.depth = start


def _unless_done(e: Emitter, p: TileProgram, level: int) -> None:
    """What follows is skipped where the task before did it: only inner tile variables moved."""
    if level < len(p.grid):
        again = dim_text(product(tuple(g.count for g in p.grid[level:])))
        e.line(f"if task == first or urem(task, {again}) == 0:")
        e.depth += 1


def emit(p: TileProgram, arguments: tuple[tuple[str, str], ...]) -> str:
    """The source of a program. `arguments` are (local name, meaning) in the order of the argument
    block.
    """
    e = Emitter()
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
    groups, done, known = map_groups(p.body), 0, levels(p)
    windows = window_groups(p.body)
    for n, s in enumerate(p.body):
        if n < done:
            continue
        window_, group = windows.get(n), groups.get(n)
        done = n + (len(window_) if window_ else len(group.parts) if group else 1)
        _unless_done(e, p, max(known[n:done]))
        if window_:
            window(e, window_)
        else:
            statement(e, group or s)
        e.depth = 2
    if any("past=True" in text for text in e.header):
        e.depth = 1
        e.line("fence()")
    body = [DECORATOR, "def kernel(first, last, args):", *e.lines]
    return "\n".join([*HEADER, *e.header, "", *body]) + "\n"
