"""Matrix fragments multiplied by a warp on its tensor core.

Printed kernels import it if numba-cuda is installed, which has no functions for that, but takes
PTX.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.cuda.extending import intrinsic

OPERANDS, SUMS = 6, 4  # words of a lane: four of the left operand, two of the right; float32
WORD, HALF, SINGLE = ir.IntType(32), ir.IntType(16), ir.FloatType()
MULTIPLY = (
    "mma.sync.aligned.m16n8k16.row.col.f32.{0}.{0}.f32 "
    "{{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
)  # PTX ISA, section 9.7.15.5.8, from compute capability 8.0 on


def _multiply(context: Any, builder: Any, args: Any, dtype: str) -> Any:
    kinds = [WORD] * OPERANDS + [SINGLE] * SUMS
    function = ir.FunctionType(ir.LiteralStructType([SINGLE] * SUMS), kinds)
    places = ",".join(["=f"] * SUMS + ["r"] * OPERANDS + ["f"] * SUMS)
    asm = ir.InlineAsm(function, MULTIPLY.format(dtype), places, side_effect=True)
    sums = builder.call(asm, args, attrs=("convergent", "nounwind"))  # all lanes take part
    parts = [builder.extract_value(sums, n) for n in range(SUMS)]
    return context.make_tuple(builder, types.UniTuple(types.float32, SUMS), parts)


def _products(dtype: str) -> Any:
    """Return the type of an instruction's function, and the emitter of its code."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _multiply(context, builder, args, dtype)

    words, sums = [types.uint32] * OPERANDS, [types.float32] * SUMS
    return types.UniTuple(types.float32, SUMS)(*words, *sums), code


@intrinsic
def mma_float16(
    context: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, p: Any, q: Any, r: Any, s: Any
) -> Any:
    """Return the four sums of a lane after products of float16 pairs, of 16 x 8 sums in total."""
    return _products("f16")


@intrinsic
def mma_bfloat16(
    context: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, p: Any, q: Any, r: Any, s: Any
) -> Any:
    """Return the four sums of a lane after products of bfloat16 pairs, of 16 x 8 sums in total."""
    return _products("bf16")


@intrinsic
def word2(context: Any, array: Any, at: Any) -> Any:
    """Load two 16-bit elements of a flat array, from an even index on, as one word."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature.args[0], args)
        return builder.load(builder.bitcast(place, WORD.as_pointer()), align=4)

    return types.uint32(array, at), code


@intrinsic
def word_of(context: Any, array: Any, low: Any, high: Any) -> Any:
    """Load two 16-bit elements of a flat array, from anywhere, as one word."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        halves = []
        for at in args[1:]:
            place = _place(context, builder, signature.args[0], (args[0], at))
            half = builder.load(builder.bitcast(place, HALF.as_pointer()), align=2)
            halves.append(builder.zext(half, WORD))
        return builder.or_(halves[0], builder.shl(halves[1], ir.Constant(WORD, 16)))

    return types.uint32(array, low, high), code


def _place(context: Any, builder: Any, kind: Any, args: Any) -> Any:
    array = context.make_array(kind)(context, builder, args[0])
    return builder.gep(array.data, [args[1]])
