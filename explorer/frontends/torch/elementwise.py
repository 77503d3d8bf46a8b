"""ATen's elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from onnx import helper

from explorer.frontends.python import arrays as np
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.torch.call import OperatorCall, numpy_name
from explorer.ir.dtypes import is_float, ml_dtypes

Handler = Callable[..., Any]


def _record(op: str, **attrs: Any) -> Handler:
    """Return a handler that emits one operator in the result's dtype."""
    return lambda call, x: emit(op, call.cast(x), **attrs)


def _unary(function: Handler) -> Handler:
    return lambda call, x: function(call.cast(x))


def _binary(function: Handler) -> Handler:
    return lambda call, a, b: function(call.cast(a), call.cast(b))


def _comparison(function: Handler) -> Handler:
    return lambda call, a, b: function(*call.promote(a, b))


def _logic(function: Handler) -> Handler:
    return lambda call, *values: function(*(converted(v, "bool") for v in values))


def _on_floats(function: Handler) -> Handler:
    """Return a handler of rounding, which leaves integers as they are."""
    return lambda call, x: function(call.cast(x)) if call.is_float else call.cast(x)


def like(value: float, x: TracedArray) -> TracedArray:
    """Return a number in the dtype of an array."""
    return converted(value, x.dtype)


def is_floats(x: TracedArray) -> bool:
    """Return True for an array of floats, including narrow ones."""
    return is_float(x.type.element)


def is_nan(x: TracedArray) -> TracedArray:
    """Return a mask of the NaNs."""
    return emit("IsNaN", x) if is_floats(x) else _all_false(x)


def is_inf(x: TracedArray) -> TracedArray:
    """Return a mask of the infinite elements."""
    return emit("IsInf", x) if is_floats(x) else _all_false(x)


def _all_false(x: TracedArray) -> TracedArray:
    nowhere: TracedArray = np.not_equal(x, x)
    return nowhere


# Arithmetic.


def _add(call: OperatorCall, a: Any, b: Any, alpha: Any = 1) -> Any:
    return np.add(call.cast(a), _scale(call, b, alpha))


def _sub(call: OperatorCall, a: Any, b: Any, alpha: Any = 1) -> Any:
    return np.subtract(call.cast(a), _scale(call, b, alpha))


def _rsub(call: OperatorCall, a: Any, b: Any, alpha: Any = 1) -> Any:
    return np.subtract(call.cast(b), _scale(call, a, alpha))


def _scale(call: OperatorCall, x: Any, factor: Any) -> Any:
    array = call.cast(x)
    return array if _is_one(factor) else np.multiply(array, call.cast(factor))


def _is_one(factor: Any) -> bool:
    return isinstance(factor, (int, float)) and factor == 1


def _div(call: OperatorCall, a: Any, b: Any, mode: str | None = None) -> Any:
    x, y = call.cast(a), call.cast(b)
    match mode:
        case None:
            return np.divide(x, y)
        case "floor":
            return np.floor_divide(x, y)
        case _:
            if call.is_float:
                return np.trunc(np.divide(x, y))
            return emit("Div", np.subtract(x, np.fmod(x, y)), y)


def _floor_divide(call: OperatorCall, a: Any, b: Any) -> Any:
    return _div(call, a, b, "floor")


def _pow(call: OperatorCall, a: Any, b: Any) -> Any:
    base, exponent = call.cast(a), call.cast(b)
    if isinstance(b, (int, float)) and b in (0.5, 1, 2, -1) and (call.is_float or b > 0):
        match float(b):
            case 0.5:
                return np.sqrt(base)
            case 1.0:
                return base
            case 2.0:
                return np.multiply(base, base)
            case _:
                return np.reciprocal(base)
    return emit("Pow", base, exponent)


def _fmax(call: OperatorCall, a: Any, b: Any) -> Any:
    return _ignore_nan(np.maximum, call.cast(a), call.cast(b))


def _fmin(call: OperatorCall, a: Any, b: Any) -> Any:
    return _ignore_nan(np.minimum, call.cast(a), call.cast(b))


def _ignore_nan(choose: Handler, x: TracedArray, y: TracedArray) -> Any:
    """Choose between two numbers, ignoring a NaN."""
    chosen = np.where(is_nan(y), x, choose(x, y))
    return np.where(is_nan(x), y, chosen)


def _addcmul(call: OperatorCall, x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    product = np.multiply(call.cast(a), call.cast(b))
    return np.add(call.cast(x), _scale(call, product, value))


def _addcdiv(call: OperatorCall, x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return np.add(call.cast(x), np.divide(_scale(call, a, value), call.cast(b)))


def _lerp(call: OperatorCall, a: Any, b: Any, weight: Any) -> Any:
    x, y, w = call.cast(a), call.cast(b), call.cast(weight)
    off = np.subtract(y, x)
    near = np.add(x, np.multiply(w, off))
    far = np.subtract(y, np.multiply(off, np.subtract(like(1, w), w)))
    return np.where(np.less(np.abs(w), like(0.5, w)), near, far)


def _clamp(call: OperatorCall, x: Any, low: Any = None, high: Any = None) -> Any:
    array = call.cast(x)
    limits = [None if n is None else call.cast(n) for n in (low, high)]
    if call.is_float and all(n is None or n.ndim == 0 for n in limits):
        return emit("Clip", array, *limits)
    array = array if limits[0] is None else np.maximum(array, limits[0])
    return array if limits[1] is None else np.minimum(array, limits[1])


def _sign(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    return array if call.dtype == "bool" else np.sign(array)


def _signbit(call: OperatorCall, x: Any) -> Any:
    array = traced(x)
    if not is_floats(array):
        return np.less(array, like(0, array)) if array.dtype.kind == "i" else _all_false(array)
    return _negative(array)


def _negative(x: TracedArray) -> TracedArray:
    """Return a mask of set signs; -0 has a negative reciprocal."""
    zero = np.equal(x, like(0, x))
    below = np.less(np.reciprocal(np.where(zero, x, like(1, x))), like(0, x))
    is_negative: TracedArray = np.where(zero, below, np.less(x, like(0, x)))
    return is_negative


def _copysign(call: OperatorCall, a: Any, b: Any) -> Any:
    size, sign = np.abs(call.cast(a)), call.cast(b)
    return np.where(_negative(sign), np.negative(size), size)


def _nextafter(call: OperatorCall, a: Any, b: Any) -> Any:
    """Step to the next float; the gradient is that of the first argument, 0 if both are equal."""
    x, y = call.cast(a), call.cast(b)
    stepped = np.nextafter(x, y)
    if not call.trains:
        return stepped
    off = np.subtract(x, call.stop_gradient(x))
    flat = np.logical_or(is_inf(x), np.equal(x, y))
    return np.add(call.stop_gradient(stepped), np.where(flat, like(0, x), off))


def _angle(call: OperatorCall, x: Any) -> Any:
    """Return the argument of a real number, 0 or pi."""
    array = call.cast(x)
    angle = np.where(np.less(array, like(0, array)), like(math.pi, array), like(0, array))
    return np.where(is_nan(array), array, angle)


def _abs(call: OperatorCall, x: Any) -> Any:
    return np.abs(call.cast(x))


def _negate(call: OperatorCall, x: Any) -> Any:
    return np.negative(call.cast(x))


def _round(call: OperatorCall, x: Any, decimals: int = 0) -> Any:
    array = call.cast(x)
    if not call.is_float:
        return array
    if decimals == 0:
        return np.rint(array)
    scale = like(10.0 ** abs(decimals), array)
    if decimals > 0:
        return np.divide(np.rint(np.multiply(array, scale)), scale)
    return np.multiply(np.rint(np.divide(array, scale)), scale)


def _atan2(call: OperatorCall, y: Any, x: Any) -> Any:
    """Return the angle of (x, y), with the quadrant of signed zeros."""
    a, b = call.cast(y), call.cast(x)
    p, q = np.abs(a), np.abs(b)
    most, least = np.maximum(p, q), np.minimum(p, q)
    zero, unit = like(0, a), like(1, a)
    same = np.equal(most, least)  # both infinite, or both 0
    ratio = np.divide(least, np.where(np.equal(most, zero), unit, most))
    ratio = np.where(np.logical_and(same, np.greater(most, zero)), unit, ratio)
    angle = np.arctan(ratio)
    angle = np.where(np.greater(p, q), np.subtract(like(math.pi / 2, a), angle), angle)
    angle = np.where(_negative(b), np.subtract(like(math.pi, a), angle), angle)
    return np.where(_negative(a), np.negative(angle), angle)


def _hypot(call: OperatorCall, a: Any, b: Any) -> Any:
    return np.hypot(call.cast(a), call.cast(b))


def _nan_to_num(
    call: OperatorCall,
    x: Any,
    nan: float | None = None,
    top: float | None = None,
    low: float | None = None,
) -> Any:
    array = call.cast(x)
    if not call.is_float:
        return array
    limits = ml_dtypes.finfo(call.dtype)
    values = (
        0.0 if nan is None else nan,
        float(limits.max) if top is None else top,
        float(limits.min) if low is None else low,
    )
    replacement, above, below = (like(v, array) for v in values)
    infinite = is_inf(array)
    edge = np.where(np.greater(array, like(0, array)), above, below)
    return np.where(is_nan(array), replacement, np.where(infinite, edge, array))


# Exponentials.


def _exp2(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    return emit("Pow", like(2, array), array)


def _logit(call: OperatorCall, x: Any, eps: float | None = None) -> Any:
    array = call.cast(x)
    if eps is not None:
        array = emit("Clip", array, like(eps, array), like(1 - eps, array))
    return np.log(np.divide(array, np.subtract(like(1, array), array)))


def _xlogy(call: OperatorCall, a: Any, b: Any) -> Any:
    x, y = call.cast(a), call.cast(b)
    zero = np.equal(x, like(0, x))
    plain = np.multiply(x, np.log(np.where(zero, like(1, y), y)))
    return np.where(is_nan(y), y, np.where(zero, like(0, x), plain))


def _logaddexp(call: OperatorCall, a: Any, b: Any) -> Any:
    x, y = call.cast(a), call.cast(b)
    top = np.maximum(x, y)
    same = np.logical_and(np.equal(x, y), is_inf(x))
    off = np.negative(np.abs(np.subtract(x, np.where(same, like(0, y), y))))
    return np.where(same, x, np.add(top, np.log1p(np.exp(off))))


def _logaddexp2(call: OperatorCall, a: Any, b: Any) -> Any:
    x, y = call.cast(a), call.cast(b)
    top = np.maximum(x, y)
    same = np.logical_and(np.equal(x, y), is_inf(x))
    off = np.negative(np.abs(np.subtract(x, np.where(same, like(0, y), y))))
    more = np.multiply(np.log1p(emit("Pow", like(2, off), off)), like(1 / math.log(2), off))
    return np.where(same, x, np.add(top, more))


def _sinc(call: OperatorCall, x: Any) -> Any:
    array = np.multiply(call.cast(x), like(math.pi, call.cast(x)))
    zero = np.equal(array, like(0, array))
    safe = np.where(zero, like(1, array), array)
    return np.where(zero, like(1, array), np.divide(np.sin(safe), safe))


# Activations.


def _relu(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    return emit("Relu", array) if call.is_float else np.maximum(array, like(0, array))


def _hardtanh(call: OperatorCall, x: Any, low: Any = -1, high: Any = 1) -> Any:
    return _clamp(call, x, low, high)


def _random_relu(
    call: OperatorCall,
    x: Any,
    noise: Any,
    low: float = 1 / 8,
    high: float = 1 / 3,
    random: bool = False,
) -> Any:
    """Return a leaky ReLU with the mean of the random slopes; refuse random ones."""
    if random:
        call.refuse("random slopes are not supported")
    return [_leaky_relu(call, x, (low + high) / 2), traced(noise)]


def _leaky_relu(call: OperatorCall, x: Any, slope: float = 0.01) -> Any:
    array = call.cast(x)
    return np.where(
        np.greater(array, like(0, array)), array, np.multiply(array, like(slope, array))
    )


def _elu(
    call: OperatorCall, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Any:
    array = call.cast(x)
    positive = np.greater(array, like(0, array))
    inner = np.multiply(np.where(positive, like(0, array), array), like(input_scale, array))
    below = np.multiply(np.expm1(inner), like(alpha * scale, array))
    return np.where(positive, np.multiply(array, like(scale, array)), below)


def _celu(call: OperatorCall, x: Any, alpha: float = 1.0) -> Any:
    return _elu(call, x, alpha, 1, 1 / alpha)


def _selu(call: OperatorCall, x: Any) -> Any:
    return _elu(call, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def _gelu(call: OperatorCall, x: Any, approximate: str = "none") -> Any:
    return emit("Gelu", call.cast(x), approximate=approximate)


def _silu(call: OperatorCall, x: Any) -> Any:
    return emit("Swish", call.cast(x))


def _softplus(call: OperatorCall, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    array = call.cast(x)
    inner = np.multiply(array, like(beta, array))
    large = np.greater(inner, like(threshold, array))
    small = np.divide(emit("Softplus", np.where(large, like(0, array), inner)), like(beta, array))
    return np.where(large, array, small)


def _log_sigmoid(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    return np.negative(emit("Softplus", np.negative(array)))


def _hardshrink(call: OperatorCall, x: Any, limit: float = 0.5) -> Any:
    array = call.cast(x)
    inside = np.less_equal(np.abs(array), like(limit, array))
    return np.where(inside, like(0, array), array)


def _softshrink(call: OperatorCall, x: Any, limit: float = 0.5) -> Any:
    array, by = call.cast(x), like(limit, call.cast(x))
    nearer = np.subtract(array, np.multiply(np.sign(array), by))
    inside = np.less_equal(np.abs(array), by)
    return np.where(inside, np.multiply(array, like(0, array)), nearer)


def _hardsigmoid(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    up = emit("Clip", np.add(array, like(3, array)), like(0, array), like(6, array))
    return np.divide(up, like(6, array))


def _hardswish(call: OperatorCall, x: Any) -> Any:
    return np.multiply(call.cast(x), _hardsigmoid(call, x))


def _threshold(call: OperatorCall, x: Any, limit: Any, value: Any) -> Any:
    array = call.cast(x)
    return np.where(np.less_equal(array, call.cast(limit)), call.cast(value), array)


def _prelu(call: OperatorCall, x: Any, weight: Any) -> Any:
    array, slope = call.cast(x), call.cast(weight)
    if slope.ndim and array.ndim > 1:
        slope = np.reshape(slope, (-1, *(1,) * (array.ndim - 2)))
    if not array.ndim:
        slope = np.reshape(slope, ())
    return np.where(np.greater(array, like(0, array)), array, np.multiply(array, slope))


def _glu(call: OperatorCall, x: Any, dim: int = -1) -> Any:
    a, b = np.split(call.cast(x), 2, dim)
    return np.multiply(a, emit("Sigmoid", b))


def _square(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    return np.multiply(array, array)


def _rsqrt(call: OperatorCall, x: Any) -> Any:
    return np.reciprocal(np.sqrt(call.cast(x)))


# Choices and bits.


def _where(call: OperatorCall, condition: Any, a: Any, b: Any) -> Any:
    return np.where(converted(condition, "bool"), call.cast(a), call.cast(b))


def _masked_fill(call: OperatorCall, x: Any, mask: Any, value: Any) -> Any:
    return np.where(converted(mask, "bool"), call.cast(value), call.cast(x))


def _copy(call: OperatorCall, x: Any, source: Any, *_: Any) -> Any:
    return np.broadcast_to(call.cast(source), traced(x).shape)


def _isfinite(call: OperatorCall, x: Any) -> Any:
    array = traced(x)
    return np.logical_not(np.logical_or(is_nan(array), is_inf(array)))


def _signed_inf(below: bool) -> Handler:
    def handler(call: OperatorCall, x: Any) -> Any:
        array = traced(x)
        compare = np.less if below else np.greater
        return np.logical_and(is_inf(array), compare(array, like(0, array)))

    return handler


def _shift(direction: str) -> Handler:
    """Return a handler of bit shifts: arithmetic to the right, and saturating shift counts."""

    def handler(call: OperatorCall, a: Any, b: Any) -> Any:
        x, by = call.cast(a), call.cast(b)
        if x.dtype.kind == "u":
            return emit("BitShift", x, by, direction=direction.upper())
        power = emit("Pow", like(2, x), np.minimum(by, like(x.dtype.itemsize * 8 - 2, by)))
        if direction == "left":
            return np.multiply(x, power)
        return np.floor_divide(x, power)

    return handler


def _to(call: OperatorCall, x: Any, *_: Any) -> Any:
    return cast(x, call.dtype)


def cast(x: Any, dtype: str) -> TracedArray:
    """Return a value in the dtype of that name."""
    return converted(x, dtype)


def _bits(call: OperatorCall, x: Any, *_: Any) -> Any:
    return same_bits(traced(x), call.dtype)


def same_bits(x: TracedArray, dtype: str) -> TracedArray:
    """Reinterpret the bits of an array in a dtype of the same size."""
    return emit("BitCast", x, to=int(helper.np_dtype_to_tensor_dtype(numpy_name(dtype))))


def _frexp(call: OperatorCall, x: Any) -> Any:
    """Return m and n of x = m 2ⁿ, 0.5 ≤ |m| < 1, from the exponent bits.

    For 0 and non-finite x, n is 0.
    """
    double = call.dtype == "float64"
    int_dtype, digits, bias = ("int64", 52, 1022) if double else ("int32", 23, 126)
    wide = converted(call.cast(x), "float64" if double else "float32")
    plain = np.equal(wide, like(0, wide)) | is_nan(wide) | is_inf(wide)
    safe = np.where(plain, like(1, wide), wide)
    tiny = np.less(np.abs(safe), like(2.0**-60, wide))  # no subnormals after scaling
    safe = np.where(tiny, safe * 2.0**64, safe)
    n = np.right_shift(same_bits(np.abs(safe), int_dtype), digits) - bias
    scale = same_bits((bias + 3 - n) * (1 << digits), wide.type.element)
    part = np.where(plain, wide, safe * 0.25 * scale)
    power = np.where(plain, 0, n - np.where(tiny, 64, 0))
    return [call.cast(part), converted(power, call.dtype_of(1))]


def _gcd(call: OperatorCall, a: Any, b: Any) -> Any:
    """Run as many steps of Euclid's algorithm as the dtype may need."""
    x, y = np.abs(call.cast(a)), np.abs(call.cast(b))
    steps = {1: 12, 2: 24, 4: 47, 8: 93}[x.dtype.itemsize]
    for _ in range(steps):
        zero = np.equal(y, like(0, y))
        remainder = np.remainder(x, np.where(zero, like(1, y), y))
        x, y = np.where(zero, x, y), np.where(zero, y, remainder)
    return x


def _lcm(call: OperatorCall, a: Any, b: Any) -> Any:
    x, y = call.cast(a), call.cast(b)
    common = _gcd(call, x, y)
    safe = np.where(np.equal(common, like(0, common)), like(1, common), common)
    return np.abs(np.multiply(np.floor_divide(x, safe), y))


def _frac(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    return np.subtract(array, np.trunc(array))


def _heaviside(call: OperatorCall, x: Any, value: Any) -> Any:
    array = call.cast(x)
    zero = np.equal(array, like(0, array))
    step = np.where(np.greater(array, like(0, array)), like(1, array), like(0, array))
    return np.where(zero, call.cast(value), step)


def _trunc(call: OperatorCall, x: Any) -> Any:
    return np.trunc(call.cast(x)) if call.is_float else call.cast(x)


def _identity(call: OperatorCall, x: Any, *_: Any) -> Any:
    return x


ELEMENTWISE: Mapping[str, Handler] = {
    # arithmetic
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": _binary(np.multiply),
    "div": _div,
    "floor_divide": _floor_divide,
    "remainder": _binary(np.remainder),
    "fmod": _binary(np.fmod),
    "pow": _pow,
    "maximum": _binary(np.maximum),
    "minimum": _binary(np.minimum),
    "max.other": _binary(np.maximum),
    "min.other": _binary(np.minimum),
    "fmax": _fmax,
    "fmin": _fmin,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "lerp": _lerp,
    "clamp": _clamp,
    "clamp_min": lambda call, x, low: _clamp(call, x, low),
    "clamp_max": lambda call, x, high: _clamp(call, x, None, high),
    "abs": _abs,
    "neg": _negate,
    "sign": _sign,
    "sgn": _sign,
    "signbit": _signbit,
    "copysign": _copysign,
    "reciprocal": _unary(np.reciprocal),
    "sqrt": _unary(np.sqrt),
    "rsqrt": _rsqrt,
    "square": _square,
    "hypot": _hypot,
    "atan2": _atan2,
    "nan_to_num": _nan_to_num,
    "frexp": _frexp,
    "angle": _angle,
    "nextafter": _nextafter,
    "gcd": _gcd,
    "lcm": _lcm,
    "frac": _frac,
    "heaviside": _heaviside,
    # rounding
    "floor": _on_floats(np.floor),
    "ceil": _on_floats(np.ceil),
    "trunc": _trunc,
    "fix": _trunc,
    "round": _round,
    # exponentials and trigonometry
    "exp": _unary(np.exp),
    "exp2": _exp2,
    "expm1": _unary(np.expm1),
    "log": _unary(np.log),
    "log2": _unary(np.log2),
    "log10": _unary(np.log10),
    "log1p": _unary(np.log1p),
    "logit": _logit,
    "xlogy": _xlogy,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "sinc": _sinc,
    "erf": _record("Erf"),
    **{
        name: _unary(getattr(np, name))
        for name in (
            *("sin", "cos", "tan", "sinh", "cosh", "tanh"),
            *("asin", "acos", "atan", "asinh", "acosh", "atanh"),
        )
    },
    # activations
    "relu": _relu,
    "relu6": lambda call, x: _clamp(call, x, 0, 6),
    "hardtanh": _hardtanh,
    "leaky_relu": _leaky_relu,
    "rrelu_with_noise_functional": _random_relu,
    "elu": _elu,
    "celu": _celu,
    "selu": _selu,
    "gelu": _gelu,
    "silu": _silu,
    "mish": _record("Mish"),
    "sigmoid": _record("Sigmoid"),
    "softplus": _softplus,
    "log_sigmoid": _log_sigmoid,
    "hardshrink": _hardshrink,
    "softshrink": _softshrink,
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "threshold": _threshold,
    "_prelu_kernel": _prelu,
    "prelu": _prelu,
    "glu": _glu,
    # comparisons, logic and choices
    "eq": _comparison(np.equal),
    "ne": _comparison(np.not_equal),
    "lt": _comparison(np.less),
    "le": _comparison(np.less_equal),
    "gt": _comparison(np.greater),
    "ge": _comparison(np.greater_equal),
    "logical_and": _logic(np.logical_and),
    "logical_or": _logic(np.logical_or),
    "logical_xor": _logic(np.logical_xor),
    "logical_not": _logic(np.logical_not),
    **dict.fromkeys(("bitwise_and", "__and__"), _binary(np.bitwise_and)),
    **dict.fromkeys(("bitwise_or", "__or__"), _binary(np.bitwise_or)),
    **dict.fromkeys(("bitwise_xor", "__xor__"), _binary(np.bitwise_xor)),
    "bitwise_not": _unary(np.invert),
    "bitwise_left_shift": _shift("left"),
    "bitwise_right_shift": _shift("right"),
    "isnan": lambda call, x: is_nan(traced(x)),
    "isinf": lambda call, x: is_inf(traced(x)),
    "isfinite": _isfinite,
    "isposinf": _signed_inf(below=False),
    "isneginf": _signed_inf(below=True),
    "where.self": _where,
    "where.ScalarSelf": _where,
    "where.ScalarOther": _where,
    "where.Scalar": _where,
    "masked_fill": _masked_fill,
    "copy": _copy,
    # the same elements
    "_to_copy": _to,
    "to": _to,
    "type_as": _to,
    "clone": _to,
    "contiguous": _identity,
    "alias": _identity,
    "detach": lambda call, x: call.stop_gradient(x),
    "detach_": lambda call, x: call.stop_gradient(x),
    "lift_fresh_copy": _identity,
    "lift_fresh": _identity,
    "_conj": _identity,
    "conj": _identity,
    "resolve_conj": _identity,
    "resolve_neg": _identity,
    "real": _identity,
    "positive": _identity,
    "view.dtype": _bits,
}
