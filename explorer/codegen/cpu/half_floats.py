"""Conversions of float16, which are 16-bit integers in memory, on LLVM numbers and vectors.

Processors have instructions for them. WebAssembly has none, and LLVM fails on its half floats, so
that they are converted there by integers and by float32 arithmetic that rounds as they do.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from explorer.codegen.cpu.llvm_value import FLOAT, constant, like, target

HALF, I16, I32 = ir.HalfType(), ir.IntType(16), ir.IntType(32)
SIGN, SIZE, QUIET = 0x8000, 0x7FFF, 0x7E00  # of float16: bit of the sign, other bits, a NaN
INFINITE = 0x7C00
LEFT = 13  # bits of float32's fraction that float16 lacks
BIAS = 112 << 23  # the difference of the biases, in the exponent of a float32
FLOAT_SIZE, FLOAT_INFINITE = 0x7FFFFFFF, 0x7F800000
LEAST_NORMAL, BEYOND = 0x38800000, 0x47800000  # 2^-14 and 2^16 as float32


def widened(b: Any, x: Any) -> Any:
    """Return the float32 of a float16's bits."""
    single = like(x.type, FLOAT)
    if not target().is_wasm:
        return b.fpext(b.bitcast(x, like(x.type, HALF)), single)
    words = like(x.type, I32)
    bits = b.zext(x, words)
    size = b.and_(bits, constant(words, SIZE))
    moved = b.bitcast(b.shl(size, constant(words, LEFT)), single)
    value = b.bitcast(b.fmul(moved, constant(single, 2.0**112)), words)  # also normalises
    endless = b.or_(b.bitcast(moved, words), constant(words, FLOAT_INFINITE))
    is_endless = b.icmp_unsigned(">=", size, constant(words, INFINITE))
    sign = b.shl(b.and_(bits, constant(words, SIGN)), constant(words, 16))
    return b.bitcast(b.or_(b.select(is_endless, endless, value), sign), single)


def narrowed(b: Any, x: Any) -> Any:
    """Return the bits of the nearest float16 of a float32, ties to even; NaN stays NaN."""
    cells = like(x.type, I16)
    if not target().is_wasm:
        return b.bitcast(b.fptrunc(x, like(x.type, HALF)), cells)
    words, single = like(x.type, I32), like(x.type, FLOAT)
    bits = b.bitcast(x, words)
    size = b.and_(bits, constant(words, FLOAT_SIZE))
    odd = b.and_(b.lshr(size, constant(words, LEFT)), constant(words, 1))
    rounded = b.add(b.add(size, constant(words, (1 << (LEFT - 1)) - 1 - BIAS)), odd)
    normal = b.lshr(rounded, constant(words, LEFT))
    half = constant(single, 0.5)  # whose last place is that of a subnormal float16
    sum_bits = b.bitcast(b.fadd(b.bitcast(size, single), half), words)
    subnormal = b.sub(sum_bits, constant(words, 0x3F000000))
    is_small = b.icmp_unsigned("<", size, constant(words, LEAST_NORMAL))
    is_large = b.icmp_unsigned(">=", size, constant(words, BEYOND))
    is_nan = b.icmp_unsigned(">", size, constant(words, FLOAT_INFINITE))
    code = b.select(is_small, subnormal, normal)
    code = b.select(is_large, constant(words, INFINITE), code)
    code = b.select(is_nan, constant(words, QUIET), code)
    sign = b.and_(b.lshr(bits, constant(words, 16)), constant(words, SIGN))
    return b.trunc(b.or_(code, sign), cells)
