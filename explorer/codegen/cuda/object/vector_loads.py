"""Several neighbours in memory as one load or store of a thread: printed kernels import it, where
there is numba-cuda.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.types import UniTuple
from numba.cuda.extending import intrinsic

HALF, WORD = ir.IntType(16), ir.IntType(32)
WORDS, ALIGNED_BYTES = 4, 16  # of a load; PTX ISA, section 9.7.9, ld


def _load(kind: Any, count: int) -> Any:
    """So many elements of an array of a type, as a tuple of them, and what makes the code."""
    found = UniTuple(kind.dtype, count)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(held.data, [args[1]])
        words = ir.VectorType(ir.IntType(32), WORDS)  # of other types LLVM makes several loads
        loaded = builder.load(builder.bitcast(place, words.as_pointer()), align=ALIGNED_BYTES)
        loaded = builder.bitcast(loaded, ir.VectorType(held.data.type.pointee, count))
        numbers = (ir.Constant(ir.IntType(32), n) for n in range(count))
        parts = [builder.extract_element(loaded, n) for n in numbers]
        return context.make_tuple(builder, found, parts)

    return found, code


@intrinsic
def load4(context: Any, array: Any, at: Any) -> Any:
    """The four float32 of a flat array from an index on, which begin at a multiple of 16 bytes."""
    found, code = _load(array, 4)
    return found(array, at), code


@intrinsic
def load8(context: Any, array: Any, at: Any) -> Any:
    """The same of eight elements of 16 bits."""
    found, code = _load(array, 8)
    return found(array, at), code


@intrinsic
def store2(context: Any, array: Any, at: Any, first: Any, second: Any) -> Any:
    """Two elements of 16 bits become neighbours in a flat array, from an even index on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, args[0])
        low, high = (builder.zext(builder.bitcast(x, HALF), WORD) for x in args[2:])
        place = builder.bitcast(builder.gep(held.data, [args[1]]), WORD.as_pointer())
        builder.store(builder.or_(low, builder.shl(high, WORD(16))), place, align=4)
        return context.get_dummy_value()

    return types.void(array, at, array.dtype, array.dtype), code
