"""Elementwise arithmetic, exponentials, trigonometry and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
from onnx import helper

from explorer.frontends.python.arrays import complex_numbers
from explorer.frontends.python.arrays.shaping import refuse
from explorer.frontends.python.arrays.ufuncs import Body, is_bool, number_like, ufunc, where
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.python.tracing.frames import current_frame
from explorer.frontends.python.tracing.operation import distinct, operation
from explorer.ir.dtypes import is_float
from explorer.ir.scalar_functions import erf as erf_of_arrays

# ONNX's integer element types, by their size in bytes.
INTEGERS_OF_WIDTH = {
    size: int(helper.np_dtype_to_tensor_dtype(numpy.dtype(f"int{8 * size}"))) for size in (2, 4, 8)
}


def _on_bools(logical: str, otherwise: str) -> Body:
    """Return a body that uses the logical operator for bools."""
    return lambda a, b: emit(logical if is_bool(a) else otherwise, a, b)


def _round_floats(op: str) -> Body:
    """Return a rounding body that leaves integers as they are."""
    return lambda x: x if x.dtype.kind in "iub" else emit(op, x)


def _negative(x: TracedArray) -> TracedArray:
    unsigned = x.dtype.kind == "u"
    return emit("Sub", number_like(0, x), x) if unsigned else emit("Neg", x)


def _floor_divide(a: TracedArray, b: TracedArray) -> Any:
    """Divide rounding down, as Python does; for floats, subtract the C remainder (fmod) first."""
    if a.dtype.kind in "iu":
        return _floor_divide_integers(a, b)
    remainder_ = emit("Mod", a, b)
    quotient: TracedArray = emit("Div", emit("Sub", a, remainder_), b)
    by_zero = emit("Equal", b, number_like(0, b))
    infinite = emit("And", emit("IsInf", b), emit("Not", emit("IsInf", a)))
    opposed = emit("Less", emit("Mul", emit("Sign", a), emit("Sign", b)), number_like(0, a))
    toward_zero = where(opposed, number_like(-1, a), number_like(0, a))
    toward_zero = where(emit("IsNaN", a), a, toward_zero)
    plain = where(infinite, toward_zero, emit("Round", quotient))
    ratio = emit("Div", a, b)
    nothing = emit("Equal", plain, number_like(0, a))
    signed = where(nothing, emit("Mul", ratio, number_like(0, a)), plain)
    return where(by_zero, ratio, signed)


def _floor_divide_integers(a: TracedArray, b: TracedArray) -> Any:
    """Return the truncated quotient, less one where there is a remainder and the signs differ.

    Nothing overflows near the limits of the dtype. The result is 0 where `b` is 0.
    """
    truncated = emit("Div", a, b)
    if a.dtype.kind == "u":
        return truncated
    zero = number_like(0, a)
    remainder_ = emit("Sub", a, emit("Mul", truncated, b))
    uneven = emit("Not", emit("Or", emit("Equal", remainder_, zero), emit("Equal", b, zero)))
    opposed = emit("Xor", emit("Less", a, zero), emit("Less", b, zero))
    return emit("Sub", truncated, converted(emit("And", uneven, opposed), a.dtype))


def _trunc(x: TracedArray) -> TracedArray:
    if x.dtype.kind in "iub":
        return x
    below = emit("Less", x, number_like(0, x))
    return emit("Where", below, emit("Ceil", x), emit("Floor", x))


def _absolute(x: TracedArray) -> TracedArray:
    return x if x.dtype.kind in "ub" else emit("Abs", x)


def _power(a: TracedArray, b: TracedArray) -> Any:
    """Raise a to the power b; integers are raised in 32 or 64 bits and wrap around to their width.

    A negative constant exponent of integers is refused, as in NumPy.
    """
    kind = a.dtype
    if kind.kind not in "iu":
        return emit("Pow", a, b)
    exponent = current_frame().recorder.constants.get(b.value.name)
    if exponent is not None and exponent.array.size and exponent.array.min() < 0:
        refuse("integers have no negative integer powers; convert them to floats with astype")
    wide = "int32" if kind.itemsize < 4 or kind == numpy.int32 else "int64"
    return converted(emit("Pow", converted(a, wide), converted(b, wide)), kind)


def _signbit(x: TracedArray) -> TracedArray:
    """Return the sign bit, also of zeros and NaN."""
    bits = emit("BitCast", x, to=INTEGERS_OF_WIDTH[x.dtype.itemsize])
    return emit("Less", bits, number_like(0, bits))


def _copysign(a: TracedArray, b: TracedArray) -> Any:
    size = emit("Abs", a)
    return where(_signbit(b), emit("Neg", size), size)


def _arctan2(y: TracedArray, x: TracedArray) -> Any:
    """Compute the angle of the smaller over the larger coordinate, then map it to its octant."""
    down, along = emit("Abs", y), emit("Abs", x)
    top, low = emit("Max", down, along), emit("Min", down, along)
    same = emit("Equal", down, along)
    none = emit("Equal", top, number_like(0, y))
    ratio = emit("Div", low, where(emit("Or", same, none), number_like(1, y), top))
    ratio = where(emit("And", same, emit("Not", none)), number_like(1, y), ratio)
    angle = emit("Atan", ratio)
    steep = emit("Greater", down, along)
    angle = where(steep, emit("Sub", number_like(math.pi / 2, y), angle), angle)
    angle = where(_signbit(x), emit("Sub", number_like(math.pi, y), angle), angle)
    return _copysign(angle, y)


def _logaddexp(a: TracedArray, b: TracedArray) -> Any:
    """Return log(exp a + exp b), factoring out the larger operand so that nothing overflows."""
    gap = emit("Neg", emit("Abs", emit("Sub", a, b)))
    same = emit("Equal", a, b)
    more = _log1p(emit("Exp", where(same, number_like(0, a), gap)))
    return emit("Add", emit("Max", a, b), more)


def _nextafter(a: TracedArray, b: TracedArray) -> Any:
    """Step the bits as an integer of the same width; from 0 return the smallest subnormal."""
    bits = emit("BitCast", a, to=INTEGERS_OF_WIDTH[a.dtype.itemsize])
    unit, zero = number_like(1, bits), number_like(0, a)
    away = emit("Equal", emit("Less", a, b), emit("Less", zero, a))
    moved = emit("Add", bits, where(away, unit, emit("Neg", unit)))
    stepped = emit("BitCast", moved, to=int(helper.np_dtype_to_tensor_dtype(a.dtype)))
    tiny = number_like(float(numpy.nextafter(a.dtype.type(0), a.dtype.type(1))), a)
    first = where(emit("Less", zero, b), tiny, emit("Neg", tiny))
    stepped = where(emit("Equal", a, zero), first, stepped)
    unknown = emit("Or", emit("IsNaN", a), emit("IsNaN", b))
    return where(unknown, emit("Add", a, b), where(emit("Equal", a, b), b, stepped))


def _scaled(op: str, factor: float, *, after: bool = False) -> Body:
    def body(x: TracedArray) -> TracedArray:
        by = number_like(factor, x)
        return emit("Mul", emit(op, x), by) if after else emit(op, emit("Mul", x, by))

    return body


def _expm1(x: TracedArray) -> Any:
    """Return exp(x) - 1 as (e - 1) x / log e with e = exp x, exact near 0 (Kahan)."""
    e, unit = emit("Exp", x), number_like(1, x)
    tiny, far = emit("Equal", e, unit), emit("Greater", emit("Abs", x), unit)
    near = emit("Not", emit("Or", tiny, far))
    ratio = where(near, emit("Div", x, emit("Log", where(near, e, number_like(2, x)))), unit)
    return where(tiny, x, emit("Mul", emit("Sub", e, unit), ratio))


def _log1p(x: TracedArray) -> Any:
    """Return log(1 + x) as x log u / (u - 1) with u = 1 + x, exact near 0 (Kahan)."""
    unit = number_like(1, x)
    u = emit("Add", x, unit)
    tiny, far = emit("Equal", u, unit), emit("GreaterOrEqual", emit("Abs", x), unit)
    near = emit("Not", emit("Or", tiny, far))
    ratio = where(near, emit("Div", x, where(near, emit("Sub", u, unit), unit)), unit)
    return where(tiny, x, emit("Mul", emit("Log", u), ratio))


def _hypot(a: TracedArray, b: TracedArray) -> Any:
    """Return the hypotenuse, factoring out the larger operand so that nothing overflows."""
    a, b = emit("Abs", a), emit("Abs", b)
    top, low = emit("Max", a, b), emit("Min", a, b)
    is_infinite = emit("Or", emit("IsInf", a), emit("IsInf", b))
    ratio = emit("Div", low, where(emit("Equal", top, number_like(0, a)), number_like(1, a), top))
    root = emit("Sqrt", emit("Add", emit("Mul", ratio, ratio), number_like(1, a)))
    return where(is_infinite, number_like(math.inf, a), emit("Mul", top, root))


def _part(of: Any, record: Callable[[Any], Any]) -> Callable[..., Any]:
    record.__name__, record.__doc__ = of.__name__, f"Apply NumPy's `{of.__name__}`."
    return operation(of, on_complex=lambda x: getattr(x, of.__name__))(record)


add = ufunc(numpy.add, _on_bools("Or", "Add"), complex_numbers.add)
subtract = ufunc(numpy.subtract, "Sub", complex_numbers.subtract)
multiply = ufunc(numpy.multiply, _on_bools("And", "Mul"), complex_numbers.multiply)
divide = true_divide = ufunc(numpy.divide, "Div", complex_numbers.divide)
floor_divide = ufunc(numpy.floor_divide, _floor_divide)
remainder = mod = ufunc(numpy.remainder, "Mod")
fmod = ufunc(numpy.fmod, lambda a, b: emit("Mod", a, b, fmod=1))
power = pow = ufunc(numpy.power, _power)
negative = ufunc(numpy.negative, _negative, complex_numbers.negative)
positive = ufunc(numpy.positive, lambda x: x, complex_numbers.positive)
real = _part(numpy.real, lambda x: x)
imag = _part(numpy.imag, lambda x: TracedArray.functions.zeros_like(x))
conj = conjugate = ufunc(numpy.conjugate, lambda x: x, complex_numbers.conjugate)
absolute = abs = ufunc(numpy.absolute, _absolute, complex_numbers.absolute)
sign = ufunc(numpy.sign, "Sign")
square = ufunc(numpy.square, lambda x: emit("Mul", x, x))
sqrt = ufunc(numpy.sqrt, "Sqrt")
reciprocal = ufunc(numpy.reciprocal, lambda x: emit("Div", number_like(1, x), x))
signbit = ufunc(numpy.signbit, _signbit)
copysign = ufunc(numpy.copysign, _copysign)
nextafter = ufunc(numpy.nextafter, _nextafter)
hypot = ufunc(numpy.hypot, _hypot)

# Exponentials and trigonometry.

exp = ufunc(numpy.exp, "Exp", complex_numbers.exp)
exp2 = ufunc(numpy.exp2, lambda x: emit("Pow", number_like(2, x), x))
expm1 = ufunc(numpy.expm1, _expm1)
logaddexp = ufunc(numpy.logaddexp, _logaddexp)
log = ufunc(numpy.log, "Log")
log2 = ufunc(numpy.log2, _scaled("Log", 1 / math.log(2), after=True))
log10 = ufunc(numpy.log10, _scaled("Log", 1 / math.log(10), after=True))
log1p = ufunc(numpy.log1p, _log1p)
sin = ufunc(numpy.sin, "Sin")
cos = ufunc(numpy.cos, "Cos")
tan = ufunc(numpy.tan, "Tan")
tanh = ufunc(numpy.tanh, "Tanh")
sinh = ufunc(numpy.sinh, "Sinh")
cosh = ufunc(numpy.cosh, "Cosh")
arcsin = asin = ufunc(numpy.arcsin, "Asin")
arccos = acos = ufunc(numpy.arccos, "Acos")
arctan = atan = ufunc(numpy.arctan, "Atan")
arctan2 = atan2 = ufunc(numpy.arctan2, _arctan2)
arcsinh = asinh = ufunc(numpy.arcsinh, "Asinh")
arccosh = acosh = ufunc(numpy.arccosh, "Acosh")
arctanh = atanh = ufunc(numpy.arctanh, "Atanh")

# Rounding.

floor = ufunc(numpy.floor, _round_floats("Floor"))
ceil = ufunc(numpy.ceil, _round_floats("Ceil"))
rint = ufunc(numpy.rint, _round_floats("Round"))
trunc = ufunc(numpy.trunc, _trunc)


@operation(numpy.divmod)
def divmod(a: Any, b: Any) -> Any:
    """Apply NumPy's `divmod`: the quotient rounded down, and the remainder."""
    return floor_divide(a, b), remainder(a, b)


@operation(numpy.round)
def round(x: Any, decimals: int = 0) -> Any:
    """Apply NumPy's `round`: to the nearest, half to even."""
    if not decimals:
        return rint(x) if is_float(str(traced(x).dtype)) else x
    scale = 10.0**decimals
    return divide(rint(multiply(x, scale)), scale)


@operation(lambda x: erf_of_arrays(numpy.asarray(x)))
def erf(x: Any) -> Any:
    """Apply the error function; integers are converted to float64."""
    array = traced(x)
    return emit("Erf", array if is_float(str(array.dtype)) else converted(array, "float64"))


@operation(numpy.angle, on_complex=complex_numbers.angle)
def angle(x: Any, deg: bool = False) -> Any:
    """Apply NumPy's `angle`: the argument of a complex number."""
    return complex_numbers.angle(x, deg)


@operation(
    lambda x, dtype, copy=True: numpy.asarray(x).astype(dtype, copy=copy),
    views=None,
    on_complex=complex_numbers.astype,
)
def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """Return the values in another dtype; x itself if it has that dtype and `copy` is False."""
    if numpy.dtype(dtype).kind == "c":
        return complex_numbers.astype(x, dtype)
    cast_array = converted(x, dtype)
    return distinct(cast_array, (x,)) if copy else cast_array
