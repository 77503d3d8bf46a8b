"""Functions of kernels that Numba compiles for this process, for other platforms.

The trigonometric and hyperbolic ones, and powers of float64, are calls of C's mathematical library:
`sinf`, `sin` and the like, which a linker or a browser must provide. Remainders are `fmod`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from explorer.codegen.cpu.llvm_value import call_intrinsic, suffix

LIBRARY = ("sin", "cos", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")


def _library(name: str, arity: int) -> Any:
    """Return an intrinsic that calls a function of C's mathematical library."""

    def write(b: Any, kind: Any, a: Any) -> Any:
        full = f"{name}f" if kind == ir.FloatType() else name
        declared = b.module.globals
        if full not in declared:
            ir.Function(b.module, ir.FunctionType(kind, [kind] * arity), full)
        return b.call(declared[full], list(a))

    def emit(cx: Any, b: Any, sig: Any, a: Any) -> Any:
        return write(b, a[0].type, a)

    if arity == 1:

        @intrinsic
        def call(context, x):
            return x(x), emit

        return call

    @intrinsic
    def call_of_two(context, x, y):
        return x(x, x), emit

    return call_of_two


def _divided(b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return the quotient, rounded down, and the remainder of floats, as Python and Numba do."""
    zero, unit, half = (ir.Constant(x.type, n) for n in (0.0, 1.0, 0.5))
    remainder = b.frem(x, y)
    quotient = b.fdiv(b.fsub(x, remainder), y)
    is_inexact = b.fcmp_unordered("!=", remainder, zero)
    other = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", remainder, zero))
    step = b.and_(is_inexact, other)
    quotient = b.select(step, b.fsub(quotient, unit), quotient)
    remainder = b.select(step, b.fadd(remainder, y), remainder)
    remainder = b.select(is_inexact, remainder, _signed(b, zero, y))
    down = _function(b, "floor", quotient)
    down = b.select(b.fcmp_ordered(">", b.fsub(quotient, down), half), b.fadd(down, unit), down)
    exact = b.fdiv(x, y)
    down = b.select(b.fcmp_unordered("!=", quotient, zero), down, _signed(b, zero, exact))
    return b.select(b.fcmp_ordered("==", y, zero), exact, down), remainder


def _function(b: Any, name: str, *args: Any) -> Any:
    """Emit an LLVM intrinsic of floats of one type."""
    kind = args[0].type
    return call_intrinsic(b, f"llvm.{name}.{suffix(kind)}", kind, *args)


def _signed(b: Any, size: Any, sign: Any) -> Any:
    """Return a number with the sign of another."""
    return _function(b, "copysign", size, sign)


@intrinsic
def floor_div(context, x, y):
    """Divide, rounding down."""
    return x(x, x), lambda cx, b, sig, a: _divided(b, a[0], a[1])[0]


@intrinsic
def floor_mod(context, x, y):
    """Return the remainder with the divisor's sign."""
    return x(x, x), lambda cx, b, sig, a: _divided(b, a[0], a[1])[1]


@intrinsic
def integer_power(context, x, y, unit):
    """Return x to the power y by squaring.

    A negative y gives 1 / x to the power -y, towards zero.
    """

    def emit(cx, b, sig, a):
        kind = a[0].type
        zero, unit, less = (ir.Constant(kind, n) for n in (0, 1, -1))
        before = b.block
        top, after = b.append_basic_block("square"), b.append_basic_block("power")
        signed = bool(getattr(y, "signed", False))
        positive = (b.icmp_signed if signed else b.icmp_unsigned)(">", a[1], zero)
        b.cbranch(positive, top, after)
        b.position_at_end(top)
        out, square, left = (b.phi(kind) for _ in range(3))
        is_odd = b.icmp_signed("!=", b.and_(left, unit), zero)
        values = (
            b.select(is_odd, b.mul(out, square), out),
            b.mul(square, square),
            b.lshr(left, unit),
        )
        for phi, first, following in zip(
            (out, square, left), (unit, a[0], a[1]), values, strict=True
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(following, top)
        b.cbranch(b.icmp_signed("!=", values[2], zero), top, after)
        b.position_at_end(after)
        power = b.phi(kind)
        power.add_incoming(unit, before)
        power.add_incoming(values[0], top)
        if not signed:
            return power
        even = b.icmp_signed("==", b.and_(a[1], unit), zero)
        is_one, is_less = (b.icmp_signed("==", a[0], n) for n in (unit, less))
        ones = b.select(b.or_(is_one, b.and_(is_less, even)), unit, b.select(is_less, less, zero))
        return b.select(b.icmp_signed("<", a[1], zero), ones, power)

    return x(x, x, x), emit


FUNCTIONS: Mapping[str, Any] = {
    **{f"{name}_": _library(name, 1) for name in LIBRARY},
    "power": _library("pow", 2),
    "floor_div": floor_div,
    "floor_mod": floor_mod,
    "integer_power": integer_power,
}
"""The functions by the names that generated source calls; Numba compiles others of these names."""
