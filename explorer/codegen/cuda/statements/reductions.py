"""Reductions of a thread, element by element."""

from __future__ import annotations

from explorer.codegen.cuda.emitter import Emitter
from explorer.codegen.cuda.expressions import applied, register
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_programs.statements import Reduce, Scan, Shuffle
from explorer.ops.kernels.scalar import start_value

WARP_THREADS = 32  # CUDA C++ programming guide, SIMT architecture
WHOLE_WARP = f"0x{(1 << WARP_THREADS) - 1:X}"  # mask of the lanes of a shuffle


def reduce_(e: Emitter, s: Reduce) -> None:
    """Print a reduction element by element; the sum is in a register."""
    for span in s.spans:
        e.loop(span)
    scalars = e.scalars()
    acc = f"_acc{e.expressions}"
    first = s.target if s.onto else start_value(s.combiner, s.dtype)
    e.line(f"{acc} = {e.value(scalars, first)}")
    before = e.depth
    for span in s.over:
        e.loop(span)
    inner = e.scalars()
    e.line(f"{acc} = {combined(s, acc, e.value(inner, s.expr))}")
    e.depth = before
    e.store(scalars, s.target, acc)


def scan(e: Emitter, s: Scan) -> None:
    """Print a scan element by element; a number is carried along each row."""
    for span in s.spans:
        e.loop(span)
    e.expressions += 1
    acc, step = f"_acc{e.expressions}", f"{s.over.axis}_k"
    e.line(f"{acc} = {e.value(e.scalars(), start_value(s.combiner, s.dtype))}")
    e.line(f"for {step} in range({s.over.size}):")
    e.depth += 1
    e.line(f"{s.over.axis} = {f'{s.over.size} - 1 - {step}' if s.backwards else step}")
    scalars = e.scalars()
    value = e.value(scalars, s.expr)
    if s.exclusive:
        e.store(scalars, s.target, acc)
    e.line(f"{acc} = {combined(s, acc, value)}")
    if not s.exclusive:
        e.store(scalars, s.target, acc)


def shuffle(e: Emitter, s: Shuffle) -> None:
    """Print a butterfly reduction of lanes.

    Partners are half the lanes away, then a quarter, and so on. After it every lane has the
    complete result.
    """
    own_sum, away = register(s.target), s.lanes // 2
    while away:
        e.line(f"_other = cuda.shfl_xor_sync({WHOLE_WARP}, {own_sum}, {away})")
        e.line(f"{own_sum} = {combined(s, own_sum, '_other')}")
        away //= 2


def begin_shuffle(e: Emitter, s: Shuffle) -> None:
    """Initialise a shuffle's register, for threads that reduce nothing but take part."""
    e.line(f"{register(s.target)} = {e.value(e.scalars(), start_value(s.combiner, s.dtype))}")


def combined(s: Reduce | Scan | Shuffle, so_far: str, value: str) -> str:
    """Return the text of one more step of a reduction."""
    return applied(COMBINERS[s.combiner].step, s.dtype, [so_far, value])
