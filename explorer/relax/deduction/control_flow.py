"""What branches, loops and calls give: bodies see the caller's symbols, called functions do not."""

from __future__ import annotations

from dataclasses import replace

from explorer.errors import DtypeError, ShapeError, UnsupportedOperator
from explorer.ir.annotations import derive_call, erase, lca, signature_of
from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, Loop, Var
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation, Object, Tensor, TupleType
from explorer.relax.deduction.deducing import Deduced, Deducing, Known
from explorer.relax.deduction.fresh import Found
from explorer.relax.deduction.known import Knowledge, is_known
from explorer.relax.deduction.known_branch import OnlySide, inlined
from explorer.relax.deduction.stacked_rows import stacked, symbols_known


def branch(
    deduction: Deducing, binding: Binding, given: Branch, known: Knowledge, where: str
) -> Deduced:
    """What both sides have in common. Raises OnlySide where one of them can never be taken: it has
    no meaning, or what follows has none with the rank that it gives.
    """
    expr = Branch(
        known.var(given.cond), given.then, given.orelse, tuple(known.var(a) for a in given.args)
    )
    _check_flag(expr.cond, "If", where)
    args = [(a, known.values(a)) for a in expr.args]
    restore = deduction.saved()
    sides = [_side(deduction, n, args) for n in (given.then, given.orelse)]
    if _differ_in_rank(sides):
        for n, name in enumerate((given.then, given.orelse)):
            body = list(inlined(deduction.given[name], binding, given))
            sides[n] = deduction.contradiction(body, known) or sides[n]
    then, orelse = sides
    if isinstance(then, Function) and isinstance(orelse, Function):
        both = zip(then.outputs, orelse.outputs, strict=True)
        return [], expr, tuple(_common(deduction, a.type, b.type) for a, b in both)
    restore()
    if not isinstance(then, Function) and not isinstance(orelse, Function):
        raise then
    raise OnlySide(isinstance(then, Function))


def _side(deduction: Deducing, name: str, args: list[Known]) -> Function | ShapeError | DtypeError:
    """A side annotated, or what is wrong with it."""
    restore = deduction.saved()
    try:
        return deduction.function(deduction.given[name], args)
    except (ShapeError, DtypeError) as problem:
        restore()
        return problem


def _differ_in_rank(sides: list[Function | ShapeError | DtypeError]) -> bool:
    """Return True if the sides give a value of other ranks, and both are known."""
    then, orelse = ([v.type for v in s.outputs] if isinstance(s, Function) else () for s in sides)
    both = zip(then, orelse, strict=False)
    ranks = [(a.rank, b.rank) for a, b in both if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return any(None not in pair and pair[0] != pair[1] for pair in ranks)


def _common(deduction: Deducing, a: Annotation, b: Annotation) -> Found:
    """The annotation of a value that is of one type or of the other, in symbols of the scope."""
    env, scope = deduction.symbols.env, deduction.scope
    both = erase(lca(a, b, env), scope)
    dims: tuple[Dim | None, ...] | None = None
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape and a.rank == b.rank:
        dims = tuple(
            x if env.equal(x, y) and symbols_known(x, deduction) else None
            for x, y in zip(a.shape, b.shape or a.shape, strict=True)
        )
    return Found(both, None, dims)


def loop(
    deduction: Deducing, binding: Binding, given: Loop, known: Knowledge, where: str
) -> Deduced:
    """The state keeps its annotation from one iteration to the next; it is widened until so."""
    expr = replace(
        given,
        trip=given.trip and known.var(given.trip),
        cond=given.cond and known.var(given.cond),
        state=tuple(known.var(s) for s in given.state),
        args=tuple(known.var(a) for a in given.args),
    )
    if expr.cond is not None:
        _check_flag(expr.cond, "Loop", where)
    counters: list[Known] = [
        (Var("iteration", Tensor((), "int64")), None),
        (Var("condition", Tensor((), "bool")), None),
    ]
    args = [(a, known.values(a)) for a in expr.args]
    body = deduction.given[expr.body]
    state = [s.type for s in expr.state]
    while True:  # a dim that was widened stays so, a rank or dtype too: this ends
        entering: list[Known] = [(Var(s.name, t), None) for s, t in zip(expr.state, state)]
        done = deduction.function(body, [*counters, *entering, *args])
        after = [v.type for v in done.outputs[1 : 1 + len(state)]]
        wide = [_widened(deduction, s.name, a, b) for s, a, b in zip(expr.state, state, after)]
        if wide == state:
            break
        state = wide
    before, expr, rows = stacked(deduction, expr, done, known, binding)
    same = [s.type for s in expr.state]
    carried = tuple(
        Found(t) if t == first else _common(deduction, t, t) for t, first in zip(state, same)
    )
    return before, expr, (*carried, *rows)


def _widened(deduction: Deducing, name: str, before: Annotation, after: Annotation) -> Annotation:
    """The annotation before a step, made wide enough for what the step gives."""
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
    """Whether a dim is a symbol of the body's own: each trip gives it the value that it finds."""
    return not isinstance(dim, int) and dim.is_Symbol and dim.name in own


def call(deduction: Deducing, given: FunctionCall, known: Knowledge, where: str) -> Deduced:
    """What the signature says; a function without one is annotated for the arguments it gets."""
    args = tuple(known.var(a) for a in given.args)
    callee = deduction.given[given.function]
    if not all(_is_annotated(p.type) for p in callee.params):
        return _specialised(deduction, callee, args, known)
    _annotate_closed(deduction, callee)
    done = deduction.functions.get(callee.name, callee)
    derived = derive_call(signature_of(done), tuple(a.type for a in args), deduction.symbols.env)
    results = derived.result.items if isinstance(derived.result, TupleType) else (derived.result,)
    return [], FunctionCall(callee.name, args), tuple(Found(t) for t in results)


def gradient(deduction: Deducing, given: Gradient, known: Knowledge, where: str) -> Deduced:
    """What the function gives, then the types of the arguments it is differentiated by."""
    args = tuple(known.var(a) for a in given.args)
    seeds = tuple(known.var(s) for s in given.seeds)
    function = deduction.given[given.function]
    done = deduction.function(function, [(a, known.values(a)) for a in args])
    results = tuple(_common(deduction, v.type, v.type) for v in done.outputs)
    expr = replace(given, args=args, seeds=seeds)
    return [], expr, (*results, *(Found(args[n].type) for n in given.wrt))


def _is_annotated(type: Annotation) -> bool:
    return not isinstance(type, Tensor) or type.dtype is not None


def _annotate_closed(deduction: Deducing, callee: Function) -> None:
    """The body of a function that sees its own parameters only, once."""
    if callee.name in deduction.functions or callee.name in deduction.open:
        return
    deduction.open.add(callee.name)
    outside, deduction.scope = deduction.scope, set()
    declared = tuple(v.type for v in callee.outputs)
    done = deduction.function(callee, [(p, None) for p in callee.params])
    _check_declared(callee, declared, done)
    deduction.scope = outside


def _check_declared(callee: Function, declared: tuple[Annotation, ...], done: Function) -> None:
    for wanted, found in zip(declared, done.outputs, strict=True):
        if not isinstance(wanted, Tensor) or not isinstance(found.type, Tensor):
            continue
        if wanted.dtype is not None and wanted.dtype != found.type.dtype:
            raise DtypeError(
                f"{callee.name} is declared to give {wanted} and gives {found.type}",
                where=callee.name,
            )


def _specialised(
    deduction: Deducing, callee: Function, args: tuple[Var, ...], known: Knowledge
) -> Deduced:
    """A copy of the function for these arguments; the first one keeps the name."""
    if callee.name in deduction.open:
        raise UnsupportedOperator(
            f"{callee.name} calls itself, and its parameters are not annotated", where=callee.name
        )
    name, count = callee.name, 1
    while name in deduction.functions:
        count += 1
        name = f"{callee.name}.{count}"
    deduction.open.add(callee.name)
    done = deduction.function(callee, [(a, known.values(a)) for a in args], name)
    deduction.open.discard(callee.name)
    expr: Expr = FunctionCall(name, args)
    found = tuple(Found(erase(v.type, deduction.scope)) for v in done.outputs)
    return [], expr, found


def _check_flag(cond: Var, op: str, where: str) -> None:
    """A condition is one bool."""
    known = cond.type if is_known(cond) else None
    if isinstance(known, Tensor) and (known.element != "bool" or known.elements != 1):
        raise DtypeError(
            f"{op} at {where!r}: the condition must be one bool and is {known}", where=where
        )
