"""Slopes of unary operators that are simpler than those of their kernels.

Where a kernel has a kink, the slope is PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from explorer.autodiff.partials import Term
from explorer.ir.calls import OpCall
from explorer.ops.arithmetic.elementwise import SIXTH
from explorer.ops.site import single

F = Callable[..., Term]
Slope = Callable[[F, OpCall, Term, Term], Term]
"""Of scalar functions by name, the call, its result and its argument."""


def _relu(f: F, call: OpCall, y: Term, x: Term) -> Term:
    return _if(f, f("gt", y, 0.0), 1.0)


def _hard_sigmoid(f: F, call: OpCall, y: Term, x: Term) -> Term:
    inside = f("and", f("gt", y, 0.0), f("lt", y, 1.0))
    return _if(f, inside, _alpha(call, single(0.2)))


def _hard_swish(f: F, call: OpCall, y: Term, x: Term) -> Term:
    inner = f("where", f("lt", x, 3.0), 2.0 * SIXTH * x + 0.5, 1.0)
    return _if(f, f("gt", x, -3.0), inner)


def _softplus(f: F, call: OpCall, y: Term, x: Term) -> Term:
    return f("sigmoid", x)


def _mish(f: F, call: OpCall, y: Term, x: Term) -> Term:
    """Return the slope of Mish, without overflow.

    y = x t with t = tanh(log(1 + exp x)): t + x (1 - t t) sigmoid x.
    """
    w = f("exp", -f("abs", x))
    below, above = w * (w + 2.0), 2.0 * w + 1.0
    up = f("gt", x, 0.0)
    t = f("where", up, above / (2.0 * w * w + above), below / (below + 2.0))
    return t + x * (1.0 - t * t) * f("sigmoid", x)


def _if(f: F, condition: Term, inside: Term | float) -> Term:
    return f("where", condition, inside, 0.0)


def _alpha(call: OpCall, default: float) -> float:
    match call.attr("alpha"):
        case int() | float() as value:
            return float(value)
    return default


SLOPES: Mapping[str, Slope] = {
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Mish": _mish,
    "Relu": _relu,
    "Softplus": _softplus,
}
