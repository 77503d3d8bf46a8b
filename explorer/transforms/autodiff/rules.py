"""Derivative rules of operators that are better than the derivatives of their kernels.

The slopes of some unary operators are simpler. Where a kernel has a kink, the slope is PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from explorer.ir.affine import affine
from explorer.ir.calls import OpCall, Var, View
from explorer.ir.kernel import Axis, Const, Read, at, axes, reads
from explorer.ir.program import Binding
from explorer.ir.types import Tensor
from explorer.ops.elementwise import SIXTH
from explorer.ops.record import single
from explorer.transforms.autodiff.autodiff_context import Differentiating
from explorer.transforms.autodiff.partials import Term, functions, times

Rule = Callable[[Differentiating, Binding, Var], Iterator[tuple[Var, Var]]]


def _softmax(reverse: Differentiating, binding: Binding, adjoint: Var) -> Iterator[tuple[Var, Var]]:
    """Yield the adjoint of a softmax from its result alone.

    dx = y * (dy - sum(dy * y)). A row that is masked completely is NaN and has no gradient: dx is 0
    where dy is.
    """
    y, over = binding.var, _normalised(binding)
    total = _sum(reverse, _product(reverse, adjoint, y), over)
    less = _op(reverse, "Sub", y.tensor, adjoint, total)
    yield _first(binding), _product(reverse, less, y)


def _log_softmax(
    reverse: Differentiating, binding: Binding, adjoint: Var
) -> Iterator[tuple[Var, Var]]:
    """Yield the adjoint of a log-softmax.

    dx = dy - exp(y) * sum(dy).
    """
    y, over = binding.var, _normalised(binding)
    total = _sum(reverse, adjoint, over)
    share = _op(reverse, "Exp", y.tensor, y)
    taken = _op(reverse, "Mul", y.tensor, share, total)
    yield _first(binding), _op(reverse, "Sub", y.tensor, adjoint, taken)


def _log_sum_exp(
    reverse: Differentiating, binding: Binding, adjoint: Var
) -> Iterator[tuple[Var, Var]]:
    """Yield the adjoint of a log-sum-exp.

    dx = dy * exp(x - y).
    """
    x = _first(binding)
    y, dy = (
        _with_reduced_dims(reverse, binding, binding.var),
        _with_reduced_dims(reverse, binding, adjoint),
    )
    share = _op(reverse, "Exp", x.tensor, _op(reverse, "Sub", x.tensor, x, y))
    yield x, _op(reverse, "Mul", x.tensor, share, dy)


def _norm(reverse: Differentiating, binding: Binding, adjoint: Var) -> Iterator[tuple[Var, Var]]:
    """Yield the adjoint of an L2 norm.

    dx = dy * x / y, and 0 where y is 0, as in PyTorch: there is no slope.
    """
    x = _first(binding)
    y, dy = (
        _with_reduced_dims(reverse, binding, binding.var),
        _with_reduced_dims(reverse, binding, adjoint),
    )
    over, f = axes("i", y.tensor.dims), functions(y.tensor.element)
    g, r = (Term(at(n, over), y.tensor.element) for n in "gr")
    ratio = reverse.map("d", over, f("where", f("eq", r, 0.0), 0.0, g / r).expr, {"g": dy, "r": y})
    yield x, _op(reverse, "Mul", x.tensor, x, ratio)


def _slope(reverse: Differentiating, binding: Binding, adjoint: Var) -> Iterator[tuple[Var, Var]]:
    """Yield the adjoint of a unary operator.

    dx = dy * the slope at x.
    """
    x, y = _first(binding), binding.var
    over, dtype = axes("i", y.tensor.dims), y.tensor.element
    g, r, at_x = (Term(at(n, over), dtype) for n in "grx")
    slope = SLOPES[binding.op_call.op](functions(dtype), binding.op_call, r, at_x)
    yield x, _map(reverse, over, times(g, slope), {"g": adjoint, "r": y, "x": x})


def _clip(reverse: Differentiating, binding: Binding, adjoint: Var) -> Iterator[tuple[Var, Var]]:
    """Yield the adjoints of a clip.

    x gets dy inside of the limits and at them, as in PyTorch; elsewhere the limit gets it.
    """
    call, x = binding.op_call, _first(binding)
    over, dtype = axes("i", x.tensor.dims), x.tensor.element
    limits = dict(zip(("low", "high"), (*call.args[1:], None, None)))
    inputs = {"g": adjoint, "x": x} | {n: v for n, v in limits.items() if v is not None}
    f = functions(dtype)
    terms = {n: Term(_broadcast_read(v, n, over, reverse), dtype) for n, v in inputs.items()}
    for name, old, least in (("low", "min", -math.inf), ("high", "max", math.inf)):
        constant = Const(call.attr(old, least), dtype)
        terms.setdefault(name, Term(constant, dtype))
    g, at_x, low, high = (terms[n] for n in ("g", "x", "low", "high"))
    inside = f("and", f("ge", at_x, low), f("le", at_x, high))
    parts = {
        "x": inside,
        "low": f("and", f("lt", at_x, low), f("lt", low, high)),
        "high": f("or", f("gt", at_x, high), f("lt", high, low)),
    }
    for name, condition in parts.items():
        var = inputs.get(name)
        if var is not None and var.name in reverse.active:
            part = _map(reverse, over, f("where", condition, g, 0.0), inputs)
            yield var, part if name == "x" else sum_broadcast(reverse, part, var)


def _map(
    reverse: Differentiating, over: tuple[Axis, ...], term: Term, inputs: Mapping[str, Var]
) -> Var:
    """Bind a kernel of the inputs that its expression reads."""
    used = {r.tensor for r in reads(term.expr)}
    return reverse.map("d", over, term.expr, {n: v for n, v in inputs.items() if n in used})


def _broadcast_read(var: Var, name: str, over: tuple[Axis, ...], reverse: Differentiating) -> Read:
    """Read a value where it is broadcast to these axes."""
    dims = var.tensor.dims
    last = over[len(over) - len(dims) :]
    same = (reverse.context.env.equal(n, a.extent) for n, a in zip(dims, last))
    return Read(name, tuple(affine({a.name: 1} if s else {}) for a, s in zip(last, same)))


def sum_broadcast(reverse: Differentiating, value: Var, like: Var) -> Var:
    """Sum over all positions at which a broadcast value was read."""
    dims, most = like.tensor.dims, value.tensor.dims
    shape = (*(1 for _ in most[len(dims) :]), *dims)
    over = tuple(d for d, (n, m) in enumerate(zip(shape, most)) if n == 1 and m != 1)
    total = _sum(reverse, value, over) if over else value
    return reverse.bind("d", [like.tensor], View(total))[0]


def _with_reduced_dims(reverse: Differentiating, binding: Binding, value: Var) -> Var:
    """Reshape a reduction's result so that its reduced dims stay, with one element each."""
    dims = _first(binding).tensor.dims
    if len(value.tensor.dims) == len(dims):
        return value
    reduced = _reduced(binding.op_call, len(dims))
    dims_with_ones = tuple(1 if d in reduced else n for d, n in enumerate(dims))
    return reverse.bind("kept", [Tensor(dims_with_ones, value.tensor.element)], View(value))[0]


def _reduced(call: OpCall, rank: int) -> set[int]:
    attr = call.attr("axes")
    axes = attr if isinstance(attr, tuple) else ()
    if not axes:
        return {*range(rank)}
    return {d % rank for d in axes if isinstance(d, int)}


def _first(binding: Binding) -> Var:
    return binding.reads[0]


def _normalised(binding: Binding) -> tuple[int, ...]:
    """Return the normalised axes; before opset 13 every axis from `axis` on."""
    call, rank = binding.op_call, len(binding.var.tensor.dims)
    first = call.attr("axis", -1)
    assert type(first) is int
    first %= max(rank, 1)
    return tuple(range(first, rank if call.attr("flatten", 0) else first + 1))


def _op(reverse: Differentiating, op: str, type: Tensor, *args: Var) -> Var:
    return reverse.bind("d", [type], OpCall(op, args))[0]


def _product(reverse: Differentiating, adjoint: Var, value: Var) -> Var:
    """Multiply an adjoint by a value of its shape; 0 where the adjoint is, whatever the value."""
    over, f = axes("i", value.tensor.dims), functions(value.tensor.element)
    g, v = (Term(at(n, over), value.tensor.element) for n in "gv")
    term = f("where", f("eq", g, 0.0), 0.0, g * v)
    return reverse.map("d", over, term.expr, {"g": adjoint, "v": value})


def _sum(reverse: Differentiating, value: Var, over: tuple[int, ...]) -> Var:
    dims = tuple(1 if d in over else n for d, n in enumerate(value.tensor.dims))
    call = OpCall("ReduceSum", (value,), (("axes", over), ("keepdims", 1)))
    return reverse.bind("total", [Tensor(dims, value.tensor.element)], call)[0]


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


RULES: Mapping[str, Rule] = {
    "Clip": _clip,
    "LogSoftmax": _log_softmax,
    "ReduceL2": _norm,
    "ReduceLogSumExp": _log_sum_exp,
    "Softmax": _softmax,
    **dict.fromkeys(SLOPES, _slope),
}


def rule_of(call: OpCall) -> Rule | None:
    """Return the rule of an operator, or None if its kernel's derivative is used."""
    if call.op.startswith("Reduce") and (len(call.args) > 1 or call.attr("kept") is not None):
        return None  # only a run knows the reduced axes
    return RULES.get(call.op)
