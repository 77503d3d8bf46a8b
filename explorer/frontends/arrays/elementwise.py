"""Arithmetic, exponentials, trigonometry and rounding of each element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
from onnx import helper

from explorer.frontends.arrays import complex_numbers
from explorer.frontends.arrays.axes import refuse
from explorer.frontends.arrays.choices import where
from explorer.frontends.arrays.ufuncs import Body, is_bool, number_like, ufunc
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.operation import apart, operation
from explorer.frontends.tracing.promote import converted, traced
from explorer.ir.dtypes import is_float
from explorer.ir.scalar_functions import erf as erf_of_arrays

INTEGERS_OF_WIDTH = {
    size: int(helper.np_dtype_to_tensor_dtype(numpy.dtype(f"int{8 * size}"))) for size in (2, 4, 8)
}  # ONNX's numbers of dtypes


def _on_bools(logical: str, otherwise: str) -> Body:
    """Arithmetic of bools is logic."""
    return lambda a, b: emit(logical if is_bool(a) else otherwise, a, b)


def _whole(op: str) -> Body:
    """Rounding leaves integers as they are."""
    return lambda x: x if x.dtype.kind in "iub" else emit(op, x)


def _negative(x: TracedArray) -> TracedArray:
    unsigned = x.dtype.kind == "u"
    return emit("Sub", number_like(0, x), x) if unsigned else emit("Neg", x)


def _floor_divide(a: TracedArray, b: TracedArray) -> Any:
    """Down, as Python does; a float's remainder is taken off first, as in C's fmod."""
    if a.dtype.kind in "iu":
        return _floor_divide_integers(a, b)
    rest = emit("Mod", a, b)
    whole: TracedArray = emit("Div", emit("Sub", a, rest), b)
    by_zero = emit("Equal", b, number_like(0, b))
    endless = emit("And", emit("IsInf", b), emit("Not", emit("IsInf", a)))
    opposed = emit("Less", emit("Mul", emit("Sign", a), emit("Sign", b)), number_like(0, a))
    towards = where(opposed, number_like(-1, a), number_like(0, a))
    towards = where(emit("IsNaN", a), a, towards)
    plain = where(endless, towards, emit("Round", whole))
    ratio = emit("Div", a, b)
    nothing = emit("Equal", plain, number_like(0, a))
    signed = where(nothing, emit("Mul", ratio, number_like(0, a)), plain)
    return where(by_zero, ratio, signed)


def _floor_divide_integers(a: TracedArray, b: TracedArray) -> Any:
    """The quotient towards 0, less one where a remainder is left of signs that differ: nothing
    overflows near the limits of the dtype. 0 where `b` is 0.
    """
    towards = emit("Div", a, b)
    if a.dtype.kind == "u":
        return towards
    zero = number_like(0, a)
    rest = emit("Sub", a, emit("Mul", towards, b))
    uneven = emit("Not", emit("Or", emit("Equal", rest, zero), emit("Equal", b, zero)))
    opposed = emit("Xor", emit("Less", a, zero), emit("Less", b, zero))
    return emit("Sub", towards, converted(emit("And", uneven, opposed), a.dtype))


def _trunc(x: TracedArray) -> TracedArray:
    if x.dtype.kind in "iub":
        return x
    below = emit("Less", x, number_like(0, x))
    return emit("Where", below, emit("Ceil", x), emit("Floor", x))


def _absolute(x: TracedArray) -> TracedArray:
    return x if x.dtype.kind in "ub" else emit("Abs", x)


def _power(a: TracedArray, b: TracedArray) -> Any:
    """Integers wrap around in more bits as they do in their own; a known exponent is not below 0,
    as in NumPy.
    """
    kind = a.dtype
    if kind.kind not in "iu":
        return emit("Pow", a, b)
    known = current_frame().recorder.constants.get(b.value.name)
    if known is not None and known.array.size and known.array.min() < 0:
        refuse("integers have no negative integer powers; astype of floats has")
    wide = "int32" if kind.itemsize < 4 or kind == numpy.int32 else "int64"
    return converted(emit("Pow", converted(a, wide), converted(b, wide)), kind)


def _signbit(x: TracedArray) -> TracedArray:
    """Whether the sign is a minus, also that of 0 and of what is no number."""
    bits = emit("BitCast", x, to=INTEGERS_OF_WIDTH[x.dtype.itemsize])
    return emit("Less", bits, number_like(0, bits))


def _copysign(a: TracedArray, b: TracedArray) -> Any:
    size = emit("Abs", a)
    return where(_signbit(b), emit("Neg", size), size)


def _arctan2(y: TracedArray, x: TracedArray) -> Any:
    """The angle of the smaller to the greater one, turned into its octant."""
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
    """The greater one is taken out, so that nothing overflows."""
    apart = emit("Neg", emit("Abs", emit("Sub", a, b)))
    same = emit("Equal", a, b)
    more = _log1p(emit("Exp", where(same, number_like(0, a), apart)))
    return emit("Add", emit("Max", a, b), more)


def _nextafter(a: TracedArray, b: TracedArray) -> Any:
    """The next number as an integer of the same bits; from 0 the least one."""
    bits = emit("BitCast", a, to=INTEGERS_OF_WIDTH[a.dtype.itemsize])
    one, zero = number_like(1, bits), number_like(0, a)
    away = emit("Equal", emit("Less", a, b), emit("Less", zero, a))
    moved = emit("Add", bits, where(away, one, emit("Neg", one)))
    found = emit("BitCast", moved, to=int(helper.np_dtype_to_tensor_dtype(a.dtype)))
    tiny = number_like(float(numpy.nextafter(a.dtype.type(0), a.dtype.type(1))), a)
    first = where(emit("Less", zero, b), tiny, emit("Neg", tiny))
    found = where(emit("Equal", a, zero), first, found)
    unknown = emit("Or", emit("IsNaN", a), emit("IsNaN", b))
    return where(unknown, emit("Add", a, b), where(emit("Equal", a, b), b, found))


def _scaled(op: str, factor: float, *, after: bool = False) -> Body:
    def body(x: TracedArray) -> TracedArray:
        by = number_like(factor, x)
        return emit("Mul", emit(op, x), by) if after else emit(op, emit("Mul", x, by))

    return body


def _expm1(x: TracedArray) -> Any:
    """(e - 1) x / log e with e = exp x: exact near 0 (Kahan)."""
    e, one = emit("Exp", x), number_like(1, x)
    tiny, far = emit("Equal", e, one), emit("Greater", emit("Abs", x), one)
    near = emit("Not", emit("Or", tiny, far))
    ratio = where(near, emit("Div", x, emit("Log", where(near, e, number_like(2, x)))), one)
    return where(tiny, x, emit("Mul", emit("Sub", e, one), ratio))


def _log1p(x: TracedArray) -> Any:
    """x log u / (u - 1) with u = 1 + x: exact near 0 (Kahan)."""
    one = number_like(1, x)
    u = emit("Add", x, one)
    tiny, far = emit("Equal", u, one), emit("GreaterOrEqual", emit("Abs", x), one)
    near = emit("Not", emit("Or", tiny, far))
    ratio = where(near, emit("Div", x, where(near, emit("Sub", u, one), one)), one)
    return where(tiny, x, emit("Mul", emit("Log", u), ratio))


def _hypot(a: TracedArray, b: TracedArray) -> Any:
    """The greater one is taken out, so that nothing overflows."""
    a, b = emit("Abs", a), emit("Abs", b)
    top, low = emit("Max", a, b), emit("Min", a, b)
    endless = emit("Or", emit("IsInf", a), emit("IsInf", b))
    ratio = emit("Div", low, where(emit("Equal", top, number_like(0, a)), number_like(1, a), top))
    root = emit("Sqrt", emit("Add", emit("Mul", ratio, ratio), number_like(1, a)))
    return where(endless, number_like(math.inf, a), emit("Mul", top, root))


def _part(of: Any, record: Callable[[Any], Any]) -> Callable[..., Any]:
    record.__name__, record.__doc__ = of.__name__, f"NumPy's `{of.__name__}`."
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

floor = ufunc(numpy.floor, _whole("Floor"))
ceil = ufunc(numpy.ceil, _whole("Ceil"))
rint = ufunc(numpy.rint, _whole("Round"))
trunc = ufunc(numpy.trunc, _trunc)


@operation(numpy.divmod)
def divmod(a: Any, b: Any) -> Any:
    """NumPy's `divmod`: the quotient rounded down, and the remainder."""
    return floor_divide(a, b), remainder(a, b)


@operation(numpy.round)
def round(x: Any, decimals: int = 0) -> Any:
    """NumPy's `round`: to the nearest, half to even."""
    if not decimals:
        return rint(x) if is_float(str(traced(x).dtype)) else x
    scale = 10.0**decimals
    return divide(rint(multiply(x, scale)), scale)


@operation(lambda x: erf_of_arrays(numpy.asarray(x)))
def erf(x: Any) -> Any:
    """The error function, of floats."""
    found = traced(x)
    return emit("Erf", found if is_float(str(found.dtype)) else converted(found, "float64"))


@operation(numpy.angle, on_complex=complex_numbers.angle)
def angle(x: Any, deg: bool = False) -> Any:
    """NumPy's `angle`: that of a complex number with the real axis."""
    return complex_numbers.angle(x, deg)


@operation(
    lambda x, dtype, copy=True: numpy.asarray(x).astype(dtype, copy=copy),
    views=None,
    on_complex=complex_numbers.astype,
)
def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """The same values with another dtype; x itself where it has that, and need not be copied."""
    if numpy.dtype(dtype).kind == "c":
        return complex_numbers.astype(x, dtype)
    found = converted(x, dtype)
    return apart(found, (x,)) if copy else found
