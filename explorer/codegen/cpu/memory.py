"""Loads and stores of generated kernels, a pair for each dtype, and storable numbers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from explorer.codegen.cpu.math import narrow
from explorer.ir.dtypes import NARROW_FLOATS, SMALL_INTEGERS, is_stored_otherwise

F32, F64, I8, I32, I64 = (
    ir.FloatType(),
    ir.DoubleType(),
    ir.IntType(8),
    ir.IntType(32),
    ir.IntType(64),
)

MEMORY = {
    "float32": (F32, types.float32),
    "float64": (F64, types.float64),
    "int64": (I64, types.int64),
    "int32": (I32, types.int32),
    "bool": (I8, types.boolean),
    "int8": (I8, types.int8),
    "uint8": (I8, types.uint8),
    "int16": (ir.IntType(16), types.int16),
    "uint16": (ir.IntType(16), types.uint16),
    "uint32": (I32, types.uint32),
    "uint64": (I64, types.uint64),
    **{t: (narrow.cell(t), types.float32) for t in NARROW_FLOATS},
    **{
        t: (I8, types.int8) for t in SMALL_INTEGERS
    },  # signed, because negative floats do not convert to unsigned
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
            return narrow.decode(b, value, dtype) if is_stored_otherwise(dtype) else value

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
            b.store(narrow.encode(b, value, dtype) if is_stored_otherwise(dtype) else value, at)
            return cx.get_dummy_value()

        return types.void(types.intp, types.intp, number), emit

    return st


def _rounded(dtype: str) -> Any:
    """Return the intrinsic `to_<dtype>`, which rounds to a storable number."""
    number = MEMORY[dtype][1]

    @intrinsic
    def rounded(context, value):
        def emit(cx, b, sig, a):
            return narrow.decode(b, narrow.encode(b, a[0], dtype), dtype)

        return number(number), emit

    return rounded


def _same_bits(dtype: str) -> Any:
    """Return the intrinsic `as_<dtype>`, which reinterprets bits."""
    cell, number = MEMORY[dtype]

    @intrinsic
    def same_bits(context, value):
        def emit(cx, b, sig, a):
            bits = b.zext(a[0], narrow.I8) if value == types.boolean else a[0]
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
