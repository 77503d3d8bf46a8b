"""Elementwise operators of one argument."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.ir.kernel import Apply, Const, Expr
from explorer.ir.scalar_functions import erf, sigmoid
from explorer.ir.types import DType, Tensor
from explorer.ops.lowering import Lowering
from explorer.ops.record import Array, Fold, OperatorRecord, Reference, Site, same_type, single

Body = Callable[[Site, Expr, DType], Expr]
F = Callable[..., Any]  # a scalar function by name: of expressions, or of arrays
SIXTH, CUBIC, INNER = single(1 / 6), single(0.044715), math.sqrt(single(2 / math.pi))
"""The numbers of HardSwish and Gelu, of float32 as ONNX writes their bodies."""


def call(op: str, *args: Expr | float, dtype: DType = "float32") -> Apply:
    """Return a scalar function call; numbers become constants of `dtype`."""
    return Apply(op, tuple(a if not isinstance(a, (int, float)) else Const(a, dtype) for a in args))


def snake_case(name: str) -> str:
    """Convert a name: GreaterOrEqual -> greater_or_equal, PRelu -> prelu, IsNaN -> is_nan."""
    return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", name).lower()


def _to_bool(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(site.shape(), "bool"),)


def unary(
    name: str,
    body: Body,
    reference: Reference,
    *,
    fold: Fold | None = None,
    to_bool: bool = False,
) -> OperatorRecord:
    """Return the record of an elementwise operator of one argument."""

    def lower(low: Lowering) -> None:
        nest, x = low.nest(snake_case(name)), low.site.arg(0)
        dtype = low.site.dtype()
        nest.map("y", low.result, lambda axes: body(low.site, nest.along(x, "x", axes), dtype))

    def deduce(site: Site) -> tuple[Tensor, ...]:
        if len(site.args) != 1:
            site.fail(f"one argument, and is given {len(site.args)}; attributes are keywords")
        return _to_bool(site) if to_bool else same_type(site)

    return OperatorRecord(name, "elementwise", deduce, reference, lower, fold)


def _plain(op: str) -> Body:
    return lambda site, x, dtype: call(op, x)


def _array(function: Callable[[Any], Any]) -> Reference:
    return lambda attrs, args: function(args[0])


def _simple(name: str, op: str, function: Callable[[Any], Any], **kind: Any) -> OperatorRecord:
    return unary(name, _plain(op), _array(function), **kind)


def of_expressions(dtype: DType) -> Callable[..., Apply]:
    """Return scalar functions of kernel expressions; numbers are of `dtype`."""
    return lambda op, *args: call(op, *args, dtype=dtype)


# Activations that recurrent layers have too: there `f` is also of arrays.


@dataclass(frozen=True, slots=True)
class ActivationRule:
    """A function of `f`, x, alpha and beta, and ONNX's defaults; None if it has no such number."""

    function: Callable[[F, Any, float, float], Any]
    alpha: float | None = None
    beta: float | None = None


def _log1p_exp(f: F, x: Any) -> Any:
    """Return log(1 + exp x)."""
    return f("add", f("max", x, 0.0), _log1p(f, f("exp", f("neg", f("abs", x)))))


def _log1p(f: F, x: Any) -> Any:
    """Return log(1 + x) for x of at least -1, accurate to the last digits.

    The rounding error of 1 + x is multiplied back (Higham 2002, Accuracy and Stability of Numerical
    Algorithms, problem 1.5).
    """
    near = f("add", x, 1.0)
    lost = f("eq", near, 1.0)
    back = f("where", lost, 1.0, f("sub", near, 1.0))
    return f("where", lost, x, f("div", f("mul", f("log", near), x), back))


ACTIVATIONS: Mapping[str, ActivationRule] = {  # by ONNX's name in lower case
    "relu": ActivationRule(lambda f, x, a, b: f("max", x, 0)),
    "tanh": ActivationRule(lambda f, x, a, b: f("tanh", x)),
    "sigmoid": ActivationRule(lambda f, x, a, b: f("sigmoid", x)),
    "softsign": ActivationRule(lambda f, x, a, b: f("div", x, f("add", f("abs", x), 1.0))),
    "softplus": ActivationRule(lambda f, x, a, b: _log1p_exp(f, x)),
    "affine": ActivationRule(lambda f, x, a, b: f("add", f("mul", x, a), b), 1.0, 0.0),
    "leakyrelu": ActivationRule(
        lambda f, x, a, b: f("where", f("le", x, 0), f("mul", x, a), x), 0.01
    ),
    "thresholdedrelu": ActivationRule(lambda f, x, a, b: f("where", f("gt", x, a), x, 0.0), 1.0),
    "scaledtanh": ActivationRule(
        lambda f, x, a, b: f("mul", f("tanh", f("mul", x, b)), a), 1.0, 1.0
    ),
    "hardsigmoid": ActivationRule(
        lambda f, x, a, b: f("max", f("min", f("add", f("mul", x, a), b), 1.0), 0.0), 0.2, 0.5
    ),
    "elu": ActivationRule(
        lambda f, x, a, b: f("where", f("le", x, 0), f("mul", f("sub", f("exp", x), 1.0), a), x),
        1.0,
    ),
}


def _activation(name: str) -> Body:
    rule = ACTIVATIONS[name]

    def body(site: Site, x: Expr, t: DType) -> Expr:
        alpha = 0.0 if rule.alpha is None else site.number("alpha", rule.alpha)
        beta = 0.0 if rule.beta is None else site.number("beta", rule.beta)
        activated: Expr = rule.function(of_expressions(t), x, alpha, beta)
        return activated

    return body


# Other activations with parameters: (kernel, reference) pairs that say the same.


def _selu(site: Site, x: Expr, t: DType) -> Expr:
    f = of_expressions(t)
    alpha = site.number("alpha", 1.67326319217681884765625)
    gamma = site.number("gamma", 1.05070102214813232421875)
    below = f("mul", f("sub", f("exp", x), 1.0), alpha)
    return f("mul", f("where", f("le", x, 0), below, x), gamma)


def _celu(site: Site, x: Expr, t: DType) -> Expr:
    f, alpha = of_expressions(t), site.number("alpha", 1.0)
    below = f("mul", f("sub", f("exp", f("div", x, alpha)), 1.0), alpha)
    return f("where", f("lt", x, 0), below, x)


def _hard_swish(site: Site, x: Expr, t: DType) -> Expr:
    f = of_expressions(t)
    return f("mul", x, f("max", f("min", f("add", f("mul", x, SIXTH), 0.5), 1.0), 0.0))


def _softplus(site: Site, x: Expr, t: DType) -> Expr:
    result: Expr = _log1p_exp(of_expressions(t), x)
    return result


def _mish(site: Site, x: Expr, t: DType) -> Expr:
    return call("mul", x, call("tanh", _softplus(site, x, t)))


def _swish(site: Site, x: Expr, t: DType) -> Expr:
    f, alpha = of_expressions(t), site.number("alpha", 1.0)
    return f("mul", x, f("sigmoid", x if alpha == 1 else f("mul", x, alpha)))


def _shrink(site: Site, x: Expr, t: DType) -> Expr:
    f, bias, limit = of_expressions(t), site.number("bias", 0.0), site.number("lambd", 0.5)
    above = f("where", f("gt", x, limit), f("sub", x, bias), 0.0)
    return f("where", f("lt", x, -limit), f("add", x, bias), above)


def _gelu(site: Site, x: Expr, t: DType) -> Expr:
    f = of_expressions(t)
    if site.text("approximate", "none") == "tanh":
        cube = f("mul", f("mul", x, x), x)
        inner = f("mul", f("add", x, f("mul", cube, CUBIC)), INNER)
        return f("mul", f("mul", x, 0.5), f("add", f("tanh", inner), 1.0))
    return f("mul", f("mul", x, 0.5), f("add", f("erf", f("mul", x, math.sqrt(0.5))), 1.0))


def _reciprocal(site: Site, x: Expr, t: DType) -> Expr:
    return call("div", Const(1.0, t), x)


def _tan(site: Site, x: Expr, t: DType) -> Expr:
    return call("div", call("sin", x), call("cos", x))


def _softplus_reference(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    if attrs.get("approximate") == "tanh":
        return 0.5 * x * (1 + np.tanh(INNER * (x + CUBIC * x**3)))
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def _selu_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    alpha = attrs.get("alpha", 1.67326319217681884765625)
    gamma = attrs.get("gamma", 1.05070102214813232421875)
    return np.where(args[0] > 0, args[0], alpha * np.expm1(args[0])) * gamma


def _shrink_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, bias, limit = args[0], attrs.get("bias", 0.0), attrs.get("lambd", 0.5)
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, 0)).astype(x.dtype)


def _is_infinite(site: Site, x: Expr, t: DType) -> Expr:
    up, down = site.integer("detect_positive", 1), site.integer("detect_negative", 1)
    if up and down:
        return call("isinf", x)
    sign = call("gt" if up else "lt", x, 0.0, dtype=t)
    return call("and", call("isinf", x), sign) if up or down else Const(False, "bool")


def _is_infinite_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x = args[0]
    up, down = attrs.get("detect_positive", 1), attrs.get("detect_negative", 1)
    return (np.isposinf(x) & bool(up)) | (np.isneginf(x) & bool(down))


def _fold_each(function: Callable[[Any], Any]) -> Fold:
    def fold(site: Site) -> tuple[Array | None, ...]:
        elements = site.values[0]
        return (None if elements is None else np.vectorize(function, otypes=[object])(elements),)

    return fold


# Identities: nothing is computed.


def _forward(low: Lowering) -> None:
    low.view(low.result, low.site.arg(0))
    if len(low.results) > 1 and low.is_read(low.results[1].name):
        nest = low.nest("ones")
        nest.map("y", low.results[1], lambda axes: Const(True, "bool"))


def _dropout_types(site: Site) -> tuple[Tensor, ...]:
    if site.has(2) and (site.values[2] is None or np.any(site.values[2].astype(bool))):
        site.unsupported("dropping at random, in training, has no kernel rule")
    return (site.tensor(0), Tensor(site.shape(), "bool"))[: site.results]


def _dropout(attrs: Mapping[str, Any], args: Any) -> Any:
    if len(args) > 2 and args[2] is not None and np.any(args[2]):
        raise UnsupportedOperator("dropping at random, in training, has no reference")
    return args[0], np.ones(args[0].shape, np.bool_)


RECORDS = (
    # activations
    unary("Relu", _activation("relu"), _array(lambda x: np.maximum(x, x.dtype.type(0)))),
    unary(
        "LeakyRelu",
        _activation("leakyrelu"),
        lambda a, v: np.where(
            v[0] < 0, v[0] * np.asarray(a.get("alpha", single(0.01)), v[0].dtype), v[0]
        ),
    ),
    unary(
        "Elu",
        _activation("elu"),
        lambda a, v: np.where(v[0] < 0, a.get("alpha", 1.0) * np.expm1(v[0]), v[0]),
    ),
    unary("Selu", _selu, _selu_reference),
    unary(
        "Celu",
        _celu,
        lambda a, v: (
            np.maximum(v[0], 0)
            + np.minimum(0, a.get("alpha", 1.0) * np.expm1(v[0] / a.get("alpha", 1.0)))
        ),
    ),
    unary(
        "HardSigmoid",
        _activation("hardsigmoid"),
        lambda a, v: np.clip(v[0] * a.get("alpha", single(0.2)) + a.get("beta", 0.5), 0, 1),
    ),
    unary("HardSwish", _hard_swish, _array(lambda x: x * np.clip(x * SIXTH + 0.5, 0, 1))),
    unary("Softplus", _softplus, _array(_softplus_reference)),
    unary("Softsign", _activation("softsign"), _array(lambda x: x / (1 + np.abs(x)))),
    unary("Mish", _mish, _array(lambda x: x * np.tanh(_softplus_reference(x)))),
    unary(
        "Swish", _swish, lambda a, v: v[0] * sigmoid(v[0] * v[0].dtype.type(a.get("alpha", 1.0)))
    ),
    unary(
        "ThresholdedRelu",
        _activation("thresholdedrelu"),
        lambda a, v: np.where(v[0] > a.get("alpha", 1.0), v[0], v[0].dtype.type(0)),
    ),
    unary("Shrink", _shrink, _shrink_reference),
    unary("Gelu", _gelu, _gelu_reference),
    _simple("Sigmoid", "sigmoid", sigmoid),
    _simple("Tanh", "tanh", np.tanh),
    # arithmetic
    _simple("Abs", "abs", np.abs, fold=_fold_each(abs)),
    _simple("Neg", "neg", np.negative, fold=_fold_each(lambda v: -v)),
    _simple("Exp", "exp", np.exp),
    _simple("Log", "log", np.log),
    _simple("Sqrt", "sqrt", np.sqrt),
    _simple("Erf", "erf", erf),
    _simple("Sin", "sin", np.sin),
    _simple("Cos", "cos", np.cos),
    _simple("Floor", "floor", np.floor),
    _simple("Ceil", "ceil", np.ceil),
    _simple("Round", "round", np.rint),
    _simple("Sign", "sign", np.sign),
    unary("Reciprocal", _reciprocal, _array(np.reciprocal)),
    unary("Tan", _tan, _array(np.tan)),
    _simple("Acos", "acos", np.arccos),
    _simple("Asin", "asin", np.arcsin),
    _simple("Atan", "atan", np.arctan),
    _simple("Cosh", "cosh", np.cosh),
    _simple("Sinh", "sinh", np.sinh),
    _simple("Acosh", "acosh", np.arccosh),
    _simple("Asinh", "asinh", np.arcsinh),
    _simple("Atanh", "atanh", np.arctanh),
    # predicates
    _simple("Not", "not", np.logical_not, fold=_fold_each(lambda v: not v)),
    _simple("IsNaN", "isnan", np.isnan, to_bool=True),
    unary("IsInf", _is_infinite, _is_infinite_reference, to_bool=True),
    # conversions
    OperatorRecord(
        "Identity",
        "layout",
        same_type,
        _array(lambda x: x),
        _forward,
        lambda site: (site.values[0],),
    ),
    OperatorRecord(  # our own: a value that no gradient goes through
        "StopGradient",
        "layout",
        same_type,
        _array(lambda x: x),
        _forward,
        lambda site: (site.values[0],),
    ),
    OperatorRecord(
        "Dropout",
        "layout",
        _dropout_types,
        _dropout,
        _forward,
    ),
)
