"""Operators whose derivative has a better form than that of their kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from explorer.autodiff.differentiating import Differentiating
from explorer.ir.calls import OpCall, Var
from explorer.ir.kernel import Apply, Const, at, axes
from explorer.ir.program import Binding
from explorer.ir.types import Tensor

Rule = Callable[[Differentiating, Binding, Var], Iterator[tuple[Var, Var]]]


def _softmax(reverse: Differentiating, binding: Binding, adjoint: Var) -> Iterator[tuple[Var, Var]]:
    """dx = y * (dy - sum(dy * y)): nothing but the result is needed."""
    y, over = binding.var, _normalised(binding)
    weighed = _op(reverse, "Mul", y.tensor, adjoint, y)
    total = _sum(reverse, weighed, over)
    less = _op(reverse, "Sub", y.tensor, adjoint, total)
    yield _first(binding), _op(reverse, "Mul", y.tensor, y, less)


def _log_softmax(
    reverse: Differentiating, binding: Binding, adjoint: Var
) -> Iterator[tuple[Var, Var]]:
    """dx = dy - exp(y) * sum(dy)."""
    y, over = binding.var, _normalised(binding)
    total = _sum(reverse, adjoint, over)
    share = _op(reverse, "Exp", y.tensor, y)
    taken = _op(reverse, "Mul", y.tensor, share, total)
    yield _first(binding), _op(reverse, "Sub", y.tensor, adjoint, taken)


def _relu(reverse: Differentiating, binding: Binding, adjoint: Var) -> Iterator[tuple[Var, Var]]:
    """dx = dy where y > 0: nothing at 0, as in PyTorch, where a maximum would share it."""
    y = binding.var
    over = axes("i", y.tensor.dims)
    zero = Const(0.0, y.tensor.element)
    slope = Apply("where", (Apply("gt", (at("x", over), zero)), at("g", over), zero))
    yield _first(binding), reverse.map("d", over, slope, {"g": adjoint, "x": y})


def _first(binding: Binding) -> Var:
    return binding.reads[0]


def _normalised(binding: Binding) -> tuple[int, ...]:
    """The axes over which it is one: before version 13 every one from `axis` on."""
    call, rank = binding.op_call, len(binding.var.tensor.dims)
    first = call.attr("axis", -1)
    assert type(first) is int
    first %= max(rank, 1)
    return tuple(range(first, rank if call.attr("flatten", 0) else first + 1))


def _op(reverse: Differentiating, op: str, type: Tensor, *args: Var) -> Var:
    return reverse.bind("d", [type], OpCall(op, args))[0]


def _sum(reverse: Differentiating, value: Var, over: tuple[int, ...]) -> Var:
    dims = tuple(1 if d in over else n for d, n in enumerate(value.tensor.dims))
    call = OpCall("ReduceSum", (value,), (("axes", over), ("keepdims", 1)))
    return reverse.bind("total", [Tensor(dims, value.tensor.element)], call)[0]


RULES: Mapping[str, Rule] = {
    "LogSoftmax": _log_softmax,
    "Relu": _relu,
    "Softmax": _softmax,
}
