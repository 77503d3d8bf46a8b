"""Neighbours in memory as one load or store of a thread.

Printed kernels import it if numba-cuda is installed.
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
    """Return the tuple type of `count` elements of an array, and the emitter of the load."""
    elements = UniTuple(kind.dtype, count)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        words = ir.VectorType(ir.IntType(32), WORDS)  # LLVM splits loads of other types
        loaded = builder.load(builder.bitcast(place, words.as_pointer()), align=ALIGNED_BYTES)
        loaded = builder.bitcast(loaded, ir.VectorType(array.data.type.pointee, count))
        numbers = (ir.Constant(ir.IntType(32), n) for n in range(count))
        parts = [builder.extract_element(loaded, n) for n in numbers]
        return context.make_tuple(builder, elements, parts)

    return elements, code


@intrinsic
def load4(context: Any, array: Any, at: Any) -> Any:
    """Load four float32 of a flat array from an index on; they begin at a multiple of 16 bytes."""
    elements, code = _load(array, 4)
    return elements(array, at), code


@intrinsic
def load8(context: Any, array: Any, at: Any) -> Any:
    """Load eight 16-bit elements of a flat array; they begin at a multiple of 16 bytes."""
    elements, code = _load(array, 8)
    return elements(array, at), code


@intrinsic
def store2(context: Any, array: Any, at: Any, first: Any, second: Any) -> Any:
    """Store two 16-bit elements as neighbours in a flat array, from an even index on."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, args[0])
        low, high = (builder.zext(builder.bitcast(x, HALF), WORD) for x in args[2:])
        place = builder.bitcast(builder.gep(struct.data, [args[1]]), WORD.as_pointer())
        builder.store(builder.or_(low, builder.shl(high, WORD(16))), place, align=4)
        return context.get_dummy_value()

    return types.void(array, at, array.dtype, array.dtype), code
