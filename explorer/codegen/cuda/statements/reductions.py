"""Reductions of a thread, one by one."""

from __future__ import annotations

from explorer.codegen.cuda.emitter import Emitter
from explorer.codegen.cuda.expressions import applied, register
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_programs.statements import Reduce, Scan, Shuffle
from explorer.ops.kernels.scalar import start_value

WARP_THREADS = 32  # CUDA C++ programming guide, SIMT architecture
WHOLE_WARP = f"0x{(1 << WARP_THREADS) - 1:X}"  # the lanes that come to a shuffle


def reduce_(e: Emitter, s: Reduce) -> None:
    """A reduction one by one, the sum in a register."""
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
    """A running reduction one by one: a number is carried along each row."""
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
    """Each thread with the one half of them away, then a quarter, and so on: all have the whole."""
    mine, away = register(s.target), s.lanes // 2
    while away:
        e.line(f"_other = cuda.shfl_xor_sync({WHOLE_WARP}, {mine}, {away})")
        e.line(f"{mine} = {combined(s, mine, '_other')}")
        away //= 2


def begin_shuffle(e: Emitter, s: Shuffle) -> None:
    """Threads that have nothing to reduce come to a shuffle with nothing, too."""
    e.line(f"{register(s.target)} = {e.value(e.scalars(), start_value(s.combiner, s.dtype))}")


def combined(s: Reduce | Scan | Shuffle, so_far: str, value: str) -> str:
    """One more element of a reduction."""
    return applied(COMBINERS[s.combiner].step, s.dtype, [so_far, value])
