"""ATen's orthogonal polynomials, by three-term recurrences up to the degrees requested."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from explorer.frontends import arrays as np
from explorer.frontends.aten.call import OperatorCall
from explorer.frontends.aten.elementwise import is_inf, is_nan, like
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.loops import while_loop
from explorer.frontends.tracing.frames import attributed_to, current_source
from explorer.frontends.tracing.promote import converted, traced

Handler = Callable[..., Any]
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
