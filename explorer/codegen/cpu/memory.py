"""Loads and stores of generated kernels, a pair for each dtype, and storable numbers.

Narrow elements are converted to float32 or a byte without branches, so that loops over them can be
vectorised. Conversions are those of ml_dtypes bit by bit: to the nearest, ties to even, NaN kept if
the format has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.half_floats import narrowed, widened
from explorer.codegen.cpu.llvm_value import constant
from explorer.ir.dtypes import (
    HALF_FLOATS,
    NARROW_FLOATS,
    SMALL_INTEGERS,
    is_stored_otherwise,
)

F32, F64 = ir.FloatType(), ir.DoubleType()
I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


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


def cell_type(dtype: str) -> Any:
    """Return the LLVM type of an element in memory."""
    return I16 if dtype in HALF_FLOATS else I8


def decode(b: Any, x: Any, dtype: str) -> Any:
    """Return the value of a loaded element."""
    match dtype:
        case "float16":
            return widened(b, x)
        case "bfloat16":
            return b.bitcast(b.shl(b.zext(x, I32), I32(16)), F32)
        case "float8_e8m0fnu":
            return _decode_scale(b, b.zext(x, I32))
        case _ if dtype in SMALL_INTEGERS:
            return wrapped(b, x, dtype)
    return _decode(b, b.zext(x, I32), FORMATS[dtype])


def encode(b: Any, x: Any, dtype: str) -> Any:
    """Return the stored form of a value."""
    match dtype:
        case "float16":
            return narrowed(b, x)
        case "bfloat16":
            return b.trunc(_encode_bfloat(b, b.bitcast(x, I32), x), I16)
        case "float8_e8m0fnu":
            return b.trunc(_encode_scale(b, b.bitcast(x, I32)), I8)
        case _ if dtype in SMALL_INTEGERS:
            return wrapped(b, x, dtype)
    return b.trunc(_encode(b, x, FORMATS[dtype]), I8)


def wrapped(b: Any, x: Any, dtype: str) -> Any:
    """Return the low bits of a byte, or of a vector of bytes, as integers with their sign."""
    bits = SMALL_INTEGERS[dtype]
    if dtype.startswith("uint"):
        return b.and_(x, constant(x.type, (1 << bits) - 1))
    above = constant(x.type, 8 - bits)
    return b.ashr(b.shl(x, above), above)


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
    small = b.bitcast(b.shl(size, I32(23 - f.mantissa)), F32)
    value = b.fmul(small, F32(2.0 ** (127 - f.bias)))
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
    return b.bitcast(b.or_(bits, sign), F32)


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
    moved = b.bitcast(b.fadd(b.bitcast(size, F32), F32(magic)), I32)
    tiny = b.sub(moved, b.bitcast(F32(magic), I32))
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
    return b.bitcast(b.select(b.icmp_unsigned("==", code, I32(255)), I32(0x7FC00000), bits), F32)


def _encode_scale(b: Any, bits: Any) -> Any:
    """Return the nearest power of two, the larger one in a tie; NaN for what is not positive."""
    up = b.lshr(b.add(bits, I32(0x400000)), I32(23))
    least = b.icmp_unsigned("==", bits, I32(0x400000))
    up = b.select(least, I32(0), up)
    good = b.and_(b.icmp_signed(">", bits, I32(0)), b.icmp_signed("<", bits, I32(0x7F800000)))
    return b.select(good, up, I32(255))


MEMORY = {
    "float32": (F32, types.float32),
    "float64": (F64, types.float64),
    "int64": (I64, types.int64),
    "int32": (I32, types.int32),
    "bool": (I8, types.boolean),
    "int8": (I8, types.int8),
    "uint8": (I8, types.uint8),
    "int16": (I16, types.int16),
    "uint16": (I16, types.uint16),
    "uint32": (I32, types.uint32),
    "uint64": (I64, types.uint64),
    **{t: (cell_type(t), types.float32) for t in NARROW_FLOATS},
    # signed, because negative floats do not convert to unsigned
    **{t: (I8, types.int8) for t in SMALL_INTEGERS},
}
"""By dtype: the type in memory, and the type that Numba computes with."""


def _load(dtype: str) -> Any:
    """Return the intrinsic `ld_<dtype>`, which loads one element."""
    cell, number = MEMORY[dtype]

    @intrinsic
    def ld(context, base, offset):
        def emit(cx, b, sig, a):
            at = b.gep(b.inttoptr(a[0], cell.as_pointer()), [a[1]], inbounds=True)
            value = b.load(at)
            if dtype == "bool":
                return b.icmp_unsigned("!=", value, cell(0))
            return decode(b, value, dtype) if is_stored_otherwise(dtype) else value

        return number(types.intp, types.intp), emit

    return ld


def _store(dtype: str) -> Any:
    """Return the intrinsic `st_<dtype>`, which stores one element."""
    cell, number = MEMORY[dtype]

    @intrinsic
    def st(context, base, offset, value):
        def emit(cx, b, sig, a):
            at = b.gep(b.inttoptr(a[0], cell.as_pointer()), [a[1]], inbounds=True)
            value = b.zext(a[2], cell) if dtype == "bool" else a[2]
            b.store(encode(b, value, dtype) if is_stored_otherwise(dtype) else value, at)
            return cx.get_dummy_value()

        return types.void(types.intp, types.intp, number), emit

    return st


def _rounded(dtype: str) -> Any:
    """Return the intrinsic `to_<dtype>`, which rounds to a storable number."""
    number = MEMORY[dtype][1]

    @intrinsic
    def rounded(context, value):
        def emit(cx, b, sig, a):
            return decode(b, encode(b, a[0], dtype), dtype)

        return number(number), emit

    return rounded


def _same_bits(dtype: str) -> Any:
    """Return the intrinsic `as_<dtype>`, which reinterprets bits."""
    cell, number = MEMORY[dtype]

    @intrinsic
    def same_bits(context, value):
        def emit(cx, b, sig, a):
            bits = b.zext(a[0], I8) if value == types.boolean else a[0]
            return b.bitcast(bits, cell) if bits.type != cell else bits

        return number(value), emit

    return same_bits


ACCESS: dict[str, Any] = {}
"""`ld_<dtype>` and `st_<dtype>`; `to_<dtype>` rounds to what memory can hold; `as_<dtype>` reads
the same bits as another dtype.
"""
for _name in MEMORY:
    ACCESS[f"ld_{_name}"], ACCESS[f"st_{_name}"] = _load(_name), _store(_name)
    if is_stored_otherwise(_name):
        ACCESS[f"to_{_name}"] = _rounded(_name)
    elif _name != "bool":
        ACCESS[f"as_{_name}"] = _same_bits(_name)
