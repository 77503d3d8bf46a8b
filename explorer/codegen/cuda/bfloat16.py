"""Conversions between bfloat16 and float32 in a few instructions.

Printed kernels import them if numba-cuda is installed, which has no such type.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.cuda.extending import intrinsic

from explorer.codegen.cpu.memory import decode, encode

LEAST_CAPABILITY = 80  # tenths, of the instruction (LLVM, review D116673)
CONVERT = "cvt.rn.bf16.f32 $0, $1;"  # PTX ISA, cvt; each NaN becomes 0x7FFF
HALF, WORD, SINGLE = ir.IntType(16), ir.IntType(32), ir.FloatType()
TEXT = ir.IntType(8).as_pointer()


@intrinsic
def to_bfloat16(context: Any, x: Any) -> Any:
    """Return the bits of the bfloat16 nearest to a float32, to even in a tie."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (value,) = args
        with builder.if_else(_has_instruction(context, builder)) as (there, older):
            with there:
                kind = ir.FunctionType(HALF, [SINGLE])
                quick, first = builder.asm(kind, CONVERT, "=h,f", args, False), builder.block
            with older:
                slow, second = encode(builder, value, "bfloat16"), builder.block
        result = builder.phi(HALF)
        result.add_incoming(quick, first)
        result.add_incoming(slow, second)
        return result

    return types.uint16(types.float32), code


@intrinsic
def of_bfloat16(context: Any, bits: Any) -> Any:
    """Reinterpret bits as the upper half of a float32."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return decode(builder, args[0], "bfloat16")

    return types.float32(types.uint16), code


def _has_instruction(context: Any, builder: Any) -> Any:
    """Return True if the device has the instruction: NVVM knows, and compiles one branch only."""
    kind = ir.FunctionType(WORD, [TEXT])
    reflect = get_or_insert_function(builder.module, kind, "__nvvm_reflect")
    name = context.insert_const_string(builder.module, "__CUDA_ARCH")
    arch = builder.call(reflect, [builder.addrspacecast(name, TEXT)])
    return builder.icmp_unsigned(">=", arch, WORD(LEAST_CAPABILITY * 10))
