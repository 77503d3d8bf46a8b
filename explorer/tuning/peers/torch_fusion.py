"""Fusion of operators that PyTorch has as one call and an exporter decomposed.

    h = MatMul(x, w); y = Add(h, b)  ->  y = torch.linear(x, w, b)

The result is for `torch_plan` only: operators named torch.… are calls of PyTorch and not operators
of Ironworks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import pi, sqrt

import numpy as np

from explorer.ir.calls import AttrValue, OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor, dtype_of
from explorer.relax.graph_patterns import Match, Op, find, op
from explorer.transforms.simplify.redundancy import remove_dead_code

Make = Callable[[Match, Mapping[str, Constant]], OpCall | None]
MASKED = -1e9  # masks of at most this value exclude an element


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and the function that builds its call, or returns None if values forbid it."""

    pattern: Op
    make: Make


def fuse(program: Program) -> Program:
    """Fuse operators that PyTorch has as one call; values stay the same up to rounding."""
    for rule in RULES:
        for function in program.functions:
            program = program.with_function(_apply_rule(function, rule, program.constants))
    for function in program.functions:
        rewritten, constants = attention(function, program.constants)
        program = replace(program.with_function(rewritten), constants=constants)
    return remove_dead_code(program)


def _apply_rule(function: Function, rule: Rule, constants: Mapping[str, Constant]) -> Function:
    outputs = {v.name for v in function.outputs}
    uses = Counter(v.name for b in function.body for v in b.reads)
    makers = {b.var.name: b for b in function.body if len(b.vars) == 1}
    gone: set[str] = set()
    fused_bindings: dict[str, Binding] = {}
    for binding in reversed(function.body):
        for match in find(rule.pattern, binding, makers, constants):
            inner = {v.name for b in match.inner for v in b.vars}
            mine = {binding.vars[0].name, *inner}
            if (
                inner & outputs
                or mine & gone
                or mine & fused_bindings.keys()
                or _read_outside(match, uses)
            ):
                continue
            call = rule.make(match, constants)
            if call is not None:
                gone |= inner
                origin = frozenset[str]().union(*(b.origin for b in match.bindings))
                fused_bindings[binding.vars[0].name] = Binding(binding.vars, call, origin)
                break
    body = tuple(
        fused_bindings.get(b.vars[0].name, b) for b in function.body if b.vars[0].name not in gone
    )
    return replace(function, body=body)


def _read_outside(match: Match, uses: Counter[str]) -> bool:
    inside = Counter(v.name for b in match.bindings for v in b.reads)
    return any(uses[v.name] > inside[v.name] for b in match.inner for v in b.vars)


def _shape(var: Var | None) -> tuple[object, ...]:
    kind = None if var is None else var.type
    return tuple(kind.shape) if isinstance(kind, Tensor) and kind.shape is not None else ()


def _call(name: str) -> Make:
    return lambda match, constants: OpCall(name, match.args)


def _gelu(approximate: str) -> Make:
    attrs = (("approximate", approximate),)
    return lambda match, constants: OpCall("Gelu", match.args, attrs)


def _linear(match: Match, constants: Mapping[str, Constant]) -> OpCall | None:
    """Build a linear layer with a constant matrix and a bias along its columns."""
    x, w, b = match.args
    weights = [None if v is None else constants.get(v.name) for v in (w, b)]
    if any(c is None for c in weights) or len(_shape(w)) != 2 or len(_shape(x)) < 2:
        return None
    return OpCall("torch.linear", (x, w, b)) if _shape(b) == _shape(w)[1:] else None


def _is_over_rows(match: Match, x: Var | None) -> bool:
    """Return True if every mean is over the last dim."""
    means = [b for b in match.bindings if isinstance(b.expr, OpCall) and b.expr.op == "ReduceMean"]
    last = ((-1,), (len(_shape(x)) - 1,))
    return all(
        isinstance(b.expr, OpCall) and b.expr.attr("axes") in last and b.expr.attr("keepdims", 1)
        for b in means
    )


def _number(var: Var | None, constants: Mapping[str, Constant]) -> float | None:
    constant = None if var is None else constants.get(var.name)
    if constant is None or constant.size != 1:
        return None
    return float(constant.array.reshape(-1)[0])


def _rms_norm(match: Match, constants: Mapping[str, Constant]) -> OpCall | None:
    w, x, epsilon = match.args
    least = _number(epsilon, constants)
    if least is None or _shape(w) != _shape(x)[-1:] or not _is_over_rows(match, x):
        return None
    return OpCall("torch.rms_norm", (x, w), (("epsilon", least),))


def _layer_norm(match: Match, constants: Mapping[str, Constant]) -> OpCall | None:
    b, w, x, epsilon = match.args
    least = _number(epsilon, constants)
    wide = _shape(x)[-1:]
    if least is None or _shape(w) != wide or _shape(b) != wide or not _is_over_rows(match, x):
        return None
    return OpCall("LayerNormalization", (x, w, b), (("axis", -1), ("epsilon", least)))


def _gelu_rules() -> Iterator[Rule]:
    """Yield rules for GELU, by erf and by tanh, in the operand orders of exporters."""
    for inside in (op("Div", "x", sqrt(2)), op("Mul", "x", sqrt(0.5))):
        bell = op("Add", op("Erf", inside), 1.0)
        yield from (Rule(p, _gelu("none")) for p in _half_of("x", bell))
    for cube in (op("Pow", "x", 3.0), op("Mul", "x", op("Mul", "x", "x"))):
        sum_ = op("Add", "x", op("Mul", cube, 0.044715))
        bell = op("Add", op("Tanh", op("Mul", sum_, sqrt(2 / pi))), 1.0)
        yield from (Rule(p, _gelu("tanh")) for p in _half_of("x", bell))


def _half_of(x: str, bell: Op) -> Iterator[Op]:
    yield op("Mul", x, op("Mul", bell, 0.5))
    yield op("Mul", op("Mul", x, 0.5), bell)
    yield op("Mul", op("Mul", x, bell), 0.5)


def _norm_rules() -> Iterator[Rule]:
    """Yield rules for layer norms, then for RMS norms.

    The rest of a layer norm after its mean matches an RMS norm too.
    """
    centred = op("Sub", "x", op("ReduceMean", "x"))
    for square in (op("Pow", centred, 2.0), op("Mul", centred, centred)):
        root = op("Sqrt", op("Add", op("ReduceMean", square), "epsilon"))
        for normalised in (op("Div", centred, root), op("Mul", centred, op("Reciprocal", root))):
            yield Rule(op("Add", "b", op("Mul", "w", normalised)), _layer_norm)
    for square in (op("Pow", "x", 2.0), op("Mul", "x", "x")):
        root = op("Sqrt", op("Add", op("ReduceMean", square), "epsilon"))
        yield Rule(op("Mul", "w", op("Mul", "x", op("Reciprocal", root))), _rms_norm)
        yield Rule(op("Mul", "w", op("Div", "x", root)), _rms_norm)


RULES = (
    *_gelu_rules(),
    *_norm_rules(),
    Rule(op("Mul", "x", op("Sigmoid", "x")), _call("torch.silu")),
    Rule(op("Reciprocal", op("Sqrt", "x")), _call("torch.rsqrt")),
    Rule(op("Add", op("MatMul", "x", "w"), "b"), _linear),
)


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
        if constant is None or constant.size != 1:
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
