"""TileProgram of a thread block -> Python source of a Numba CUDA kernel, statement by statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from explorer.codegen.cuda.emitter import Emitter, declare_shared
from explorer.codegen.cuda.statements import (
    begin_shuffle,
    matrix_reduce,
    reduce_,
    scan,
    shuffle,
    unrolled_map,
    unrolled_reduce,
)
from explorer.errors import BadOption
from explorer.ir.tile_program import (
    At,
    For,
    LoopForm,
    Map,
    Reduce,
    Scan,
    Shuffle,
    Statement,
    Sync,
    Threads,
    TileProgram,
)
from explorer.ir.tile_traversal import distributed_loops, statements, threads_of

IMPORTS = """\
import math

from numba import cuda
from numba.cuda import libdevice
from numba.types import boolean, float16, float32, float64
from numba.types import int8, int16, int32, int64, uint8, uint16, uint32, uint64

from explorer.codegen.cuda.bfloat16 import of_bfloat16, to_bfloat16
from explorer.codegen.cuda.matrix_units import mma_bfloat16, mma_float16, word2, word_of
from explorer.codegen.cuda.vector_loads import load4, load8, store2
"""  # of every kernel, needed or not
STATEMENTS_ALONE, STATEMENTS_OF_MANY = 256, 16  # of a trip: bounds on compile time, chosen; with 64
# of many Numba took 1.5 times as long for as many instructions, as LLVM unrolls loops itself
HEAD = (
    IMPORTS
    + """
# {launch}

@cuda.jit
def kernel({arguments}):
"""
)


def statement(e: Emitter, s: Statement) -> None:
    """Print one statement."""
    start = e.depth
    match s:
        case For(threads=Threads()):
            loops, body = distributed_loops(s)
            e.distribute(loops)
            for inner in body:
                statement(e, inner)
        case For(span, body):
            e.loop(span)
            for inner in body:
                statement(e, inner)
        case At(span, index, body):
            e.at(span, index)
            for inner in body:
                statement(e, inner)
        case Sync("warp"):
            e.line("cuda.syncwarp()")
        case Sync():
            e.line("cuda.syncthreads()")
        case Shuffle():
            shuffle(e, s)
        case Map(form=None):
            for span in s.spans:
                e.loop(span)
            e.assign(e.scalars(), s.target, s.expr)
        case Reduce(form=None):
            reduce_(e, s)
        case Scan(form=None):
            scan(e, s)
        case Map(form=LoopForm("unrolled")):
            unrolled_map(e, s)
        case Reduce(form=LoopForm("unrolled")):
            unrolled_reduce(e, s)
        case Reduce(form=LoopForm("matrix")):
            matrix_reduce(e, s)
        case _:
            raise BadOption(f"{type(s).__name__} is not printed for CUDA")
    e.depth = start


def emit(
    p: TileProgram, arguments: Sequence[str], launch: str, aligned: Collection[str] = ()
) -> str:
    """Return the source of a program.

    `arguments` are its tensors in order, `launch` is how it is launched, `aligned` are the tensors
    that begin where a vector may be loaded.
    """
    lines = block_lines(p, threads_of(p.body), aligned=aligned)
    lines.insert(0, "    _block = int64(uint32(cuda.blockIdx.x))")
    return HEAD.format(launch=launch, arguments=", ".join(arguments)) + "\n".join(lines) + "\n"


def block_lines(
    p: TileProgram, threads: int, is_dynamic: bool = False, aligned: Collection[str] = ()
) -> list[str]:
    """Return the lines that `threads` threads run for block number `_block` of a program.

    The program may need fewer threads. `is_dynamic`: the block is one of many in a kernel, and its
    shared memory is requested by the launch.
    """
    e = Emitter(threads, STATEMENTS_OF_MANY if is_dynamic else STATEMENTS_ALONE, frozenset(aligned))
    e.line("_thread = int64(uint32(cuda.threadIdx.x))  # no sign: quotients are cheap")
    if is_dynamic:
        e.line("_block = int64(uint32(_block))")
    e.tasks(p.grid)
    declare_shared(e, p, is_dynamic)
    for s in statements(p.body):
        if isinstance(s, Shuffle):
            begin_shuffle(e, s)
    for s in p.body:
        statement(e, s)
    return e.lines
