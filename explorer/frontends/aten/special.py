"""ATen's special functions, made of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import Call
from explorer.frontends.aten.elementwise import is_inf, is_nan, like
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.loops import while_loop
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.frames import current_source, under
from explorer.frontends.tracing.promote import converted

Handler = Callable[..., Any]
SHIFT = 8  # where Stirling's series is begun: its fifth term is under 1e-10 there
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
TERMS = 20  # of Hurwitz's zeta before Euler and Maclaurin: more than from -10 to 9


def polynomial(x: TracedArray, factors: Sequence[float]) -> TracedArray:
    """A polynomial by Horner, from the highest power on."""
    found = like(factors[0], x)
    for factor in factors[1:]:
        found = np.add(np.multiply(found, x), like(factor, x))
    return found


def _erfc(call: Call, x: Any) -> Any:
    """Numerical Recipes, 6.2: a fit by Chebyshev of erfc, to 1.2e-7 of it everywhere."""
    given = call.cast(x)
    size = np.abs(given)
    far = np.greater(size, like(0.5, given))
    t = np.reciprocal(np.add(like(1, given), np.multiply(size, like(0.5, given))))
    inner = polynomial(
        t,
        (
            *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
            *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
        ),
    )
    tail = np.multiply(t, np.exp(np.subtract(inner, np.multiply(size, size))))
    tail = np.where(np.less(given, like(0, given)), np.subtract(like(2, given), tail), tail)
    return np.where(far, tail, np.subtract(like(1, given), emit("Erf", given)))


def erf_inverse(y: TracedArray) -> TracedArray:
    """Giles 2010, Approximating the erfinv function; then a step of Newton where it gains."""
    one = like(1, y)
    edge = np.greater_equal(np.abs(y), one)
    safe = np.where(edge, like(0, y), y)
    w = np.negative(np.log(np.multiply(np.subtract(one, safe), np.add(one, safe))))
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
    found = np.multiply(np.where(np.less(w, like(5, y)), near, far), safe)
    if y.type.element == "float64":
        for _ in range(2):
            off = np.subtract(emit("Erf", found), safe)
            slope = np.multiply(
                np.exp(np.negative(np.multiply(found, found))), like(2 / math.sqrt(math.pi), y)
            )
            found = np.subtract(found, np.divide(off, slope))
    endless = np.multiply(np.sign(y), like(math.inf, y))
    outside = np.where(np.equal(np.abs(y), one), endless, like(math.nan, y))
    result: TracedArray = np.where(edge, outside, np.where(is_nan(y), y, found))
    return result


def _erfinv(call: Call, x: Any) -> Any:
    return erf_inverse(call.cast(x))


def _ndtri(call: Call, x: Any) -> Any:
    given = call.cast(x)
    inner = np.subtract(np.multiply(given, like(2, given)), like(1, given))
    return np.multiply(erf_inverse(inner), like(math.sqrt(2), given))


def _stirling(x: TracedArray) -> TracedArray:
    """The logarithm of the gamma function of what is large."""
    square = np.reciprocal(np.multiply(x, x))
    series = np.divide(polynomial(square, (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)), x)
    half = np.subtract(x, like(0.5, x))
    found: TracedArray = np.add(
        np.subtract(
            np.multiply(half, np.log(x)), np.subtract(x, like(math.log(2 * math.pi) / 2, x))
        ),
        series,
    )
    return found


def log_gamma(x: TracedArray) -> TracedArray:
    """The logarithm of the absolute value of the gamma function."""
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
    whole = np.equal(turn, like(0, x))
    wave = np.log(np.where(whole, like(1, x), sine))
    below = np.subtract(np.subtract(like(math.log(math.pi), x), wave), above)
    below = np.where(whole, like(math.inf, x), below)
    found = np.where(half, below, above)
    result: TracedArray = np.where(is_inf(x), like(math.inf, x), found)
    return result


def _lgamma(call: Call, x: Any) -> Any:
    return log_gamma(call.cast(x))


def digamma(x: TracedArray) -> TracedArray:
    """The derivative of `log_gamma`."""
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
    whole = np.equal(turn, like(0, x))
    slope = np.divide(like(math.pi, x), np.tan(np.where(whole, like(1, x), turn)))
    below = np.where(whole, like(math.nan, x), np.subtract(above, slope))
    found = np.where(half, below, above)
    pole = np.negative(np.reciprocal(np.where(np.equal(x, like(0, x)), x, like(1, x))))
    result: TracedArray = np.where(np.equal(x, like(0, x)), pole, found)
    return result


def _digamma(call: Call, x: Any) -> Any:
    return digamma(call.cast(x))


def zeta(s: TracedArray, q: TracedArray) -> TracedArray:
    """Hurwitz's zeta, the sum of (q + k) to the power of -s, by Euler and Maclaurin."""
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


def _zeta(call: Call, s: Any, q: Any) -> Any:
    a, b = np.broadcast_arrays(call.cast(s), call.cast(q))
    return zeta(a, b)


def _polygamma(call: Call, n: int, x: Any) -> Any:
    given = call.cast(x)
    if n == 0:
        return digamma(given)
    order = np.broadcast_to(like(n + 1, given), given.shape)
    sign = 1.0 if n % 2 else -1.0
    if n == 1:  # with its reflection
        half = np.less(given, like(0.5, given))
        up = np.where(half, np.subtract(like(1, given), given), given)
        above = zeta(order, up)
        sine = np.sin(np.multiply(given, like(math.pi, given)))
        wave = np.divide(like(math.pi**2, given), np.multiply(sine, sine))
        return np.where(half, np.subtract(wave, above), above)
    return np.multiply(zeta(order, given), like(sign * math.factorial(n), given))


def _ndtr(call: Call, x: Any) -> Any:
    given = np.multiply(call.cast(x), like(-math.sqrt(0.5), call.cast(x)))
    return np.multiply(_erfc(call, given), like(0.5, given))


def _log_ndtr(call: Call, x: Any) -> Any:
    given = call.cast(x)
    low = np.less(given, like(-1, given))
    t = np.multiply(np.where(low, given, like(-1, given)), like(-math.sqrt(0.5), given))
    scaled = _erfcx(call, t)
    below = np.subtract(np.log(np.multiply(scaled, like(0.5, given))), np.multiply(t, t))
    other = np.multiply(np.where(low, like(0, given), given), like(math.sqrt(0.5), given))
    above = np.log1p(np.multiply(_erfc(call, other), like(-0.5, given)))
    return np.where(low, below, above)


def _erfcx(call: Call, x: Any) -> Any:
    """exp(x²) erfc x, by the same fit."""
    given = call.cast(x)
    size = np.abs(given)
    t = np.reciprocal(np.add(like(1, given), np.multiply(size, like(0.5, given))))
    inner = polynomial(
        t,
        (
            *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
            *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
        ),
    )
    above = np.multiply(t, np.exp(inner))
    below = np.subtract(np.multiply(like(2, given), np.exp(np.multiply(size, size))), above)
    return np.where(np.less(given, like(0, given)), below, above)


def _entr(call: Call, x: Any) -> Any:
    given = call.cast(x)
    zero, below = np.equal(given, like(0, given)), np.less(given, like(0, given))
    plain = np.negative(np.multiply(given, np.log(np.where(zero, like(1, given), given))))
    found = np.where(zero, like(0, given), np.where(below, like(-math.inf, given), plain))
    return np.where(is_nan(given), given, found)


def incomplete_gamma(a: TracedArray, x: TracedArray) -> tuple[TracedArray, TracedArray]:
    """The shares of the gamma function's integral up to x and from x on: Numerical Recipes, 6.2, by
    a series up to a + 1 and by Lentz's continued fraction from there on.
    """
    outside = (x < 0) | (a < 0) | is_nan(x) | is_nan(a) | (np.equal(a, 0) & np.equal(x, 0))
    outside = outside | (is_inf(a) & is_inf(x))
    none = np.equal(x, 0) | is_inf(a)
    whole = np.equal(a, 0) | is_inf(x)
    plain = np.logical_not(outside | none | whole)
    a, x = np.where(plain, a, 1.0), np.where(plain, x, 1.0)
    scale = np.exp(a * np.log(x) - x - log_gamma(a))
    below = x < a + 1
    near, far = np.where(below, x, a / 2), np.where(below, a + 2, x)
    tiny, close, source = 1e-300, 1e-15, current_source()

    def going(k: Any, term: Any, total: Any, c: Any, d: Any, fraction: Any, factor: Any) -> Any:
        with under(source):
            return np.any((term > total * close) | (np.abs(factor - 1) > close))

    def step(k: Any, term: Any, total: Any, c: Any, d: Any, fraction: Any, factor: Any) -> Any:
        with under(source):
            term = term * near / (a + k)
            numerator, b = k * (a - k), far + 1 - a + 2 * k
            d, c = numerator * d + b, b + numerator / c
            d = np.reciprocal(np.where(np.abs(d) < tiny, tiny, d))
            c = np.where(np.abs(c) < tiny, tiny, c)
            return k + 1, term, total + term, c, d, fraction * (c * d), c * d

    first = np.reciprocal(a)
    d = np.reciprocal(far + 1 - a)
    c, one = like(1 / tiny, a) + d * 0, like(1.0, a)
    _, _, total, _, _, fraction, _ = while_loop(going, step, one, first, first, c, d, d, c * 0)
    series, rest = total * scale, fraction * scale
    lower, upper = np.where(below, series, 1 - rest), np.where(below, 1 - series, rest)
    found = []
    for value, at_none, at_whole in ((lower, 0.0, 1.0), (upper, 1.0, 0.0)):
        value = np.where(none, at_none, np.where(whole, at_whole, value))
        found.append(np.where(outside, math.nan, value))
    return found[0], found[1]


def _incomplete_gamma(upper: int) -> Handler:
    """In float64, where the integrand's logarithm keeps its digits; its slope is the integrand."""

    def handler(call: Call, a: Any, x: Any) -> Any:
        order, at = (converted(call.cast(v), "float64") for v in np.broadcast_arrays(a, x))
        found = call.stopped(incomplete_gamma(order, at)[upper])
        if call.trains:
            slope = np.exp((order - 1) * np.log(at) - at - log_gamma(order))
            off = (at - call.stopped(at)) * call.stopped(slope)
            found = found - off if upper else found + off
        return call.cast(found)

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
