"""NumPy's universal functions, in NumPy's dtypes: comparisons, logic, and element selection."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import numpy

from explorer.errors import DtypeError, TraceError
from explorer.frontends.python.arrays import complex_numbers
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import plain_dim, python_dim
from explorer.frontends.python.tracing.emit import (
    common_dtype,
    converted,
    emit,
    is_weak,
    kind_of,
    traced,
)
from explorer.frontends.python.tracing.frames import calling_line, current_frame
from explorer.frontends.python.tracing.operation import operation
from explorer.ir.dims import Dim, ShapeEnv
from explorer.ops.shape_rules import least, most

Body = Callable[..., TracedArray]


def _loop_dtypes(ufunc: Any, values: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """Return the dtypes in which NumPy's ufunc computes, and the dtype of its result."""
    kinds = [kind_of(v) for v in values]
    if all(k is int or k is float for k in kinds):  # Python numbers only
        kinds = [numpy.dtype(k) for k in kinds]
    try:
        *operands, result = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
    except TypeError as error:
        raise DtypeError(
            f"{calling_line()}: {ufunc.__name__} is not defined on "
            f"{' and '.join(str(kind_of(v)) for v in values)}",
            where=calling_line(),
        ) from error
    if len(set(operands)) > 1:
        operands = [numpy.result_type(*operands)] * len(operands)
    return operands, result


def ufunc(of: Any, body: str | Body, on_complex: Body | None = None) -> Callable[..., Any]:
    """Return NumPy's function `of` extended to traced values.

    `body` is an operator, or a function of the converted operands. `on_complex` is called if an
    operand is complex.
    """

    def record(*values: Any) -> Any:
        if len(values) != of.nin:
            line = calling_line()
            raise TraceError(
                f"{line}: {of.__name__} takes {of.nin} arrays, not {len(values)} ({line.text})",
                where=line,
            )
        dtypes, result = _loop_dtypes(of, values)
        for v, t in zip(values, dtypes, strict=True):
            _check_integer(v, t)
        args = [converted(v, t) for v, t in zip(values, dtypes, strict=True)]
        computed = emit(body, *args) if isinstance(body, str) else body(*args)
        result_array = converted(computed, result)
        return _weakened(result_array, values)

    record.__name__, record.__doc__ = of.__name__, f"Apply NumPy's `{of.__name__}`."
    names = ("x",) if of.nin == 1 else tuple(f"x{n}" for n in range(1, of.nin + 1))
    shown = [Parameter(n, Parameter.POSITIONAL_ONLY, annotation="Any") for n in names]
    record.__signature__ = Signature(shown, return_annotation="Any")  # type: ignore[attr-defined]
    return operation(of, on_complex=on_complex)(record)


def _check_integer(value: Any, dtype: Any) -> None:
    """Raise DtypeError if a Python integer does not fit the dtype of the other operands."""
    if type(value) is not int or dtype.kind not in "iu":
        return
    limits = numpy.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise DtypeError(
            f"{calling_line()}: the integer {value} does not fit {dtype}",
            where=calling_line(),
            expected=f"{limits.min} to {limits.max}",
            actual=value,
        )


def _weakened(array: TracedArray, values: tuple[Any, ...]) -> TracedArray:
    """Mark a scalar as weakly typed if all its operands are."""
    weak = array.ndim == 0 and all(is_weak(v) for v in values)
    return TracedArray(array.value, array.home, weak=True) if weak else array


def number_like(value: float, like: TracedArray) -> TracedArray:
    """Return a constant in the dtype of another array."""
    return converted(value, like.dtype)


def is_bool(x: TracedArray) -> bool:
    """Return True for an array of bools."""
    return x.dtype.kind == "b"


# Comparisons, logic, and element selection.


def comparison(of: Any, body: str | Body, on_complex: Body | None = None) -> Callable[..., Any]:
    """Return NumPy's comparison `of`.

    It accepts Python integers outside of the array's dtype, and is exact for signed against
    unsigned integers.
    """
    plain = ufunc(of, body)

    def record(a: Any, b: Any) -> Any:
        kinds = [kind_of(v) for v in (a, b)]
        a, b = _saturate_integer(a, kinds[1]), _saturate_integer(b, kinds[0])
        have_dtypes = all(isinstance(k, numpy.dtype) for k in kinds)
        signs = {k.kind for k in kinds} if have_dtypes else set()
        if signs == {"i", "u"} and numpy.result_type(*kinds).kind == "f":
            return _compare_signed_unsigned(plain, of, a, b)
        return plain(a, b)

    record.__name__, record.__doc__ = of.__name__, f"Apply NumPy's `{of.__name__}`."
    return operation(of, on_complex=on_complex)(record)


def _saturate_integer(value: Any, other: Any) -> Any:
    """Replace a Python integer outside of the other operand's dtype by plus or minus infinity."""
    if type(value) is not int or not isinstance(other, numpy.dtype) or other.kind not in "iu":
        return value
    limits = numpy.iinfo(other)
    if limits.min <= value <= limits.max:
        return value
    return numpy.float64(numpy.inf if value > limits.max else -numpy.inf)


def _compare_signed_unsigned(plain: Callable[..., Any], of: Any, a: Any, b: Any) -> Any:
    """Compare int64 with uint64: a negative number is less than every unsigned one."""
    first, second = traced(a), traced(b)
    signed = first if first.dtype.kind == "i" else second
    negative = emit("Less", signed, converted(0, signed.dtype))
    same = plain(converted(first, "uint64"), converted(second, "uint64"))
    below = bool(of(-1, 0) if signed is first else of(0, -1))
    return emit("Where", negative, converted(below, "bool"), same)


def _compare(op: str) -> Body:
    def body(a: TracedArray, b: TracedArray) -> TracedArray:
        if is_bool(a):
            a, b = converted(a, "int32"), converted(b, "int32")
        return emit(op, a, b)

    return body


equal = comparison(numpy.equal, "Equal", complex_numbers.equal)
not_equal = comparison(
    numpy.not_equal, lambda a, b: emit("Not", emit("Equal", a, b)), complex_numbers.not_equal
)
less = comparison(numpy.less, _compare("Less"))
less_equal = comparison(numpy.less_equal, _compare("LessOrEqual"))
greater = comparison(numpy.greater, _compare("Greater"))
greater_equal = comparison(numpy.greater_equal, _compare("GreaterOrEqual"))
logical_and = ufunc(numpy.logical_and, lambda a, b: emit("And", *_as_bools(a, b)))
logical_or = ufunc(numpy.logical_or, lambda a, b: emit("Or", *_as_bools(a, b)))
logical_xor = ufunc(numpy.logical_xor, lambda a, b: emit("Xor", *_as_bools(a, b)))
logical_not = ufunc(numpy.logical_not, lambda x: emit("Not", *_as_bools(x)))


def _as_bools(*values: TracedArray) -> list[TracedArray]:
    return [converted(v, "bool") for v in values]


def _bitwise(logical: str, op: str) -> Body:
    def body(*args: TracedArray) -> TracedArray:
        if all(map(is_bool, args)):
            return emit(logical, *args)
        return emit(op, *args)

    return body


def _shift(direction: str) -> Body:
    return lambda a, b: emit("BitShift", a, b, direction=direction)


bitwise_and = ufunc(numpy.bitwise_and, _bitwise("And", "BitwiseAnd"))
bitwise_or = ufunc(numpy.bitwise_or, _bitwise("Or", "BitwiseOr"))
bitwise_xor = ufunc(numpy.bitwise_xor, _bitwise("Xor", "BitwiseXor"))
invert = bitwise_invert = bitwise_not = ufunc(numpy.invert, _bitwise("Not", "BitwiseNot"))
left_shift = bitwise_left_shift = ufunc(numpy.left_shift, _shift("LEFT"))
right_shift = bitwise_right_shift = ufunc(numpy.right_shift, _shift("RIGHT"))
isnan = ufunc(numpy.isnan, lambda x: _test_floats("IsNaN", x))
isinf = ufunc(numpy.isinf, lambda x: _test_floats("IsInf", x))
isfinite = ufunc(
    numpy.isfinite,
    lambda x: emit("Not", emit("Or", _test_floats("IsNaN", x), _test_floats("IsInf", x))),
)


def _test_floats(op: str, x: TracedArray) -> TracedArray:
    """Return emit(op, x) for floats; False for integers, which are never infinite or NaN."""
    return emit(op, x) if x.dtype.kind == "f" else not_equal(x, x)


def _extreme(op: str, logical: str) -> Body:
    def body(a: TracedArray, b: TracedArray) -> TracedArray:
        return emit(logical if is_bool(a) else op, a, b)

    return body


def _with_dims(choose: Callable[[ShapeEnv, list[Dim]], Dim], otherwise: Any) -> Any:
    def either(a: Any, b: Any) -> Any:
        x, y = plain_dim(a), plain_dim(b)
        if x is None or y is None or (isinstance(x, int) and isinstance(y, int)):
            return otherwise(a, b)
        return python_dim(choose(current_frame().recorder.env, [x, y]))

    either.__name__, either.__doc__ = otherwise.__name__, f"{otherwise.__doc__} Of dims a dim."
    return either


maximum = _with_dims(most, ufunc(numpy.maximum, _extreme("Max", "Or")))
minimum = _with_dims(least, ufunc(numpy.minimum, _extreme("Min", "And")))


@operation(numpy.clip)
def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """Apply NumPy's `clip`; each of the two limits may be None."""
    low, high = (a if b is None else b for a, b in ((a_min, min), (a_max, max)))
    limits = [n for n in (low, high) if n is not None]
    if plain_dim(x) is None and common_dtype([x, *limits]).kind == "f":
        dtype = common_dtype([x, *limits])
        lows, highs = (None if n is None else converted(n, dtype) for n in (low, high))
        if all(n is None or n.ndim == 0 for n in (lows, highs)):
            return _weakened(emit("Clip", converted(x, dtype), lows, highs), (x, *limits))
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Apply NumPy's `where`; with a condition alone, return the indices where it is true."""
    if x is None and y is None:
        return TracedArray.functions.nonzero(condition)
    return _where(condition, x, y)


@operation(numpy.where, "where", on_complex=complex_numbers.where)
def _where(condition: Any, x: Any, y: Any) -> Any:
    dtype = common_dtype([x, y])
    selected = emit("Where", converted(condition, "bool"), converted(x, dtype), converted(y, dtype))
    return _weakened(selected, (x, y))
