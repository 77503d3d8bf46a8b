"""Scalar functions of generated kernels that are no single operator of Python, for every dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

F, D, I, I32, B = np.float32, np.float64, np.int64, np.int32, np.bool_
I16, I8, U64, U32, U16, U8 = np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8


def _unary(name: str) -> Any:
    """Return an intrinsic of one argument that calls an LLVM intrinsic."""

    @intrinsic
    def call(context, x):
        def emit(cx, b, sig, a):
            return b.call(b.module.declare_intrinsic(name, [a[0].type]), [a[0]])

        return x(x), emit

    return call


floor_, ceil_, round_ = _unary("llvm.floor"), _unary("llvm.ceil"), _unary("llvm.nearbyint")
sqrt_ = _unary("llvm.sqrt")


@intrinsic
def abs_(context, x):
    """Return the absolute value."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.call(b.module.declare_intrinsic("llvm.fabs", [a[0].type]), [a[0]])
        if not x.signed:
            return a[0]
        zero = ir.Constant(a[0].type, 0)
        return b.select(b.icmp_signed("<", a[0], zero), b.sub(zero, a[0]), a[0])

    return x(x), emit


@intrinsic
def isnan_(context, x):
    """Return True for NaN, which no integer is."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.fcmp_unordered("uno", a[0], a[0])
        return ir.Constant(ir.IntType(1), 0)

    return types.boolean(x), emit


@intrinsic
def to_odd(context, x):
    """Round float64 to float32, to odd.

    An inexact result is the neighbour whose last bit is 1. Rounded again to fewer bits, it equals
    rounding once.
    """

    def emit(cx, b, sig, a):
        single, word = ir.FloatType(), ir.IntType(32)
        near = b.fptrunc(a[0], single)
        bits, back = b.bitcast(near, word), b.fpext(near, ir.DoubleType())
        size = b.module.declare_intrinsic("llvm.fabs", [ir.DoubleType()])
        beyond = b.fcmp_ordered("<", b.call(size, [a[0]]), b.call(size, [back]))
        step = b.select(beyond, word(-1), word(1))
        odd = b.icmp_unsigned("!=", b.and_(bits, word(1)), word(0))
        exact = b.fcmp_unordered("ueq", back, a[0])
        return b.bitcast(b.select(b.or_(odd, exact), bits, b.add(bits, step)), single)

    return types.float32(types.float64), emit


@intrinsic
def sign_(context, x):
    """Return -1, 0, 1, or NaN."""

    def emit(cx, b, sig, a):
        kind = a[0].type
        zero, unit, less = (ir.Constant(kind, n) for n in (0, 1, -1))
        if isinstance(x, types.Float):
            above, below = b.fcmp_ordered(">", a[0], zero), b.fcmp_ordered("<", a[0], zero)
            return b.select(above, unit, b.select(below, less, a[0]))
        if not x.signed:
            return b.select(b.icmp_unsigned("!=", a[0], zero), unit, zero)
        below = b.select(b.icmp_signed("<", a[0], zero), less, zero)
        return b.select(b.icmp_signed(">", a[0], zero), unit, below)

    return x(x), emit


def _plain(f: Any) -> Any:
    return njit(error_model="numpy", forceinline=True)(f)


@_plain
def floor_div(x, y):
    """Divide, rounding down."""
    return x // y


@_plain
def floor_mod(x, y):
    """Return the remainder with the divisor's sign."""
    return x % y


@_plain
def power(x, y):
    """Return x to the power y."""
    return x**y


@_plain
def sin_(x):
    """Return the sine."""
    return math.sin(x)


@_plain
def cos_(x):
    """Return the cosine."""
    return math.cos(x)


@_plain
def asin_(x):
    """Return the arcsine."""
    return math.asin(x)


@_plain
def acos_(x):
    """Return the arccosine."""
    return math.acos(x)


@_plain
def atan_(x):
    """Return the arctangent."""
    return math.atan(x)


@_plain
def sinh_(x):
    """Return the hyperbolic sine."""
    return math.sinh(x)


@_plain
def cosh_(x):
    """Return the hyperbolic cosine."""
    return math.cosh(x)


@_plain
def asinh_(x):
    """Return the inverse hyperbolic sine."""
    return math.asinh(x)


@_plain
def acosh_(x):
    """Return the inverse hyperbolic cosine."""
    return math.acosh(x)


@_plain
def atanh_(x):
    """Return the inverse hyperbolic tangent."""
    return math.atanh(x)


@_plain
def log_(x):
    """Return the natural logarithm: -inf at 0, NaN below."""
    return np.log(x)


@_plain
def exp_(x):
    """Return e to the power x."""
    return math.exp(x)


@_plain
def tanh_(x):
    """Return the hyperbolic tangent."""
    return math.tanh(x)


@_plain
def erf_(x):
    """Return the error function."""
    return math.erf(x)


@_plain
def sigmoid_(x):
    """Return 1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + math.exp(-x))
