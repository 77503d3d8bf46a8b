"""Several neighbours in memory as one load of a thread: printed kernels import it, where there is
numba-cuda.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core.types import UniTuple
from numba.cuda.extending import intrinsic

TOGETHER = 4
ALIGNED_BYTES = 16  # of float32: PTX ISA, section 9.7.9, ld


@intrinsic
def load4(context: Any, array: Any, at: Any) -> Any:
    """The four float32 of a flat array from an index on, which begin at a multiple of 16 bytes."""
    kind = UniTuple(array.dtype, TOGETHER)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(held.data, [args[1]])
        wide = ir.VectorType(held.data.type.pointee, TOGETHER).as_pointer()
        found = builder.load(builder.bitcast(place, wide), align=ALIGNED_BYTES)
        numbers = (ir.Constant(ir.IntType(32), n) for n in range(TOGETHER))
        parts = [builder.extract_element(found, n) for n in numbers]
        return context.make_tuple(builder, kind, parts)

    return kind(array, at), code
