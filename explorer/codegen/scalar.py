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
    """The absolute value."""

    def emit(cx, b, sig, a):
        if isinstance(x, types.Float):
            return b.call(b.module.declare_intrinsic("llvm.fabs", [a[0].type]), [a[0]])
        if not x.signed:
            return a[0]
        zero = ir.Constant(a[0].type, 0)
        return b.select(b.icmp_signed("<", a[0], zero), b.sub(zero, a[0]), a[0])

    return x(x), emit


def _divisor(b: Any, x: Any, signed: bool) -> tuple[Any, Any, Any]:
    """A divisor that hardware traps on neither for 0 nor for -1; whether it was 0, and -1."""
    zero, one, less = (ir.Constant(x.type, n) for n in (0, 1, -1))
    is_zero = b.icmp_signed("==", x, zero)
    is_less = b.icmp_signed("==", x, less) if signed else ir.Constant(ir.IntType(1), 0)
    return b.select(b.or_(is_zero, is_less), one, x), is_zero, is_less


@intrinsic
def truncated_div(context, x, y):
    """Integer division towards zero; 0 where the divisor is 0, which hardware would trap on."""

    def emit(cx, b, sig, a):
        zero = ir.Constant(a[0].type, 0)
        safe, is_zero, is_less = _divisor(b, a[1], x.signed)
        q = b.sdiv(a[0], safe) if x.signed else b.udiv(a[0], safe)
        return b.select(is_zero, zero, b.select(is_less, b.sub(zero, a[0]), q))

    return x(x, x), emit


@intrinsic
def integer_floor_div(context, x, y):
    """Integer division rounded down; 0 where the divisor is 0."""

    def emit(cx, b, sig, a):
        zero, one = ir.Constant(a[0].type, 0), ir.Constant(a[0].type, 1)
        safe, is_zero, is_less = _divisor(b, a[1], x.signed)
        q = b.sdiv(a[0], safe) if x.signed else b.udiv(a[0], safe)
        if x.signed:
            uneven = b.icmp_signed("!=", b.mul(q, safe), a[0])
            other = b.icmp_signed("<", b.xor(a[0], safe), zero)
            q = b.select(b.and_(uneven, other), b.sub(q, one), q)
        return b.select(is_zero, zero, b.select(is_less, b.sub(zero, a[0]), q))

    return x(x, x), emit


@intrinsic
def integer_mod(context, x, y):
    """The remainder with the divisor's sign; 0 where the divisor is 0."""

    def emit(cx, b, sig, a):
        zero = ir.Constant(a[0].type, 0)
        safe, _, _ = _divisor(b, a[1], x.signed)  # a divisor of 0 or -1 leaves 0, as 1 does
        if not x.signed:
            return b.urem(a[0], safe)
        r = b.srem(a[0], safe)
        other = b.icmp_signed("<", b.xor(r, safe), zero)
        return b.select(b.and_(b.icmp_signed("!=", r, zero), other), b.add(r, safe), r)

    return x(x, x), emit


def _bitwise(name: str) -> Any:
    @intrinsic
    def operation(context, x, y):
        return x(x, x), lambda cx, b, sig, a: getattr(b, name)(a[0], a[1])

    return operation


bitand_, bitor_, bitxor_ = _bitwise("and_"), _bitwise("or_"), _bitwise("xor")


@intrinsic
def bit_not(context, x):
    """Every bit turned."""
    return x(x), lambda cx, b, sig, a: b.not_(a[0])


def _shift(left: bool) -> Any:
    @intrinsic
    def shift(context, x, y):
        """Bits moved; all of them are gone where the distance is negative or the width or more."""

        def emit(cx, b, sig, a):
            kind, zero = a[0].type, ir.Constant(a[0].type, 0)
            inside = b.icmp_unsigned("<", a[1], ir.Constant(kind, kind.width))
            by = b.select(inside, a[1], zero)
            if left:
                return b.select(inside, b.shl(a[0], by), zero)
            if x.signed:
                return b.ashr(a[0], b.select(inside, by, ir.Constant(kind, kind.width - 1)))
            return b.select(inside, b.lshr(a[0], by), zero)

        return x(x, x), emit

    return shift


shl_, shr_ = _shift(left=True), _shift(left=False)


@intrinsic
def to_odd(context, x):
    """float64 as the float32 beside it whose last bit is 1 where it is not exact: rounded again to
    fewer bits it is what rounding once gives.
    """

    def emit(cx, b, sig, a):
        single, whole = ir.FloatType(), ir.IntType(32)
        near = b.fptrunc(a[0], single)
        bits, back = b.bitcast(near, whole), b.fpext(near, ir.DoubleType())
        size = b.module.declare_intrinsic("llvm.fabs", [ir.DoubleType()])
        beyond = b.fcmp_ordered("<", b.call(size, [a[0]]), b.call(size, [back]))
        step = b.select(beyond, whole(-1), whole(1))
        odd = b.icmp_unsigned("!=", b.and_(bits, whole(1)), whole(0))
        exact = b.fcmp_unordered("ueq", back, a[0])
        return b.bitcast(b.select(b.or_(odd, exact), bits, b.add(bits, step)), single)

    return types.float32(types.float64), emit


@intrinsic
def sign_(context, x):
    """-1, 0, 1, or NaN."""

    def emit(cx, b, sig, a):
        kind = a[0].type
        zero, one, less = (ir.Constant(kind, n) for n in (0, 1, -1))
        if isinstance(x, types.Float):
            above, below = b.fcmp_ordered(">", a[0], zero), b.fcmp_ordered("<", a[0], zero)
            return b.select(above, one, b.select(below, less, a[0]))
        if not x.signed:
            return b.select(b.icmp_unsigned("!=", a[0], zero), one, zero)
        below = b.select(b.icmp_signed("<", a[0], zero), less, zero)
        return b.select(b.icmp_signed(">", a[0], zero), one, below)

    return x(x), emit


def _plain(f: Any) -> Any:
    return njit(error_model="numpy", forceinline=True)(f)


@_plain
def floor_div(x, y):
    """Division rounded down."""
    return x // y


@_plain
def floor_mod(x, y):
    """The remainder with the divisor's sign."""
    return x % y


@_plain
def power(x, y):
    """x to the power y."""
    return x**y


@_plain
def integer_power(x, y, one):
    """x to the power y by squares; 1 / x to the power -y, towards zero, where y is negative."""
    zero = one - one
    if y < zero:
        if x == one or x + one == zero:
            return one if x == one or (y & one) == zero else x
        return zero
    out, square = one, x
    while y > zero:
        if (y & one) != zero:
            out = out * square
        square = square * square
        y = y >> one
    return out


@_plain
def sin_(x):
    """sin."""
    return math.sin(x)


@_plain
def cos_(x):
    """cos."""
    return math.cos(x)


@_plain
def asin_(x):
    """asin."""
    return math.asin(x)


@_plain
def acos_(x):
    """acos."""
    return math.acos(x)


@_plain
def atan_(x):
    """atan."""
    return math.atan(x)


@_plain
def sinh_(x):
    """sinh."""
    return math.sinh(x)


@_plain
def cosh_(x):
    """cosh."""
    return math.cosh(x)


@_plain
def asinh_(x):
    """asinh."""
    return math.asinh(x)


@_plain
def acosh_(x):
    """acosh."""
    return math.acosh(x)


@_plain
def atanh_(x):
    """atanh."""
    return math.atanh(x)


@_plain
def log_(x):
    """The natural logarithm: -inf at 0, NaN below."""
    return np.log(x)


@_plain
def exp_(x):
    """exp."""
    return math.exp(x)


@_plain
def tanh_(x):
    """tanh."""
    return math.tanh(x)


@_plain
def erf_(x):
    """erf."""
    return math.erf(x)


@_plain
def sigmoid_(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + math.exp(-x))


@_plain
def isnan_(x):
    """Whether NaN."""
    return x != x


@_plain
def isinf_(x):
    """Whether an infinity."""
    return np.isinf(x)
