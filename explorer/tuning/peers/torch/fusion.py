"""Fusion of operators that PyTorch has as one call and an exporter decomposed.

    h = MatMul(x, w); y = Add(h, b)  ->  y = torch.linear(x, w, b)

The result is for `torch_plan` only: operators named torch.… are calls of PyTorch and not operators
of Ironworks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import pi, sqrt

from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.shapes.dims import Sizes
from explorer.ir.types import Tensor
from explorer.passes.simplify.bind_symbols import bind_symbols
from explorer.passes.simplify.dead_code import remove_dead_code
from explorer.passes.simplify.fold_constants import fold_constants
from explorer.relax import deduce
from explorer.relax.dispatch import Match, Op, op
from explorer.relax.dispatch.pattern import find
from explorer.tuning.peers.torch.attention import attention

Make = Callable[[Match, Mapping[str, Constant]], OpCall | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and the function that builds its call, or returns None if values forbid it."""

    pattern: Op
    make: Make


def specialise(program: Program, sizes: Sizes) -> Program:
    """Return the program for these sizes, with everything independent of inputs folded.

    Shapes and masks are no operators in a PyTorch user's model.
    """
    bound_sizes = {name: sizes[name] for name in program.env.hints if name in sizes}
    bound = bind_symbols(program, bound_sizes) if bound_sizes else program
    return remove_dead_code(fold_constants(deduce(bound)))


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
    if constant is None or constant.array.size != 1:
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
