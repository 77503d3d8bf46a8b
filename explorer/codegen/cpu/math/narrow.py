"""Conversions between narrow elements and float32 or a byte, as branch-free LLVM code.

Without branches, loops over them can be vectorised. Conversions are those of ml_dtypes bit by bit:
to the nearest, ties to even, NaN kept if the format has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from explorer.ir.dtypes import SMALL_INTEGERS

HALF, FLOAT = ir.HalfType(), ir.FloatType()
I8, I16, I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)


@dataclass(frozen=True, slots=True)
class Format:
    """A float of at most eight bits: sign, exponent, mantissa.

    `largest` is the code of the largest finite value without its sign, `over` that of an overflow,
    `infinite` and `nan` those of infinity and NaN. `signed`: NaN and an overflow have a sign, and
    with them zero.
    """

    bits: int
    mantissa: int
    bias: int
    largest: int
    over: int
    infinite: int
    nan: int
    signed: bool = True

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.bits - 1)


FORMATS = {
    "float8_e4m3fn": Format(8, 3, 7, 0x7E, 0x7F, 0x7F, 0x7F),
    "float8_e4m3fnuz": Format(8, 3, 8, 0x7F, 0x80, 0x80, 0x80, signed=False),
    "float8_e5m2": Format(8, 2, 15, 0x7B, 0x7C, 0x7C, 0x7E),
    "float8_e5m2fnuz": Format(8, 2, 16, 0x7F, 0x80, 0x80, 0x80, signed=False),
    "float4_e2m1fn": Format(4, 1, 1, 0x7, 0x7, 0x7, 0x8, signed=True),
}


def cell(dtype: str) -> Any:
    """Return the LLVM type of an element in memory."""
    return HALF if dtype == "float16" else I16 if dtype == "bfloat16" else I8


def decode(b: Any, x: Any, dtype: str) -> Any:
    """Return the value of a loaded element."""
    match dtype:
        case "float16":
            return b.fpext(x, FLOAT)
        case "bfloat16":
            return b.bitcast(b.shl(b.zext(x, I32), I32(16)), FLOAT)
        case "float8_e8m0fnu":
            return _decode_scale(b, b.zext(x, I32))
        case _ if dtype in SMALL_INTEGERS:
            return wrapped(b, x, dtype)
    return _decode(b, b.zext(x, I32), FORMATS[dtype])


def encode(b: Any, x: Any, dtype: str) -> Any:
    """Return the stored form of a value."""
    match dtype:
        case "float16":
            return b.fptrunc(x, HALF)
        case "bfloat16":
            return b.trunc(_encode_bfloat(b, b.bitcast(x, I32), x), I16)
        case "float8_e8m0fnu":
            return b.trunc(_encode_scale(b, b.bitcast(x, I32)), I8)
        case _ if dtype in SMALL_INTEGERS:
            return wrapped(b, x, dtype)
    return b.trunc(_encode(b, x, FORMATS[dtype]), I8)


def wrapped(b: Any, x: Any, dtype: str) -> Any:
    """Return the low bits of a byte as an integer, with their sign."""
    bits = SMALL_INTEGERS[dtype]
    if dtype.startswith("uint"):
        return b.and_(x, I8((1 << bits) - 1))
    return b.ashr(b.shl(x, I8(8 - bits)), I8(8 - bits))


def _is_nan(b: Any, x: Any) -> Any:
    return b.fcmp_unordered("uno", x, x)


def _encode_bfloat(b: Any, bits: Any, x: Any) -> Any:
    odd = b.and_(b.lshr(bits, I32(16)), I32(1))
    rounded = b.lshr(b.add(b.add(bits, I32(0x7FFF)), odd), I32(16))
    quiet = b.or_(b.and_(b.lshr(bits, I32(16)), I32(0x8000)), I32(0x7FC0))
    return b.select(_is_nan(b, x), quiet, rounded)


def _decode(b: Any, code: Any, f: Format) -> Any:
    """Decode a small float.

    Exponent and mantissa move to float32's places. The difference of the biases is a factor, which
    normalises subnormals.
    """
    size = b.and_(code, I32(f.sign - 1))
    small = b.bitcast(b.shl(size, I32(23 - f.mantissa)), FLOAT)
    value = b.fmul(small, FLOAT(2.0 ** (127 - f.bias)))
    bits = b.bitcast(value, I32)
    nan = I32(0x7FC00000)
    if not f.signed:
        bits = b.select(b.icmp_unsigned("==", code, I32(f.nan)), nan, bits)
    elif f.largest != f.over:
        bits = b.select(b.icmp_unsigned(">", size, I32(f.largest)), nan, bits)
        if f.infinite != f.nan:
            infinite = b.icmp_unsigned("==", size, I32(f.infinite))
            bits = b.select(infinite, I32(0x7F800000), bits)
    sign = b.shl(b.and_(code, I32(f.sign)), I32(32 - f.bits))
    return b.bitcast(b.or_(bits, sign), FLOAT)


def _encode(b: Any, x: Any, f: Format) -> Any:
    """Round float32 to a small float, ties to even; saturate or overflow as the format says."""
    bits = b.bitcast(x, I32)
    size = b.and_(bits, I32(0x7FFFFFFF))
    drop = 23 - f.mantissa
    odd = b.and_(b.lshr(size, I32(drop)), I32(1))
    rounded = b.lshr(b.add(b.add(size, I32((1 << (drop - 1)) - 1)), odd), I32(drop))
    code = b.sub(rounded, I32((127 - f.bias) << f.mantissa))
    # below the least normal value: an addition rounds to multiples of the least subnormal one
    magic = 2.0 ** (23 + 1 - f.bias - f.mantissa)
    moved = b.bitcast(b.fadd(b.bitcast(size, FLOAT), FLOAT(magic)), I32)
    tiny = b.sub(moved, b.bitcast(FLOAT(magic), I32))
    code = b.select(b.icmp_unsigned("<", size, I32((128 - f.bias) << 23)), tiny, code)
    over = b.icmp_signed(">", code, I32(f.largest))
    code = b.select(over, I32(f.over), code)
    infinite = b.icmp_unsigned("==", size, I32(0x7F800000))
    code = b.select(infinite, I32(f.infinite), code)
    sign = b.and_(b.lshr(bits, I32(32 - f.bits)), I32(f.sign))
    if not f.signed:
        zero = b.icmp_unsigned("==", code, I32(0))
        sign = b.select(zero, I32(0), sign)
    nan = I32(f.nan) if not f.signed else b.xor(sign, I32(f.nan))
    return b.select(_is_nan(b, x), nan, b.or_(code, sign))


def _decode_scale(b: Any, code: Any) -> Any:
    """Return a power of two; code 255 is NaN, and 0 is 2 ** -127, which is subnormal in float32."""
    bits = b.shl(code, I32(23))
    bits = b.select(b.icmp_unsigned("==", code, I32(0)), I32(0x00400000), bits)
    return b.bitcast(b.select(b.icmp_unsigned("==", code, I32(255)), I32(0x7FC00000), bits), FLOAT)


def _encode_scale(b: Any, bits: Any) -> Any:
    """Return the nearest power of two, the larger one in a tie; NaN for what is not positive."""
    up = b.lshr(b.add(bits, I32(0x400000)), I32(23))
    least = b.icmp_unsigned("==", bits, I32(0x400000))
    up = b.select(least, I32(0), up)
    good = b.and_(b.icmp_signed(">", bits, I32(0)), b.icmp_signed("<", bits, I32(0x7F800000)))
    return b.select(good, up, I32(255))
