"""ATen's special functions, of elementary ones, and orthogonal polynomials, by recurrences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends.python import arrays as np
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.control_flow import while_loop
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.python.tracing.frames import attributed_to, current_source
from explorer.frontends.torch.call import OperatorCall
from explorer.frontends.torch.elementwise import is_inf, is_nan, like

Handler = Callable[..., Any]
SHIFT = 8  # start of Stirling's series: its fifth term is under 1e-10 there
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
TERMS = 20  # of Hurwitz's zeta before Euler-Maclaurin: more than from -10 to 9


def polynomial(x: TracedArray, factors: Sequence[float]) -> TracedArray:
    """Evaluate a polynomial by Horner's rule; coefficients start at the highest power."""
    value = like(factors[0], x)
    for factor in factors[1:]:
        value = np.add(np.multiply(value, x), like(factor, x))
    return value


def _erfc(call: OperatorCall, x: Any) -> Any:
    """Return erfc by a Chebyshev fit, relative error 1.2e-7 (Numerical Recipes, 6.2)."""
    array = call.cast(x)
    size = np.abs(array)
    far = np.greater(size, like(0.5, array))
    t = np.reciprocal(np.add(like(1, array), np.multiply(size, like(0.5, array))))
    inner = polynomial(
        t,
        (
            *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
            *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
        ),
    )
    tail = np.multiply(t, np.exp(np.subtract(inner, np.multiply(size, size))))
    tail = np.where(np.less(array, like(0, array)), np.subtract(like(2, array), tail), tail)
    return np.where(far, tail, np.subtract(like(1, array), emit("Erf", array)))


def erf_inverse(y: TracedArray) -> TracedArray:
    """Return the inverse error function (Giles 2010), refined by Newton steps in float64."""
    unit = like(1, y)
    edge = np.greater_equal(np.abs(y), unit)
    safe = np.where(edge, like(0, y), y)
    w = np.negative(np.log(np.multiply(np.subtract(unit, safe), np.add(unit, safe))))
    near = polynomial(
        np.subtract(w, like(2.5, y)),
        (
            *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
            *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
        ),
    )
    root = np.sqrt(np.maximum(w, like(5, y)))
    far = polynomial(
        np.subtract(root, like(3, y)),
        (
            *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
            *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
        ),
    )
    inverse = np.multiply(np.where(np.less(w, like(5, y)), near, far), safe)
    if y.type.element == "float64":
        for _ in range(2):
            off = np.subtract(emit("Erf", inverse), safe)
            slope = np.multiply(
                np.exp(np.negative(np.multiply(inverse, inverse))), like(2 / math.sqrt(math.pi), y)
            )
            inverse = np.subtract(inverse, np.divide(off, slope))
    infinite = np.multiply(np.sign(y), like(math.inf, y))
    outside = np.where(np.equal(np.abs(y), unit), infinite, like(math.nan, y))
    result: TracedArray = np.where(edge, outside, np.where(is_nan(y), y, inverse))
    return result


def _erfinv(call: OperatorCall, x: Any) -> Any:
    return erf_inverse(call.cast(x))


def _ndtri(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    inner = np.subtract(np.multiply(array, like(2, array)), like(1, array))
    return np.multiply(erf_inverse(inner), like(math.sqrt(2), array))


def _stirling(x: TracedArray) -> TracedArray:
    """Return the logarithm of the gamma function of large x."""
    square = np.reciprocal(np.multiply(x, x))
    series = np.divide(polynomial(square, (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)), x)
    half = np.subtract(x, like(0.5, x))
    logarithm: TracedArray = np.add(
        np.subtract(
            np.multiply(half, np.log(x)), np.subtract(x, like(math.log(2 * math.pi) / 2, x))
        ),
        series,
    )
    return logarithm


def log_gamma(x: TracedArray) -> TracedArray:
    """Return the logarithm of the absolute value of the gamma function."""
    half = np.less(x, like(0.5, x))
    up = np.where(half, np.subtract(like(1, x), x), x)
    safe = np.where(is_inf(up), like(1, x), up)
    factor = safe
    for k in range(1, SHIFT):
        factor = np.multiply(factor, np.add(safe, like(k, x)))
    large = np.greater(safe, like(SHIFT, x))
    factor = np.where(large, like(1, x), factor)
    shifted = np.where(large, safe, np.add(safe, like(SHIFT, x)))
    above = np.subtract(_stirling(shifted), np.log(factor))
    turn = np.subtract(x, np.floor(x))
    sine = np.abs(np.sin(np.multiply(turn, like(math.pi, x))))
    is_integer = np.equal(turn, like(0, x))
    wave = np.log(np.where(is_integer, like(1, x), sine))
    below = np.subtract(np.subtract(like(math.log(math.pi), x), wave), above)
    below = np.where(is_integer, like(math.inf, x), below)
    value = np.where(half, below, above)
    result: TracedArray = np.where(is_inf(x), like(math.inf, x), value)
    return result


def _lgamma(call: OperatorCall, x: Any) -> Any:
    return log_gamma(call.cast(x))


def digamma(x: TracedArray) -> TracedArray:
    """Return the derivative of `log_gamma`."""
    half = np.less(x, like(0.5, x))
    up = np.where(half, np.subtract(like(1, x), x), x)
    total, at = like(0, x), up
    for _ in range(SHIFT):
        total = np.add(total, np.reciprocal(at))
        at = np.add(at, like(1, x))
    inverse = np.reciprocal(np.multiply(at, at))
    series = polynomial(inverse, (1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12))
    high = np.subtract(np.log(at), np.divide(like(0.5, x), at))
    above = np.subtract(np.subtract(high, np.multiply(inverse, series)), total)
    turn = np.multiply(np.subtract(x, np.rint(x)), like(math.pi, x))
    is_integer = np.equal(turn, like(0, x))
    slope = np.divide(like(math.pi, x), np.tan(np.where(is_integer, like(1, x), turn)))
    below = np.where(is_integer, like(math.nan, x), np.subtract(above, slope))
    value = np.where(half, below, above)
    pole = np.negative(np.reciprocal(np.where(np.equal(x, like(0, x)), x, like(1, x))))
    result: TracedArray = np.where(np.equal(x, like(0, x)), pole, value)
    return result


def _digamma(call: OperatorCall, x: Any) -> Any:
    return digamma(call.cast(x))


def zeta(s: TracedArray, q: TracedArray) -> TracedArray:
    """Return Hurwitz's zeta, the sum of (q + k)^-s, by Euler-Maclaurin summation."""
    total = like(0, s)
    for k in range(TERMS):
        total = np.add(total, emit("Pow", np.add(q, like(k, q)), np.negative(s)))
    a = np.add(q, like(TERMS, q))
    tail = emit("Pow", a, np.negative(s))
    total = np.add(total, np.divide(np.multiply(tail, a), np.subtract(s, like(1, s))))
    total = np.add(total, np.multiply(tail, like(0.5, s)))
    rising = s
    power = np.divide(tail, a)
    for k, number in enumerate(BERNOULLI[:4]):
        scale = number / math.factorial(2 * k + 2)
        total = np.add(total, np.multiply(np.multiply(rising, power), like(scale, s)))
        first, second = (np.add(s, like(2 * k + n, s)) for n in (1, 2))
        rising = np.multiply(np.multiply(rising, first), second)
        power = np.divide(power, np.multiply(a, a))
    pole = np.logical_and(np.less_equal(q, like(0, q)), np.equal(q, np.floor(q)))
    total = np.where(pole, like(math.inf, s), total)
    total = np.where(np.equal(s, like(1, s)), like(math.inf, s), total)
    result: TracedArray = np.where(np.less(s, like(1, s)), like(math.nan, s), total)
    return result


def _zeta(call: OperatorCall, s: Any, q: Any) -> Any:
    a, b = np.broadcast_arrays(call.cast(s), call.cast(q))
    return zeta(a, b)


def _polygamma(call: OperatorCall, n: int, x: Any) -> Any:
    array = call.cast(x)
    if n == 0:
        return digamma(array)
    order = np.broadcast_to(like(n + 1, array), array.shape)
    sign = 1.0 if n % 2 else -1.0
    if n == 1:  # by the reflection formula
        half = np.less(array, like(0.5, array))
        up = np.where(half, np.subtract(like(1, array), array), array)
        above = zeta(order, up)
        sine = np.sin(np.multiply(array, like(math.pi, array)))
        wave = np.divide(like(math.pi**2, array), np.multiply(sine, sine))
        return np.where(half, np.subtract(wave, above), above)
    return np.multiply(zeta(order, array), like(sign * math.factorial(n), array))


def _ndtr(call: OperatorCall, x: Any) -> Any:
    array = np.multiply(call.cast(x), like(-math.sqrt(0.5), call.cast(x)))
    return np.multiply(_erfc(call, array), like(0.5, array))


def _log_ndtr(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    low = np.less(array, like(-1, array))
    t = np.multiply(np.where(low, array, like(-1, array)), like(-math.sqrt(0.5), array))
    scaled = _erfcx(call, t)
    below = np.subtract(np.log(np.multiply(scaled, like(0.5, array))), np.multiply(t, t))
    other = np.multiply(np.where(low, like(0, array), array), like(math.sqrt(0.5), array))
    above = np.log1p(np.multiply(_erfc(call, other), like(-0.5, array)))
    return np.where(low, below, above)


def _erfcx(call: OperatorCall, x: Any) -> Any:
    """Return exp(x²) erfc x, by the fit of `_erfc`."""
    array = call.cast(x)
    size = np.abs(array)
    t = np.reciprocal(np.add(like(1, array), np.multiply(size, like(0.5, array))))
    inner = polynomial(
        t,
        (
            *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
            *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
        ),
    )
    above = np.multiply(t, np.exp(inner))
    below = np.subtract(np.multiply(like(2, array), np.exp(np.multiply(size, size))), above)
    return np.where(np.less(array, like(0, array)), below, above)


def _entr(call: OperatorCall, x: Any) -> Any:
    array = call.cast(x)
    zero, below = np.equal(array, like(0, array)), np.less(array, like(0, array))
    plain = np.negative(np.multiply(array, np.log(np.where(zero, like(1, array), array))))
    entropy = np.where(zero, like(0, array), np.where(below, like(-math.inf, array), plain))
    return np.where(is_nan(array), array, entropy)


def incomplete_gamma(a: TracedArray, x: TracedArray) -> tuple[TracedArray, TracedArray]:
    """Return the lower and the upper regularised incomplete gamma function.

    A series up to a + 1, Lentz's continued fraction above (Numerical Recipes, 6.2).
    """
    outside = (x < 0) | (a < 0) | is_nan(x) | is_nan(a) | (np.equal(a, 0) & np.equal(x, 0))
    outside = outside | (is_inf(a) & is_inf(x))
    none = np.equal(x, 0) | is_inf(a)
    is_full = np.equal(a, 0) | is_inf(x)
    plain = np.logical_not(outside | none | is_full)
    a, x = np.where(plain, a, 1.0), np.where(plain, x, 1.0)
    scale = np.exp(a * np.log(x) - x - log_gamma(a))
    below = x < a + 1
    near, far = np.where(below, x, a / 2), np.where(below, a + 2, x)
    tiny, close, source = 1e-300, 1e-15, current_source()

    def going(k: Any, term: Any, total: Any, c: Any, d: Any, fraction: Any, factor: Any) -> Any:
        with attributed_to(source):
            return np.any((term > total * close) | (np.abs(factor - 1) > close))

    def step(k: Any, term: Any, total: Any, c: Any, d: Any, fraction: Any, factor: Any) -> Any:
        with attributed_to(source):
            term = term * near / (a + k)
            numerator, b = k * (a - k), far + 1 - a + 2 * k
            d, c = numerator * d + b, b + numerator / c
            d = np.reciprocal(np.where(np.abs(d) < tiny, tiny, d))
            c = np.where(np.abs(c) < tiny, tiny, c)
            return k + 1, term, total + term, c, d, fraction * (c * d), c * d

    first = np.reciprocal(a)
    d = np.reciprocal(far + 1 - a)
    c, unit = like(1 / tiny, a) + d * 0, like(1.0, a)
    _, _, total, _, _, fraction, _ = while_loop(going, step, unit, first, first, c, d, d, c * 0)
    series, tail = total * scale, fraction * scale
    lower, upper = np.where(below, series, 1 - tail), np.where(below, 1 - series, tail)
    results = []
    for value, at_none, at_whole in ((lower, 0.0, 1.0), (upper, 1.0, 0.0)):
        value = np.where(none, at_none, np.where(is_full, at_whole, value))
        results.append(np.where(outside, math.nan, value))
    return results[0], results[1]


def _incomplete_gamma(upper: int) -> Handler:
    """Return a handler that computes in float64; the gradient by x is the integrand."""

    def handler(call: OperatorCall, a: Any, x: Any) -> Any:
        order, at = (converted(call.cast(v), "float64") for v in np.broadcast_arrays(a, x))
        value = call.stop_gradient(incomplete_gamma(order, at)[upper])
        if call.trains:
            slope = np.exp((order - 1) * np.log(at) - at - log_gamma(order))
            off = (at - call.stop_gradient(at)) * call.stop_gradient(slope)
            value = value - off if upper else value + off
        return call.cast(value)

    return handler


SPECIAL: Mapping[str, Handler] = {
    "erfc": _erfc,
    "erfinv": _erfinv,
    "special_erfcx": _erfcx,
    "special_ndtri": _ndtri,
    "special_ndtr": _ndtr,
    "special_log_ndtr": _log_ndtr,
    "special_entr": _entr,
    "lgamma": _lgamma,
    "digamma": _digamma,
    "polygamma": _polygamma,
    "special_zeta": _zeta,
    "igamma": _incomplete_gamma(0),
    "igammac": _incomplete_gamma(1),
}


# Orthogonal polynomials, by three-term recurrences up to the degrees requested.


Next = Callable[[Any, TracedArray, TracedArray, TracedArray], TracedArray]
# The largest degree of Hermite polynomials that PyTorch supports.
LARGEST = {"float32": 128, "float64": 512}


def _polynomial(
    first: Callable[[TracedArray], TracedArray], following: Next, *, limited: bool = False
) -> Handler:
    """Return a handler; `following` computes degree k + 1 from k, x and degrees k - 1 and k.

    `first` computes degree 1.
    """

    def handler(call: OperatorCall, x: Any, n: Any) -> Any:
        at, degree = np.broadcast_arrays(call.cast(x), call.cast(n))
        is_finite = np.logical_not(is_nan(degree) | is_inf(degree))
        degree = converted(np.where(is_finite, np.trunc(degree), -1.0), "int64")
        most = LARGEST.get(call.dtype, 1024)
        limited_degree = np.where(degree > most, 0, degree) if limited else degree
        source = current_source()

        def below(k: Any, last: Any) -> Any:
            return np.logical_and(k < limited_degree, np.logical_not(is_nan(last)))

        def going(k: Any, before: Any, last: Any) -> Any:
            with attributed_to(source):
                return np.any(below(k, last))

        def body(k: Any, before: Any, last: Any) -> Any:
            with attributed_to(source):
                more = below(k, last)
                value = following(converted(k, at.dtype), at, before, last)
                return k + 1, np.where(more, last, before), np.where(more, value, last)

        start = traced(numpy.int64(1)), np.ones_like(at), first(at)
        _, _, value = while_loop(going, body, *start)
        value = np.where(degree < 1, np.where(degree < 0, like(0, at), like(1, at)), value)
        return np.where(degree > most, math.nan, value) if limited else value

    return handler


def _chebyshev(a: float, b: float) -> tuple[Handler, Handler]:
    """Return a Chebyshev kind with degree 1 equal to a x + b, and the same shifted to 0 ... 1."""

    def shifted(x: TracedArray) -> Any:
        return x * 2 - 1

    plain = _polynomial(lambda x: x * a + b, lambda k, x, p, q: 2 * x * q - p)
    other = _polynomial(lambda x: shifted(x) * a + b, lambda k, x, p, q: 2 * shifted(x) * q - p)
    return plain, other


KINDS = {
    "t": _chebyshev(1, 0),
    "u": _chebyshev(2, 0),
    "v": _chebyshev(2, -1),
    "w": _chebyshev(2, 1),
}
POLYNOMIALS: Mapping[str, Handler] = {
    **{f"special_chebyshev_polynomial_{n}": plain for n, (plain, _) in KINDS.items()},
    **{f"special_shifted_chebyshev_polynomial_{n}": other for n, (_, other) in KINDS.items()},
    "special_hermite_polynomial_h": _polynomial(
        lambda x: x * 2, lambda k, x, p, q: 2 * (x * q - k * p), limited=True
    ),
    "special_hermite_polynomial_he": _polynomial(
        lambda x: x, lambda k, x, p, q: x * q - k * p, limited=True
    ),
    "special_laguerre_polynomial_l": _polynomial(
        lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * q - k * p) / (k + 1)
    ),
    "special_legendre_polynomial_p": _polynomial(
        lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * q - k * p) / (k + 1)
    ),
}
