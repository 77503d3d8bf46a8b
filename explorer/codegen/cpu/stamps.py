"""Cycle-counter stamps in an instrumented copy of a kernel.

The cycles since the last stamp are attributed to a part of the kernel.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

I64 = ir.IntType(64)
COUNTER = "llvm.readcyclecounter"


@intrinsic
def stamp(context, table, part):
    """Add the cycles since the last stamp to row `part` of the table, and count the stamp.

    The table's first word is the last stamp.
    """

    def emit(cx, b, sig, a):
        now = b.call(b.module.declare_intrinsic(COUNTER, (), ir.FunctionType(I64, ())), ())
        words = b.inttoptr(a[0], I64.as_pointer())
        row = b.gep(words, [b.add(b.shl(a[1], I64(1)), I64(1))])
        count = b.gep(row, [I64(1)])
        b.store(b.add(b.load(row), b.sub(now, b.load(words))), row)
        b.store(b.add(b.load(count), I64(1)), count)
        b.store(now, words)
        return cx.get_dummy_value()

    return types.void(types.intp, types.intp), emit


@intrinsic
def begin(context, table):
    """Write the first stamp."""

    def emit(cx, b, sig, a):
        now = b.call(b.module.declare_intrinsic(COUNTER, (), ir.FunctionType(I64, ())), ())
        b.store(now, b.inttoptr(a[0], I64.as_pointer()))
        return cx.get_dummy_value()

    return types.void(types.intp), emit
