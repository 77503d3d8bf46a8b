"""Attention as one PyTorch call, matched in graphs where an exporter or a user decomposed it.

The pattern is softmax(q kT * scale + mask) v.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from explorer.ir.calls import AttrValue, OpCall, Var
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.types import Tensor, dtype_of

MASKED = -1e9  # masks of at most this value exclude an element


@dataclass(slots=True)
class _Graph:
    """Producers and readers of each value, the constants, and the bindings added on the way."""

    makers: Mapping[str, Binding]
    uses: Counter[str]
    constants: dict[str, Constant]
    added: list[Binding] = field(default_factory=list)

    def call(self, var: Var | None, once: bool = True) -> OpCall | None:
        """Return the operator that computes a value, if nothing else reads that value."""
        binding = None if var is None else self.makers.get(var.name)
        if binding is None or var is None or (once and self.uses[var.name] != 1):
            return None
        return binding.expr if isinstance(binding.expr, OpCall) else None

    def number(self, var: Var | None) -> float | None:
        """Return the value of a constant of one element."""
        constant = None if var is None else self.constants.get(var.name)
        if constant is None or constant.array.size != 1:
            return None
        return float(constant.array.reshape(-1)[0])


@dataclass(frozen=True, slots=True)
class _Scores:
    """q kT * scale + masks."""

    left: Var
    right: Var
    scale: float
    masks: tuple[Var, ...] = ()


def attention(
    function: Function, constants: Mapping[str, Constant]
) -> tuple[Function, dict[str, Constant]]:
    """Replace every attention by `torch.attention(q, k, v, mask)`.

    Returns the function, and the constants with its masks; the replaced operators stay without
    readers.
    """
    uses = Counter(v.name for b in function.body for v in b.reads)
    uses.update(v.name for v in function.outputs)
    makers = {b.var.name: b for b in function.body if len(b.vars) == 1}
    graph = _Graph(makers, uses, dict(constants))
    body: list[Binding] = []
    for binding in function.body:
        replacement = _match_attention(binding, graph)
        body += [*graph.added, binding if replacement is None else replacement]
        graph.added.clear()
    return replace(function, body=tuple(body)), graph.constants


def _match_attention(binding: Binding, graph: _Graph) -> Binding | None:
    product = binding.expr
    if not isinstance(product, OpCall) or product.op != "MatMul":
        return None
    softmax = graph.call(product.args[0])
    if softmax is None or softmax.op != "Softmax" or softmax.attr("flatten"):
        return None
    rank = len(_shape(binding.var))
    scores = _match_scores(softmax.args[0], graph, rank)
    if scores is None or rank < 3 or softmax.attr("axis", -1) not in (-1, rank - 1):
        return None
    mask = _build_mask(scores, graph, binding.var.name)
    if mask is None:
        return None
    q, scale = _split_scale(scores.left, graph)
    kt, more = _split_scale(scores.right, graph)
    attrs = (("scale", scores.scale * scale * more), ("causal", int(mask == "causal")))
    added = mask if isinstance(mask, Var) else None
    k = _transpose(kt, binding.var.name, graph)
    return replace(binding, expr=OpCall("torch.attention", (q, k, product.args[1], added), attrs))


def _shape(var: Var | None) -> tuple[object, ...]:
    kind = None if var is None else var.type
    return tuple(kind.shape) if isinstance(kind, Tensor) and kind.shape is not None else ()


def _match_scores(var: Var | None, graph: _Graph, rank: int) -> _Scores | None:
    """Match a softmax's operand as scores of two values, or return None."""
    call = graph.call(var)
    if call is None:
        return None
    match call.op, call.args:
        case "MatMul", (Var() as left, Var() as right):
            return _Scores(left, right, 1.0)
        case (("Mul" | "Div"), (a, b)):
            return _match_scaled_scores(call.op, a, b, graph, rank)
        case "Add", (Var() as a, Var() as b):
            for inner, mask in ((a, b), (b, a)):
                inner_scores = _match_scores(inner, graph, rank)
                if inner_scores is not None:
                    return replace(inner_scores, masks=(*inner_scores.masks, mask))
        case "Reshape", (inner, *_):
            long_dims = [tuple(n for n in _shape(v) if n != 1) for v in (var, inner)]
            return _match_scores(inner, graph, rank) if long_dims[0] == long_dims[1] else None
    return None


def _match_scaled_scores(
    op: str, a: Var | None, b: Var | None, graph: _Graph, rank: int
) -> _Scores | None:
    for inner, factor in ((a, b), (b, a)) if op == "Mul" else ((a, b),):
        number = graph.number(factor)
        inner_scores = None if number is None else _match_scores(inner, graph, rank)
        if inner_scores is not None and number is not None and not inner_scores.masks:
            return replace(
                inner_scores, scale=inner_scores.scale * (number if op == "Mul" else 1 / number)
            )
    return None


def _build_mask(scores: _Scores, graph: _Graph, name: str) -> Var | str | None:
    """Return the mask added to the scores: a value, "causal", or "" for none.

    Returns None for more than one value that only a run determines.
    """
    arrays = [graph.constants.get(m.name) for m in scores.masks]
    if not scores.masks:
        return ""
    if len(scores.masks) == 1 and arrays[0] is None:
        return scores.masks[0] if len(_shape(scores.masks[0])) in (2, 4) else None
    if any(a is None for a in arrays):
        return None
    total = np.zeros((1, 1, 1, 1), np.float32)
    for a in arrays:
        assert a is not None
        spare = a.array.ndim - 4
        if spare > 0 and a.array.shape[:spare] != (1,) * spare:
            return None
        total = total + (a.array.reshape(a.array.shape[spare:]) if spare > 0 else a.array)
    if not total.any():
        return ""
    if _is_causal(total):
        return "causal"
    mask = Var(f"{name}.mask", Tensor(tuple(total.shape), dtype_of(total)))
    graph.constants[mask.name] = Constant(total)
    return mask


def _is_causal(mask: np.ndarray) -> bool:
    rows, columns = mask.shape[-2:]
    if rows != columns or mask.size != rows * columns:
        return False
    above = np.triu(np.ones((rows, columns), bool), 1)
    flat = mask.reshape(rows, columns)
    return bool((flat[~above] == 0).all() and (flat[above] <= MASKED).all())


def _split_scale(var: Var, graph: _Graph) -> tuple[Var, float]:
    """Split a value into an unscaled value and a scale."""
    call = graph.call(var)
    if call is not None and call.op in ("Mul", "Div"):
        a, b = call.args
        for inner, factor in ((a, b), (b, a)) if call.op == "Mul" else ((a, b),):
            number = graph.number(factor)
            if number is not None and inner is not None and _shape(inner) == _shape(var):
                return inner, number if call.op == "Mul" else 1 / number
    return var, 1.0


def _transpose(var: Var, name: str, graph: _Graph) -> Var:
    """Return the value with its last two dims swapped: a view in PyTorch."""
    *outer, rows, columns = var.tensor.dims
    perm: tuple[AttrValue, ...] = (*range(len(outer)), len(outer) + 1, len(outer))
    transposed = Var(f"{name}.k", replace(var.tensor, shape=(*outer, columns, rows)))
    graph.added.append(Binding((transposed,), OpCall("Transpose", (var,), (("perm", perm),))))
    return transposed
