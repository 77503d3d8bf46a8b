"""Integers of every width in generated kernels: divisions that never trap, bits, shifts, powers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit
from numba.extending import intrinsic


def _divisor(b: Any, x: Any, signed: bool) -> tuple[Any, Any, Any]:
    """Return a divisor that never traps, and whether it was 0, and whether it was -1."""
    zero, unit, less = (ir.Constant(x.type, n) for n in (0, 1, -1))
    is_zero = b.icmp_signed("==", x, zero)
    is_less = b.icmp_signed("==", x, less) if signed else ir.Constant(ir.IntType(1), 0)
    return b.select(b.or_(is_zero, is_less), unit, x), is_zero, is_less


@intrinsic
def truncated_div(context, x, y):
    """Divide integers towards zero; 0 if the divisor is 0, which hardware would trap on."""

    def emit(cx, b, sig, a):
        zero = ir.Constant(a[0].type, 0)
        safe, is_zero, is_less = _divisor(b, a[1], x.signed)
        q = b.sdiv(a[0], safe) if x.signed else b.udiv(a[0], safe)
        return b.select(is_zero, zero, b.select(is_less, b.sub(zero, a[0]), q))

    return x(x, x), emit


@intrinsic
def integer_floor_div(context, x, y):
    """Divide integers, rounding down; 0 if the divisor is 0."""

    def emit(cx, b, sig, a):
        zero, unit = ir.Constant(a[0].type, 0), ir.Constant(a[0].type, 1)
        safe, is_zero, is_less = _divisor(b, a[1], x.signed)
        q = b.sdiv(a[0], safe) if x.signed else b.udiv(a[0], safe)
        if x.signed:
            uneven = b.icmp_signed("!=", b.mul(q, safe), a[0])
            other = b.icmp_signed("<", b.xor(a[0], safe), zero)
            q = b.select(b.and_(uneven, other), b.sub(q, unit), q)
        return b.select(is_zero, zero, b.select(is_less, b.sub(zero, a[0]), q))

    return x(x, x), emit


@intrinsic
def integer_mod(context, x, y):
    """Return the remainder with the divisor's sign; 0 if the divisor is 0."""

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
    """Invert every bit."""
    return x(x), lambda cx, b, sig, a: b.not_(a[0])


def _shift(left: bool) -> Any:
    """Return the intrinsic of a left or a right shift."""

    @intrinsic
    def shift(context, x, y):
        """Shift bits; the result is empty if the distance is negative or the width or more."""

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


@njit(error_model="numpy", forceinline=True)
def integer_power(x, y, unit):
    """Return x to the power y by squaring.

    A negative y gives 1 / x to the power -y, towards zero.
    """
    zero = unit - unit
    if y < zero:
        if x == unit or x + unit == zero:
            return unit if x == unit or (y & unit) == zero else x
        return zero
    out, square = unit, x
    while y > zero:
        if (y & unit) != zero:
            out = out * square
        square = square * square
        y = y >> unit
    return out
