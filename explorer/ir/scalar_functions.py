"""The scalar functions of kernels, one record each in `RECORDS`: meaning, derivative and cost.

A function that is no composition of others also needs its form in
`codegen.cpu.vector_math.ELEMENTARY`, and its names in that module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.dtypes import NARROW_FLOATS, DType, is_float, is_integer

Value = Any  # an array or a NumPy scalar
Rule = Callable[..., tuple[Any, ...]]
VECTOR_DTYPES = ("float32", "float64", "int32", "int64", "bool")


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """One scalar function.

    `takes` are the dtypes of its arguments, all the same: "number" (any that is computed with as it
    is stored), "signed" (the same without bool), "float", "integer", "bool" or "any". `gives` is
    "same" or "bool".

    `numpy` is its meaning on arrays. `derivative(f, y, *x)` returns the partial derivatives by each
    argument, in plain arithmetic and `f(name, ...)`, where `y` is the result; None where it is
    flat or has none. `made_of(f, *x)` is the function composed of others, for code generators
    without a form of their own; there `f(name, ...)` takes plain numbers beside values.

    `cycles` is the cost of a vector of sixteen float32, 0 where it is one instruction. `vectors`
    are the dtypes, as in `takes`, for which the CPU has a vector form. `ulp` are the largest
    errors of our own form in float32 and float64, in units in the last place; 0 where the
    processor's is used.
    """

    name: str
    takes: str
    arity: int
    numpy: Callable[..., Value]
    gives: str = "same"
    derivative: Rule | None = None
    decompose: Callable[..., Any] | None = None
    cycles: float = 0.0
    vectors: str = ""
    ulp: tuple[float, float] = (0.0, 0.0)

    def is_defined_on(self, dtype: DType) -> bool:
        """Return True if the arguments may have a dtype."""
        return _is_one_of(self.takes, dtype)

    def has_vectors_of(self, dtype: DType) -> bool:
        """Return True if the CPU computes it on vectors of a dtype."""
        return dtype in VECTOR_DTYPES and _is_one_of(self.vectors, dtype)


def _is_one_of(kind: str, dtype: DType) -> bool:
    match kind:
        case "any":
            return True
        case "number":
            return dtype not in NARROW_FLOATS
        case "signed":
            return dtype not in NARROW_FLOATS and dtype != "bool"
        case "float":
            return is_float(dtype) and dtype not in NARROW_FLOATS
        case "integer":
            return is_integer(dtype)
    return dtype == kind


# Reference implementations that NumPy lacks.

_erf_each = np.frompyfunc(math.erf, 1, 1)


def erf(x: Value) -> Value:
    """Return the error function, rounded once from double precision."""
    x = np.asarray(x)
    return np.asarray(_erf_each(x.astype(np.float64)), np.float64).astype(x.dtype)


def sigmoid(x: Value) -> Value:
    """Return `1 / (1 + exp(-x))` without overflow for large |x|."""
    x = np.asarray(x)
    small = np.exp(-np.abs(x))
    return (np.where(x >= 0, x.dtype.type(1), small) / (1 + small)).astype(x.dtype, copy=False)


def divide(a: Value, b: Value) -> Value:
    """Return `a / b`; on integers rounded towards zero, as in ONNX and C, and 0 where `b` is 0."""
    kind = np.result_type(a, b)
    if not np.issubdtype(kind, np.integer):
        return np.divide(a, b)
    down = np.floor_divide(a, b)
    uneven = (np.asarray(a) < 0) != (np.asarray(b) < 0)
    return down + ((down * b != a) & uneven & (np.asarray(b) != 0)).astype(kind)


def power(x: Value, by: Value) -> Value:
    """Return `x ** by`; on integers 1 / x ** -by, rounded towards zero, for a negative `by`."""
    if np.result_type(x).kind not in "iu":
        return np.power(x, by)
    down = np.where(np.abs(x) == 1, np.where(np.asarray(by) % 2 == 0, 1, x), 0)
    return np.where(by < 0, down, np.power(x, np.maximum(by, 0))).astype(x.dtype)


def shift_left(x: Value, by: Value) -> Value:
    """Shift bits up; the result is 0 if the distance is negative or at least the width."""
    width = 8 * np.asarray(x).dtype.itemsize
    inside = (by >= 0) & (by < width)
    return np.where(inside, np.left_shift(x, np.where(inside, by, 0).astype(x.dtype)), 0).astype(
        x.dtype
    )


def shift_right(x: Value, by: Value) -> Value:
    """Shift bits down; the sign bit fills the result if the distance is too large."""
    width = 8 * np.asarray(x).dtype.itemsize
    inside = (by >= 0) & (by < width)
    gone = np.where(x < 0, -1, 0) if np.issubdtype(x.dtype, np.signedinteger) else 0
    moved = np.right_shift(x, np.where(inside, by, 0).astype(x.dtype))
    return np.where(inside, moved, gone).astype(x.dtype)


# Longer derivatives. Ties of max and min share the gradient, as in PyTorch.


def _by_power(f: Any, y: Any, x: Any, by: Any) -> tuple[Any, ...]:
    flat = f("and", f("eq", x, 0.0), f("ge", by, 0.0))  # 0 ** by is constant in by
    logarithm = f("where", flat, 0.0, f("log", x))
    return f("where", f("eq", by, 0.0), 0.0, by * f("pow", x, by - 1.0)), y * logarithm


def _extremum_derivative(passes: str) -> Rule:
    """Return the derivative rule of max or min.

    `passes(a, b)` is true where the result is the other argument.
    """

    def rule(f: Any, y: Any, a: Any, b: Any) -> tuple[Any, ...]:
        share = f("where", f("eq", a, b), 0.5, 1.0)
        return f("where", f(passes, a, b), 0.0, share), f("where", f(passes, b, a), 0.0, share)

    return rule


def _unary(name: str, numpy: Callable[..., Value], **more: Any) -> ScalarFunction:
    return ScalarFunction(name, "float", 1, numpy, **{"cycles": 4.0, **more})


def _pair(name: str, numpy: Callable[..., Value], **more: Any) -> ScalarFunction:
    return ScalarFunction(name, "number", 2, numpy, **more)


def _signed(name: str, numpy: Callable[..., Value], **more: Any) -> ScalarFunction:
    return ScalarFunction(name, "signed", 2, numpy, **more)


def _ordered(name: str, numpy: Callable[..., Value], vectors: str = "signed") -> ScalarFunction:
    return ScalarFunction(name, "any", 2, numpy, "bool", vectors=vectors)


def _bits(name: str, numpy: Callable[..., Value], arity: int = 2) -> ScalarFunction:
    return ScalarFunction(name, "integer", arity, numpy)


RECORDS: tuple[ScalarFunction, ...] = (
    _pair("add", np.add, derivative=lambda f, y, a, b: (1.0, 1.0), vectors="signed"),
    _signed("sub", np.subtract, derivative=lambda f, y, a, b: (1.0, -1.0), vectors="signed"),
    _pair("mul", np.multiply, derivative=lambda f, y, a, b: (b, a), vectors="signed"),
    _signed(
        "div",
        divide,
        derivative=lambda f, y, a, b: (1.0 / b, -y / b),
        cycles=4.0,
        vectors="float",
    ),
    _signed("floordiv", np.floor_divide),
    _signed("mod", np.mod, derivative=lambda f, y, a, b: (1.0, -f("floor", a / b))),
    _signed("pow", power, derivative=_by_power, cycles=30.0, vectors="float32"),
    _pair("max", np.maximum, derivative=_extremum_derivative("lt"), vectors="signed"),
    _pair("min", np.minimum, derivative=_extremum_derivative("gt"), vectors="signed"),
    ScalarFunction(
        "neg", "signed", 1, np.negative, derivative=lambda f, y, x: (-1.0,), vectors="signed"
    ),
    ScalarFunction(
        "abs", "signed", 1, np.abs, derivative=lambda f, y, x: (f("sign", x),), vectors="float"
    ),
    ScalarFunction("sign", "signed", 1, np.sign, cycles=4.0, vectors="float"),
    _unary(
        "exp",
        np.exp,
        derivative=lambda f, y, x: (y,),
        cycles=8.0,
        vectors="float",
        ulp=(0.9, 1.0),
    ),
    _unary(
        "log",
        np.log,
        derivative=lambda f, y, x: (1.0 / x,),
        cycles=12.0,
        vectors="float",
        ulp=(0.8, 1.0),
    ),
    _unary("sqrt", np.sqrt, derivative=lambda f, y, x: (0.5 / y,), vectors="float"),
    _unary(
        "tanh",
        np.tanh,
        derivative=lambda f, y, x: (1.0 - y * y,),
        cycles=14.0,
        vectors="float",
        ulp=(5.2, 2.0),
    ),
    _unary(
        "erf",
        erf,
        derivative=lambda f, y, x: (2.0 / math.sqrt(math.pi) * f("exp", -x * x),),
        cycles=12.0,
        vectors="float",
        ulp=(6.6, 2.6),
    ),
    _unary(
        "sigmoid",
        sigmoid,
        derivative=lambda f, y, x: (y * (1.0 - y),),
        cycles=10.0,
        vectors="float",
        ulp=(2.3, 2.0),
    ),
    _unary("sin", np.sin, derivative=lambda f, y, x: (f("cos", x),), cycles=40.0),
    _unary("cos", np.cos, derivative=lambda f, y, x: (-f("sin", x),), cycles=40.0),
    _unary("asin", np.arcsin, derivative=lambda f, y, x: (1.0 / f("sqrt", 1.0 - x * x),)),
    _unary("acos", np.arccos, derivative=lambda f, y, x: (-1.0 / f("sqrt", 1.0 - x * x),)),
    _unary("atan", np.arctan, derivative=lambda f, y, x: (1.0 / (1.0 + x * x),)),
    _unary("sinh", np.sinh, derivative=lambda f, y, x: (f("cosh", x),)),
    _unary("cosh", np.cosh, derivative=lambda f, y, x: (f("sinh", x),)),
    _unary("asinh", np.arcsinh, derivative=lambda f, y, x: (1.0 / f("sqrt", x * x + 1.0),)),
    _unary("acosh", np.arccosh, derivative=lambda f, y, x: (1.0 / f("sqrt", x * x - 1.0),)),
    _unary("atanh", np.arctanh, derivative=lambda f, y, x: (1.0 / (1.0 - x * x),)),
    _unary("floor", np.floor, vectors="float"),
    _unary("ceil", np.ceil, vectors="float"),
    _unary("round", np.rint, vectors="float"),
    _ordered("eq", np.equal, "any"),
    _ordered("ne", np.not_equal, "any"),
    ScalarFunction(  # the same as "eq": whether an element of a scatter goes to this result
        "lands",
        "integer",
        2,
        np.equal,
        "bool",
        decompose=lambda f, place, here: f("eq", place, here),
    ),
    _ordered("lt", np.less),
    _ordered("le", np.less_equal),
    _ordered("gt", np.greater),
    _ordered("ge", np.greater_equal),
    ScalarFunction("isnan", "float", 1, np.isnan, "bool", vectors="float"),
    ScalarFunction(
        "isinf",
        "float",
        1,
        np.isinf,
        "bool",
        decompose=lambda f, x: f("eq", f("abs", x), math.inf),
        vectors="float",
    ),
    ScalarFunction("and", "bool", 2, np.logical_and, "bool", vectors="any"),
    ScalarFunction("or", "bool", 2, np.logical_or, "bool", vectors="any"),
    ScalarFunction("xor", "bool", 2, np.logical_xor, "bool", vectors="any"),
    ScalarFunction("not", "bool", 1, np.logical_not, "bool", vectors="any"),
    ScalarFunction(
        "where",
        "any",
        3,
        np.where,
        derivative=lambda f, y, c, a, b: (None, f("where", c, 1.0, 0.0), f("where", c, 0.0, 1.0)),
        vectors="any",
    ),
    _bits("bitand", np.bitwise_and),
    _bits("bitor", np.bitwise_or),
    _bits("bitxor", np.bitwise_xor),
    _bits("bitnot", np.bitwise_not, 1),
    _bits("shl", shift_left),
    _bits("shr", shift_right),
)
SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {r.name: r for r in RECORDS}
CONVERSIONS = ("cast_", "bits_")  # followed by the dtype of the result


def dtype_of_result(op: str, dtype_of: Callable[[int], DType]) -> DType:
    """Return the dtype of a scalar function's result; `dtype_of(n)` is that of argument n."""
    if op.startswith(CONVERSIONS):
        return op[5:]
    if SCALAR_FUNCTIONS[op].gives == "bool":
        return "bool"
    return dtype_of(1 if op == "where" else 0)


def cycles_of(op: str) -> float:
    """Return the cycles beyond one instruction, for a vector of sixteen float32.

    Conversions are one instruction.
    """
    return 0.0 if op.startswith(CONVERSIONS) else SCALAR_FUNCTIONS[op].cycles


def returns_bool(op: str) -> bool:
    """Return True if the result is a bool, whatever the dtype of the arguments."""
    return not op.startswith(CONVERSIONS) and SCALAR_FUNCTIONS[op].gives == "bool"
