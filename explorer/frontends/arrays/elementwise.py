"""Functions of NumPy that act on each element, with broadcasting and NumPy's dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from explorer.errors import DtypeError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import plain_dim, python_dim
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import common_dtype, converted, is_weak, kind_of, traced
from explorer.frontends.tracing.recorder import current_frame
from explorer.ir.dims import Dim, ShapeEnv
from explorer.ops.dim_arithmetic import least, most
from explorer.ops.scalar import erf as erf_of_arrays

Body = Callable[..., TracedArray]


def loop_dtypes(ufunc: Any, values: tuple[Any, ...]) -> tuple[list[Any], Any]:
    """The dtypes that NumPy's function would work in, and that of its result."""
    kinds = [kind_of(v) for v in values]
    if all(k is int or k is float for k in kinds):  # numbers alone
        kinds = [numpy.dtype(k) for k in kinds]
    try:
        *given, result = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))
    except TypeError as error:
        raise DtypeError(
            f"{calling_line()}: {ufunc.__name__} has no meaning on "
            f"{' and '.join(str(kind_of(v)) for v in values)}",
            where=calling_line(),
        ) from error
    if len(set(given)) > 1:
        given = [numpy.result_type(*given)] * len(given)
    return given, result


def ufunc(of: Any, body: str | Body) -> Callable[..., Any]:
    """NumPy's function `of`; on traced values an operator, or what `body` makes of them."""

    def record(*values: Any) -> Any:
        dtypes, result = loop_dtypes(of, values)
        args = [converted(v, t) for v, t in zip(values, dtypes, strict=True)]
        found = emit(body, *args) if isinstance(body, str) else body(*args)
        made = converted(found, result)
        return weakened(made, values)

    record.__name__, record.__doc__ = of.__name__, f"NumPy's `{of.__name__}`."
    return operation(of)(record)


def weakened(array: TracedArray, values: tuple[Any, ...]) -> TracedArray:
    """What is made of Python numbers alone stands for one."""
    weak = array.ndim == 0 and all(is_weak(v) for v in values)
    return TracedArray(array.value, array.home, weak=True) if weak else array


def _number(value: float, like: TracedArray) -> TracedArray:
    return converted(value, like.dtype)


def _is_bool(x: TracedArray) -> bool:
    return x.dtype.kind == "b"


def _on_bools(logical: str, otherwise: str) -> Body:
    """Arithmetic of bools is logic."""
    return lambda a, b: emit(logical if _is_bool(a) else otherwise, a, b)


def _whole(op: str) -> Body:
    """Rounding leaves integers as they are."""
    return lambda x: x if x.dtype.kind in "iub" else emit(op, x)


def _alone(op: str) -> Body:
    """An operator of one argument that may have no record."""
    return lambda x: emit(op, x, types=[x.type])


def _compare(op: str) -> Body:
    def body(a: TracedArray, b: TracedArray) -> TracedArray:
        if _is_bool(a):
            a, b = converted(a, "int32"), converted(b, "int32")
        found: TracedArray = emit(op, a, b)
        return found

    return body


# Arithmetic.


def _negative(x: TracedArray) -> TracedArray:
    unsigned = x.dtype.kind == "u"
    found: TracedArray = emit("Sub", _number(0, x), x) if unsigned else emit("Neg", x)
    return found


def _floor_divide(a: TracedArray, b: TracedArray) -> TracedArray:
    """Down, as Python does; a float's remainder is taken off first, as in C's fmod."""
    rest = emit("Mod", a, b)
    whole: TracedArray = emit("Div", emit("Sub", a, rest), b)
    if a.dtype.kind in "iu":
        return whole
    by_zero = emit("Equal", b, _number(0, b))
    endless = emit("And", emit("IsInf", b), emit("Not", emit("IsInf", a)))
    opposed = emit("Less", emit("Mul", emit("Sign", a), emit("Sign", b)), _number(0, a))
    towards = where(opposed, _number(-1, a), _number(0, a))
    towards = where(emit("IsNaN", a), a, towards)
    plain = where(endless, towards, emit("Round", whole))
    found: TracedArray = where(by_zero, emit("Div", a, b), plain)
    return found


def _trunc(x: TracedArray) -> TracedArray:
    if x.dtype.kind in "iub":
        return x
    below = emit("Less", x, _number(0, x))
    found: TracedArray = emit("Where", below, emit("Ceil", x), emit("Floor", x))
    return found


def _absolute(x: TracedArray) -> TracedArray:
    found: TracedArray = x if x.dtype.kind in "ub" else emit("Abs", x)
    return found


def _scaled(op: str, factor: float, *, after: bool = False) -> Body:
    def body(x: TracedArray) -> TracedArray:
        by = _number(factor, x)
        found: TracedArray = emit("Mul", emit(op, x), by) if after else emit(op, emit("Mul", x, by))
        return found

    return body


def _expm1(x: TracedArray) -> TracedArray:
    """(e - 1) x / log e with e = exp x: exact near 0 (Kahan)."""
    e, one = emit("Exp", x), _number(1, x)
    less = emit("Sub", e, one)
    near = emit("Div", emit("Mul", less, x), emit("Log", e))
    tiny, far = emit("Equal", e, one), emit("Greater", emit("Abs", x), one)
    found: TracedArray = where(tiny, x, where(far, less, near))
    return found


def _log1p(x: TracedArray) -> TracedArray:
    """x log u / (u - 1) with u = 1 + x: exact near 0 (Kahan)."""
    one = _number(1, x)
    u = emit("Add", x, one)
    log = emit("Log", u)
    near = emit("Div", emit("Mul", log, x), emit("Sub", u, one))
    tiny, far = emit("Equal", u, one), emit("Greater", emit("Abs", x), one)
    found: TracedArray = where(tiny, x, where(far, log, near))
    return found


def _hypot(a: TracedArray, b: TracedArray) -> TracedArray:
    """The greater one is taken out, so that nothing overflows."""
    a, b = emit("Abs", a), emit("Abs", b)
    top, low = emit("Max", a, b), emit("Min", a, b)
    endless = emit("Or", emit("IsInf", a), emit("IsInf", b))
    ratio = emit("Div", low, where(emit("Equal", top, _number(0, a)), _number(1, a), top))
    root = emit("Sqrt", emit("Add", emit("Mul", ratio, ratio), _number(1, a)))
    found: TracedArray = where(endless, _number(math.inf, a), emit("Mul", top, root))
    return found


add = ufunc(numpy.add, _on_bools("Or", "Add"))
subtract = ufunc(numpy.subtract, "Sub")
multiply = ufunc(numpy.multiply, _on_bools("And", "Mul"))
divide = true_divide = ufunc(numpy.divide, "Div")
floor_divide = ufunc(numpy.floor_divide, _floor_divide)
remainder = mod = ufunc(numpy.remainder, "Mod")
fmod = ufunc(numpy.fmod, lambda a, b: emit("Mod", a, b, fmod=1))
power = ufunc(numpy.power, "Pow")
negative = ufunc(numpy.negative, _negative)
positive = ufunc(numpy.positive, lambda x: x)
absolute = abs = ufunc(numpy.absolute, _absolute)
sign = ufunc(numpy.sign, "Sign")
square = ufunc(numpy.square, lambda x: emit("Mul", x, x))
sqrt = ufunc(numpy.sqrt, "Sqrt")
reciprocal = ufunc(numpy.reciprocal, lambda x: emit("Div", _number(1, x), x))
hypot = ufunc(numpy.hypot, _hypot)

# Exponentials and trigonometry.

exp = ufunc(numpy.exp, "Exp")
exp2 = ufunc(numpy.exp2, lambda x: emit("Pow", _number(2, x), x))
expm1 = ufunc(numpy.expm1, _expm1)
log = ufunc(numpy.log, "Log")
log2 = ufunc(numpy.log2, _scaled("Log", 1 / math.log(2), after=True))
log10 = ufunc(numpy.log10, _scaled("Log", 1 / math.log(10), after=True))
log1p = ufunc(numpy.log1p, _log1p)
sin = ufunc(numpy.sin, "Sin")
cos = ufunc(numpy.cos, "Cos")
tan = ufunc(numpy.tan, "Tan")
tanh = ufunc(numpy.tanh, "Tanh")
sinh = ufunc(numpy.sinh, _alone("Sinh"))
cosh = ufunc(numpy.cosh, _alone("Cosh"))
arcsin = asin = ufunc(numpy.arcsin, _alone("Asin"))
arccos = acos = ufunc(numpy.arccos, _alone("Acos"))
arctan = atan = ufunc(numpy.arctan, _alone("Atan"))
arcsinh = asinh = ufunc(numpy.arcsinh, _alone("Asinh"))
arccosh = acosh = ufunc(numpy.arccosh, _alone("Acosh"))
arctanh = atanh = ufunc(numpy.arctanh, _alone("Atanh"))

# Rounding.

floor = ufunc(numpy.floor, _whole("Floor"))
ceil = ufunc(numpy.ceil, _whole("Ceil"))
rint = ufunc(numpy.rint, _whole("Round"))
trunc = ufunc(numpy.trunc, _trunc)


@operation(numpy.round)
def round(x: Any, decimals: int = 0) -> Any:
    """NumPy's `round`: to the nearest, half to even."""
    if not decimals:
        return rint(x) if traced(x).dtype.kind == "f" else x
    scale = 10.0**decimals
    return divide(rint(multiply(x, scale)), scale)


# Comparisons and logic.

equal = ufunc(numpy.equal, "Equal")
not_equal = ufunc(numpy.not_equal, lambda a, b: emit("Not", emit("Equal", a, b)))
less = ufunc(numpy.less, _compare("Less"))
less_equal = ufunc(numpy.less_equal, _compare("LessOrEqual"))
greater = ufunc(numpy.greater, _compare("Greater"))
greater_equal = ufunc(numpy.greater_equal, _compare("GreaterOrEqual"))
logical_and = ufunc(numpy.logical_and, lambda a, b: emit("And", *_truths(a, b)))
logical_or = ufunc(numpy.logical_or, lambda a, b: emit("Or", *_truths(a, b)))
logical_xor = ufunc(numpy.logical_xor, lambda a, b: emit("Xor", *_truths(a, b)))
logical_not = ufunc(numpy.logical_not, lambda x: emit("Not", *_truths(x)))


def _truths(*values: TracedArray) -> list[TracedArray]:
    return [converted(v, "bool") for v in values]


def _bitwise(logical: str, op: str) -> Body:
    def body(*args: TracedArray) -> TracedArray:
        if all(map(_is_bool, args)):
            found: TracedArray = emit(logical, *args)
            return found
        like = (
            args[0].type if len(args) == 1 else emit("Add", *args).type
        )  # dead, but for its shape
        made: TracedArray = emit(op, *args, types=[like])
        return made

    return body


bitwise_and = ufunc(numpy.bitwise_and, _bitwise("And", "BitwiseAnd"))
bitwise_or = ufunc(numpy.bitwise_or, _bitwise("Or", "BitwiseOr"))
bitwise_xor = ufunc(numpy.bitwise_xor, _bitwise("Xor", "BitwiseXor"))
invert = bitwise_not = ufunc(numpy.invert, _bitwise("Not", "BitwiseNot"))
isnan = ufunc(numpy.isnan, lambda x: _only_floats("IsNaN", x))
isinf = ufunc(numpy.isinf, lambda x: _only_floats("IsInf", x))
isfinite = ufunc(
    numpy.isfinite,
    lambda x: emit("Not", emit("Or", _only_floats("IsNaN", x), _only_floats("IsInf", x))),
)


def _only_floats(op: str, x: TracedArray) -> TracedArray:
    """No integer is infinite or not a number."""
    found: TracedArray = emit(op, x) if x.dtype.kind == "f" else not_equal(x, x)
    return found


# Choices.


def _extreme(op: str, logical: str) -> Body:
    def body(a: TracedArray, b: TracedArray) -> TracedArray:
        found: TracedArray = emit(logical if _is_bool(a) else op, a, b)
        return found

    return body


def _on_dims(choose: Callable[[ShapeEnv, list[Dim]], Dim], otherwise: Any) -> Any:
    def either(a: Any, b: Any) -> Any:
        x, y = plain_dim(a), plain_dim(b)
        if x is None or y is None or (isinstance(x, int) and isinstance(y, int)):
            return otherwise(a, b)
        return python_dim(choose(current_frame().recorder.env, [x, y]))

    either.__name__, either.__doc__ = otherwise.__name__, f"{otherwise.__doc__} Of dims a dim."
    return either


maximum = _on_dims(most, ufunc(numpy.maximum, _extreme("Max", "Or")))
minimum = _on_dims(least, ufunc(numpy.minimum, _extreme("Min", "And")))


@operation(numpy.clip)
def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """NumPy's `clip`: between two limits, each of which may be None."""
    low, high = (a if b is None else b for a, b in ((a_min, min), (a_max, max)))
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """NumPy's `where`: x where the condition holds, else y; of the condition alone its places."""
    if x is None and y is None:
        return TracedArray.functions.nonzero(condition)
    return _where(condition, x, y)


@operation(numpy.where, "where")
def _where(condition: Any, x: Any, y: Any) -> Any:
    dtype = common_dtype([x, y])
    found = emit("Where", converted(condition, "bool"), converted(x, dtype), converted(y, dtype))
    return weakened(found, (x, y))


@operation(lambda x: erf_of_arrays(numpy.asarray(x)))
def erf(x: Any) -> Any:
    """The error function, of floats."""
    found = traced(x)
    return emit("Erf", found if found.dtype.kind == "f" else converted(found, "float64"))


@operation(lambda x, dtype, copy=True: numpy.asarray(x).astype(dtype, copy=copy))
def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """The same values with another dtype; a traced array is never changed, copied or not."""
    return converted(x, dtype)
