"""Annotations of branches, loops and calls.

Bodies see the caller's symbols; called functions do not. If the taken arm of a branch is known, its
body replaces the branch:

    y = if c: f(x) else g(x), where c is true  ->  the body of f, whose result is y

If only one arm has a meaning, a match_cast checks the condition first:

    y = if n == 1: Squeeze(x) else x; z = LSTM(Unsqueeze(y)), which takes three dims
    ->  y.taken: shape[n] = match 1; y = Squeeze(x); z = LSTM(Unsqueeze(y))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from explorer.errors import DtypeError, ShapeError, UnsupportedOperator
from explorer.ir.annotations import (
    Match,
    defined_by,
    derive_call,
    erase,
    lca,
    match,
    signature_of,
    symbols_in,
)
from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, Loop, MatchCast, OpCall, Var
from explorer.ir.dims import Dim, ShapeEnv, is_symbol, simplify
from explorer.ir.program import Binding, Constant, Function
from explorer.ir.text.text_tokens import print_type
from explorer.ir.types import Annotation, Object, ShapeType, Tensor, TupleType
from explorer.relax.deduction.knowledge import (
    Deduced,
    DeducedValue,
    Deducing,
    Knowledge,
    KnownValue,
    all_integers,
    is_known,
)
from explorer.relax.deduction.stacked_rows import are_symbols_in_scope, stack_rows
from explorer.transforms.simplify.substitution import with_reads

NEVER = "its branch is never taken"
NO_MEANING = "its branch has no meaning, so it is never taken"


def branch(
    deduction: Deducing, binding: Binding, source: Branch, knowledge: Knowledge, where: str
) -> Deduced:
    """Annotate a branch with what both arms have in common.

    Raise OnlyArm if one arm can never be taken. Then it has no meaning, or what follows has none
    with the rank that it returns.
    """
    expr = Branch(
        knowledge.var(source.cond),
        source.then,
        source.orelse,
        tuple(knowledge.var(a) for a in source.args),
    )
    _check_flag(expr.cond, "If", where)
    args = [(a, knowledge.values(a)) for a in expr.args]
    restore = deduction.checkpoint()
    arms = [_annotate_arm(deduction, n, args) for n in (source.then, source.orelse)]
    if _differ_in_rank(arms):
        for n, name in enumerate((source.then, source.orelse)):
            body = list(inline_arm(deduction.source_functions[name], binding, source))
            arms[n] = deduction.contradiction(body, knowledge) or arms[n]
    then, orelse = arms
    if isinstance(then, Function) and isinstance(orelse, Function):
        result_pairs = zip(then.outputs, orelse.outputs, strict=True)
        return [], expr, tuple(_common(deduction, a.type, b.type) for a, b in result_pairs)
    restore()
    if not isinstance(then, Function) and not isinstance(orelse, Function):
        raise then
    raise OnlyArm(isinstance(then, Function))


def _annotate_arm(
    deduction: Deducing, name: str, args: list[KnownValue]
) -> Function | ShapeError | DtypeError:
    """Annotate an arm, or return the error."""
    restore = deduction.checkpoint()
    try:
        return deduction.function(deduction.source_functions[name], args)
    except (ShapeError, DtypeError) as problem:
        restore()
        return problem


def _differ_in_rank(arms: list[Function | ShapeError | DtypeError]) -> bool:
    """Return True if the arms return a value of different ranks, and both ranks are known."""
    then, orelse = (
        [v.type for v in arm.outputs] if isinstance(arm, Function) else () for arm in arms
    )
    pairs = zip(then, orelse, strict=False)
    ranks = [(a.rank, b.rank) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return any(None not in pair and pair[0] != pair[1] for pair in ranks)


def _common(deduction: Deducing, a: Annotation, b: Annotation) -> DeducedValue:
    """Return the common annotation of two types, in symbols of the scope."""
    env, scope = deduction.symbols.env, deduction.scope
    common = erase(lca(a, b, env), scope)
    dims: tuple[Dim | None, ...] | None = None
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape and a.rank == b.rank:
        dims = tuple(
            x if env.equal(x, y) and are_symbols_in_scope(x, deduction) else None
            for x, y in zip(a.shape, b.shape or a.shape, strict=True)
        )
    return DeducedValue(common, None, dims)


def loop(
    deduction: Deducing, binding: Binding, source: Loop, knowledge: Knowledge, where: str
) -> Deduced:
    """Annotate a loop; the state is widened until an iteration keeps its annotation."""
    expr = replace(
        source,
        trip=source.trip and knowledge.var(source.trip),
        cond=source.cond and knowledge.var(source.cond),
        state=tuple(knowledge.var(s) for s in source.state),
        args=tuple(knowledge.var(a) for a in source.args),
    )
    if expr.cond is not None:
        _check_flag(expr.cond, "Loop", where)
    counters: list[KnownValue] = [
        (Var("iteration", Tensor((), "int64")), None),
        (Var("condition", Tensor((), "bool")), None),
    ]
    args = [(a, knowledge.values(a)) for a in expr.args]
    body = deduction.source_functions[expr.body]
    state = [s.type for s in expr.state]
    while True:  # a dim that was widened stays so, a rank or dtype too: this ends
        entering: list[KnownValue] = [(Var(s.name, t), None) for s, t in zip(expr.state, state)]
        annotated_body = deduction.function(body, [*counters, *entering, *args])
        after = [v.type for v in annotated_body.outputs[1 : 1 + len(state)]]
        widened = [_widened(deduction, s.name, a, b) for s, a, b in zip(expr.state, state, after)]
        if widened == state:
            break
        state = widened
    before, expr, rows = stack_rows(deduction, expr, annotated_body, knowledge, binding)
    initial = [s.type for s in expr.state]
    carried = tuple(
        DeducedValue(t) if t == first else _common(deduction, t, t)
        for t, first in zip(state, initial)
    )
    return before, expr, (*carried, *rows)


def _widened(deduction: Deducing, name: str, before: Annotation, after: Annotation) -> Annotation:
    """Widen the annotation before a step so that it covers the one after it."""
    if before == after:
        return before
    if not isinstance(before, Tensor) or not isinstance(after, Tensor):
        return Object()
    if before.dtype != after.dtype or before.rank is None or before.rank != after.rank:
        return lca(before, after, deduction.symbols.env)
    if before.shape is None or after.shape is None:
        return Tensor(deduction.symbols.completed(name, (None,) * before.rank), before.dtype)
    env, own = deduction.symbols.env, set(deduction.symbols.taken) - deduction.scope
    dims = tuple(
        a if a == b or (_is_own(a, own)) or env.equal(a, b) else None
        for a, b in zip(before.shape, after.shape, strict=True)
    )
    return Tensor(deduction.symbols.completed(name, dims), before.dtype)


def _is_own(dim: Dim, own: set[str]) -> bool:
    """Return True if a dim is a symbol of the body's own, which each trip binds anew."""
    return not isinstance(dim, int) and dim.is_Symbol and dim.name in own


def call(deduction: Deducing, source: FunctionCall, knowledge: Knowledge, where: str) -> Deduced:
    """Annotate a call by the signature; a function without one is annotated for its arguments."""
    args = tuple(knowledge.var(a) for a in source.args)
    callee = deduction.source_functions[source.function]
    if not all(_is_annotated(p.type) for p in callee.params):
        return _specialised(deduction, callee, args, knowledge)
    _annotate_closed(deduction, callee)
    annotated = deduction.functions.get(callee.name, callee)
    derived = derive_call(
        signature_of(annotated), tuple(a.type for a in args), deduction.symbols.env
    )
    results = derived.result.items if isinstance(derived.result, TupleType) else (derived.result,)
    return [], FunctionCall(callee.name, args), tuple(DeducedValue(t) for t in results)


def gradient(deduction: Deducing, source: Gradient, knowledge: Knowledge, where: str) -> Deduced:
    """Annotate a gradient: the function's results, then those of the differentiated arguments."""
    args = tuple(knowledge.var(a) for a in source.args)
    seeds = tuple(knowledge.var(s) for s in source.seeds)
    function = deduction.source_functions[source.function]
    annotated = deduction.function(function, [(a, knowledge.values(a)) for a in args])
    results = tuple(_common(deduction, v.type, v.type) for v in annotated.outputs)
    expr = replace(source, args=args, seeds=seeds)
    return [], expr, (*results, *(DeducedValue(args[n].type) for n in source.wrt))


def _is_annotated(type: Annotation) -> bool:
    return not isinstance(type, Tensor) or type.dtype is not None


def _annotate_closed(deduction: Deducing, callee: Function) -> None:
    """Annotate the body of a function that sees only its own parameters, once."""
    if callee.name in deduction.functions or callee.name in deduction.open:
        return
    deduction.open.add(callee.name)
    outside, deduction.scope = deduction.scope, set()
    declared = tuple(v.type for v in callee.outputs)
    annotated = deduction.function(callee, [(p, None) for p in callee.params])
    _check_declared(callee, declared, annotated)
    deduction.scope = outside


def _check_declared(
    callee: Function, declared: tuple[Annotation, ...], annotated: Function
) -> None:
    for expected, result in zip(declared, annotated.outputs, strict=True):
        if not isinstance(expected, Tensor) or not isinstance(result.type, Tensor):
            continue
        if expected.dtype is not None and expected.dtype != result.type.dtype:
            raise DtypeError(
                f"{callee.name} is declared to return {expected} and returns {result.type}",
                where=callee.name,
            )


def _specialised(
    deduction: Deducing, callee: Function, args: tuple[Var, ...], knowledge: Knowledge
) -> Deduced:
    """Annotate a copy of the function for these arguments; the first one keeps the name."""
    if callee.name in deduction.open:
        raise UnsupportedOperator(
            f"{callee.name} calls itself, and its parameters are not annotated", where=callee.name
        )
    name, count = callee.name, 1
    while name in deduction.functions:
        count += 1
        name = f"{callee.name}.{count}"
    deduction.open.add(callee.name)
    annotated = deduction.function(callee, [(a, knowledge.values(a)) for a in args], name)
    deduction.open.discard(callee.name)
    expr: Expr = FunctionCall(name, args)
    results = tuple(DeducedValue(erase(v.type, deduction.scope)) for v in annotated.outputs)
    return [], expr, results


def _check_flag(cond: Var, op: str, where: str) -> None:
    """Raise DtypeError if a condition is not one bool."""
    flag_type = cond.type if is_known(cond) else None
    if isinstance(flag_type, Tensor) and (flag_type.element != "bool" or flag_type.elements != 1):
        raise DtypeError(
            f"{op} at {where!r}: the condition must be one bool and is {flag_type}", where=where
        )


def taken_arm(
    deduction: Deducing, binding: Binding, expr: Branch, knowledge: Knowledge
) -> list[Binding] | None:
    """Return the bindings of the taken arm, not yet annotated, or None if only a run knows."""
    flag = knowledge.values(knowledge.var(expr.cond))
    if flag is None or flag.size != 1 or not all_integers(flag):
        return None
    taken, other = expr.then, expr.orelse
    if not bool(flag.reshape(())[()]):
        taken, other = other, taken
    dropped = sorted({o for o in _origins(deduction, other, set())})
    deduction.dropped += [(name, NEVER) for name in dropped]
    return list(inline_arm(deduction.source_functions[taken], binding, expr))


class OnlyArm(Exception):
    """The signal that only one arm of a branch has a meaning: `then`, or the other one."""

    def __init__(self, then: bool) -> None:
        """Remember which arm it is."""
        super().__init__(then)
        self.then = then


def require_arm(
    deduction: Deducing, binding: Binding, only: OnlyArm, knowledge: Knowledge
) -> list[Binding]:
    """Return the bindings of the only meaningful arm, behind a check that it is taken."""
    expr = binding.expr
    assert isinstance(expr, Branch)
    taken, other = (expr.then, expr.orelse) if only.then else (expr.orelse, expr.then)
    dropped = sorted({o for o in _origins(deduction, other, set())})
    deduction.dropped += [(name, NO_MEANING) for name in dropped]
    check = list(_check(deduction, binding, expr.cond, only.then, knowledge))
    return [*check, *inline_arm(deduction.source_functions[taken], binding, expr)]


def _check(
    deduction: Deducing, binding: Binding, cond: Var, expected: bool, knowledge: Knowledge
) -> Iterator[Binding]:
    """Yield the match_cast that checks a condition; a comparison of extents casts these."""
    name = f"{binding.vars[0].name}.taken"
    pair = knowledge.compared(cond) if expected else None
    if pair is None:
        number, row = Var(f"{name}.number", Tensor()), Var(f"{name}.row", Tensor())
        yield Binding((number,), OpCall("Cast", (cond,), (("to", "int64"),)), binding.origin)
        yield Binding((row,), OpCall("Reshape", (number,), (("dims", (1,)),)), binding.origin)
        yield Binding((Var(name, ShapeType((int(expected),))),), MatchCast(row), binding.origin)
        return
    dim, extent = pair
    if is_symbol(dim) or not isinstance(extent, int):  # a bare symbol would be defined by it
        dim, extent = simplify(dim - extent), 0
    constant = Constant(np.array([extent], np.int64))
    deduction.constants[f"{name}.extent"] = constant
    row = Var(f"{name}.extent", constant.type)
    yield Binding((Var(name, ShapeType((dim,))),), MatchCast(row), binding.origin)


def inline_arm(function: Function, binding: Binding, expr: Branch) -> Iterator[Binding]:
    """Yield an arm's body with arguments for parameters and the branch's results for outputs."""
    values = {p.name: a for p, a in zip(function.params, expr.args, strict=True)}
    bound = {v.name for b in function.body for v in b.vars}
    results: dict[str, Var] = {}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if out.name in bound:
            results.setdefault(out.name, result)
    for b in function.body:
        new_vars = tuple(results.get(v.name) or _renamed(v, binding) for v in b.vars)
        origin = b.origin | (binding.origin if any(v in binding.vars for v in new_vars) else set())
        yield Binding(new_vars, with_reads(b.expr, values), origin)
        values |= {v.name: new for v, new in zip(b.vars, new_vars, strict=True)}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if results.get(out.name) != result:
            read = values.get(out.name, out)
            yield Binding((result,), OpCall("Identity", (read,)), binding.origin)


def _renamed(var: Var, binding: Binding) -> Var:
    return replace(var, name=f"{binding.vars[0].name}.{var.name}")


def _origins(deduction: Deducing, name: str, seen: set[str]) -> Iterator[str]:
    """Yield the source operators of a function, and of those that it calls."""
    if name in seen:
        return
    seen.add(name)
    for b in deduction.source_functions[name].body:
        yield from b.origin
        match b.expr:
            case Branch(_, then, orelse, _):
                yield from _origins(deduction, then, seen)
                yield from _origins(deduction, orelse, seen)
            case Loop(body, _, _, _, _, _, _):
                yield from _origins(deduction, body, seen)
            case FunctionCall(callee, _) | Gradient(callee):
                yield from _origins(deduction, callee, seen)


def declared_results(declared: Function, deduced: Function, env: ShapeEnv) -> tuple[Var, ...]:
    """Return the results as declared if the run must check that, otherwise as deduced.

    Raises ShapeError or DtypeError if a result can never be as declared.
    """
    scope = {n for p in deduced.params for n in defined_by(p.type)}
    scope |= {
        n for b in deduced.body if isinstance(b.expr, MatchCast) for n in defined_by(b.var.type)
    }
    both = zip(declared.outputs, deduced.outputs, strict=True)
    return tuple(_declared_result(expected, var, scope, env) for expected, var in both)


def _declared_result(expected: Var, deduced: Var, scope: set[str], env: ShapeEnv) -> Var:
    if (
        expected.type == deduced.type
        or expected.type == Tensor()
        or not symbols_in(expected.type) <= scope
    ):
        return deduced
    level, why = match(expected.type, deduced.type, env)
    if level == Match.DISJOINT:
        a, b = expected.type, deduced.type
        of_dtype = isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype != b.dtype
        raise (DtypeError if of_dtype else ShapeError)(
            f"the result {expected.name!r} must be {print_type(a)} and is {print_type(b)}: {why}",
            where=expected.name,
            expected=print_type(a),
            actual=print_type(b),
        )
    return deduced if level == Match.PROVED else Var(deduced.name, expected.type)
