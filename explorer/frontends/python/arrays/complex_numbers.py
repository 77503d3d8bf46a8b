"""Complex arithmetic, recorded on pairs of real arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from explorer.frontends.python.arrays.shaping import refuse
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import common_dtype, converted, traced
from explorer.frontends.python.tracing.operators import PART, ComplexArray, is_complex, split_parts


def astype(value: Any, dtype: Any, copy: bool = True) -> ComplexArray:
    """Return the value in a complex dtype; the imaginary part of a real value is 0."""
    kind = numpy.dtype(dtype)
    if kind.kind != "c":
        refuse(f"complex numbers do not become {kind}; take their .real or abs")
    real, imag = split_parts(traced(value) if not is_complex(value) else value)
    return ComplexArray(converted(real, PART[kind.name]), converted(imag, PART[kind.name]))


def _parts(value: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part; the latter is None for real values."""
    return (value.real, value.imag) if is_complex(value) else (traced(value), None)


def _with_pairs(body: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `body`, a function of real and imaginary parts, as a function of complex or real values.

    `body` is called with the parts of every value in order (a, b, c, d), all of them in the dtype
    of the parts of the result.
    """

    def record(*values: Any) -> Any:
        kind = numpy.result_type(common_dtype(values), numpy.complex64)
        pairs = (p for value in values for p in _parts(value))
        return body(*(None if p is None else converted(p, PART[kind.name]) for p in pairs))

    return record


def _pair(real: TracedArray, imag: TracedArray) -> ComplexArray:
    if real.type.dims != imag.type.dims:
        real, imag = TracedArray.functions.broadcast_arrays(real, imag)
    return ComplexArray(real, imag)


@_with_pairs
def add(a: Any, b: Any, c: Any, d: Any) -> ComplexArray:
    """Return (a + bi) + (c + di)."""
    return _pair(a + c, d if b is None else b if d is None else b + d)


@_with_pairs
def subtract(a: Any, b: Any, c: Any, d: Any) -> ComplexArray:
    """Return (a + bi) - (c + di)."""
    return _pair(a - c, -d if b is None else b if d is None else b - d)


@_with_pairs
def multiply(a: Any, b: Any, c: Any, d: Any) -> ComplexArray:
    """Return (a + bi) (c + di)."""
    if b is None:
        return ComplexArray(a * c, a * d)
    if d is None:
        return ComplexArray(a * c, b * c)
    return ComplexArray(a * c - b * d, a * d + b * c)


@_with_pairs
def divide(a: Any, b: Any, c: Any, d: Any) -> ComplexArray:
    """Return (a + bi) / (c + di), scaled by the divisor's larger part (Smith 1962): no overflow."""
    if d is None:
        return ComplexArray(a / c, b / c)
    where = TracedArray.functions.where
    b = TracedArray.functions.zeros_like(a) if b is None else b
    is_steep = abs(d) > abs(c)
    high, low = where(is_steep, d, c), where(is_steep, c, d)
    ratio = low / where(high == 0, 1, high)
    divisor = high + low * ratio
    p, q = where(is_steep, b, a), where(is_steep, a, b)
    across = (q - p * ratio) / divisor
    return ComplexArray((p + q * ratio) / divisor, where(is_steep, -across, across))


@_with_pairs
def equal(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return True where both parts are equal."""
    return (a == c) & ((0 if b is None else b) == (0 if d is None else d))


@_with_pairs
def not_equal(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return True where a part differs."""
    return (a != c) | ((0 if b is None else b) != (0 if d is None else d))


@_with_pairs
def positive(a: Any, b: Any) -> ComplexArray:
    """Return a + bi."""
    return ComplexArray(a, b)


@_with_pairs
def negative(a: Any, b: Any) -> ComplexArray:
    """Return -(a + bi)."""
    return ComplexArray(-a, -b)


@_with_pairs
def conjugate(a: Any, b: Any) -> ComplexArray:
    """Return a - bi."""
    return ComplexArray(+a, -b)


@_with_pairs
def absolute(a: Any, b: Any) -> Any:
    """Return the modulus of a + bi."""
    return TracedArray.functions.hypot(a, b)


@_with_pairs
def exp(a: Any, b: Any) -> ComplexArray:
    """Return the exponential of a + bi."""
    functions = TracedArray.functions
    size = functions.exp(a)
    return ComplexArray(size * functions.cos(b), size * functions.sin(b))


def where(condition: Any, x: Any, y: Any) -> ComplexArray:
    """Select x where the condition is true, else y."""

    @_with_pairs
    def chosen(a: Any, b: Any, c: Any, d: Any) -> ComplexArray:
        choose = TracedArray.functions.where
        imag = choose(condition, 0 if b is None else b, 0 if d is None else d)
        return _pair(choose(condition, a, c), imag)

    return chosen(x, y)  # type: ignore[no-any-return]


def angle(value: Any, deg: bool = False) -> Any:
    """Return the argument of a complex number, in radians, or in degrees with `deg`."""
    a, b = split_parts(value if is_complex(value) else traced(value))
    radians = TracedArray.functions.arctan2(b, a)
    return radians * (180 / math.pi) if deg else radians
