"""The boundary of a call: what each parameter says beside what its argument says, the symbols that
are bound on the way, and the annotation that comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.compilation.operators import Operator, told_apart, value_labels
from explorer.ir.annotations import Derived, Match, signature_of, unify
from explorer.ir.calls import Branch, FunctionCall, KernelCall, Loop, Var
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Annotation, Callable, Tensor, TupleType
from widgets.draw.symbol_marks import symbols_of_dims
from widgets.model.compiled import Compiled
from widgets.relax.levels import lowered
from widgets.relax.shape_words import annotation_text
from widgets.relax.shapes import typed

LEVELS = {
    Match.DISJOINT: "never fits",
    Match.COARSE: "too little is known",
    Match.CHECKED: "checked by the run",
    Match.PROVED: "proved",
}


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One dim, or one dtype, of a parameter beside the argument's; `binds` is the symbol that the
    argument gives a value to.
    """

    param: str
    wanted: str
    found: str
    binds: str
    level: str
    reason: str


@dataclass(frozen=True, slots=True)
class Passed:
    """One parameter and the argument that is passed for it; `level` is the weakest of its dims',
    `binds` the symbols that get a value, as `n = 10`. A result has no level.
    """

    param: str
    wanted: str
    argument: str
    found: str
    level: str = ""
    binds: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundaryRow:
    """A call, and what a reader calls it: `kind` is "function", "branch", "loop" or "kernel";
    `level` is the weakest of its rows'. `results` go into arrays that the caller passes where it
    calls a kernel; else they are returned.
    """

    name: str
    called: str
    callee: str
    kind: str
    function: str
    rows: tuple[MatchRow, ...]
    level: str
    result: str
    ops: tuple[str, ...]
    passed: tuple[Passed, ...] = ()
    results: tuple[Passed, ...] = ()


def data(c: Compiled, known: Sequence[Operator] = ()) -> tuple[BoundaryRow, ...]:
    """The calls of functions after deduction, then those of kernels where they were made; `known`
    are the operators that they are called after.
    """
    found = (*of_program(typed(c), kernels=False), *of_program(lowered(c), kernels=True))
    labels = value_labels(known, lowered(c))
    called = told_apart(known, {r.name: (r.ops, r.callee) for r in found})
    return tuple(_called(r, called[r.name], labels) for r in found)


def _called(r: BoundaryRow, called: str, labels: Mapping[str, str]) -> BoundaryRow:
    """The row with values called as the reader knows them."""
    passed, results = (
        tuple(replace(p, argument=labels.get(p.argument, p.argument)) for p in part)
        for part in (r.passed, r.results)
    )
    return replace(r, called=called, passed=passed, results=results)


def of_program(program: Program, *, kernels: bool) -> tuple[BoundaryRow, ...]:
    """Every call of a function, or every call of a kernel."""
    functions = {f.name: f for f in program.functions}
    found = []
    for function, binding in program.bindings():
        made = _kernel(binding) if kernels else _calls(binding, functions, program.env)
        for call in made:
            found.append(_boundary(function, binding, call, program.env))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Call:
    callee: str
    kind: str
    names: tuple[str, ...]
    signature: Callable
    args: tuple[Annotation, ...]
    given: frozenset[str] = frozenset()
    passed: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def _boundary(function: Function, binding: Binding, call: _Call, env: ShapeEnv) -> BoundaryRow:
    found: Derived = unify(call.signature, call.args, env, call.given)
    rows = tuple(
        MatchRow(call.names[r.argument], r.param, r.arg, r.symbol, LEVELS[r.level], r.reason)
        for r in found.rows
    )
    name = ", ".join(v.name for v in binding.vars)
    return BoundaryRow(
        name,
        name,
        call.callee,
        call.kind,
        function.name,
        rows,
        LEVELS[found.level],
        annotation_text(found.result),
        tuple(sorted(binding.origin)),
        tuple(_passed(n, call, found) for n in range(len(call.args))),
        tuple(_results(binding, call, found)),
    )


def _passed(n: int, call: _Call, found: Derived) -> Passed:
    mine = [r for r in found.rows if r.argument == n]
    wanted = annotation_text(call.signature.params[n])  # type: ignore[index]
    worst = min((r.level for r in mine), default=Match.PROVED)
    return Passed(
        call.names[n],
        wanted,
        call.passed[n],
        annotation_text(call.args[n]),
        LEVELS[worst],
        tuple(f"{r.symbol} = {r.arg}" for r in mine if r.symbol),
        tuple(r.reason for r in mine if r.level is worst),
    )


def _results(binding: Binding, call: _Call, found: Derived) -> Iterator[Passed]:
    """What comes back: the results of the callee and what the caller calls them."""
    kind, made = call.signature.result, found.result
    inner = kind.items if isinstance(kind, TupleType) else (kind,)
    outer = made.items if isinstance(made, TupleType) else (made,)
    names = call.outputs or tuple(v.name for v in binding.vars)
    for name, v, wanted, got in zip(names, binding.vars, inner, outer):
        yield Passed(name, annotation_text(wanted), v.name, annotation_text(got))


def _calls(binding: Binding, functions: Mapping[str, Function], env: ShapeEnv) -> Iterator[_Call]:
    """The functions that a binding calls; a branch or a loop body sees its caller's symbols."""
    seen = frozenset(s.name for s in env.symbols)
    match binding.expr:
        case FunctionCall(name, args):
            yield _of(functions[name], "function", _named(args), frozenset())
        case Branch(_, then, orelse, args):
            for name in (then, orelse):
                yield _of(functions[name], "branch", _named(args), seen)
        case Loop(body, _, _, state, args, _):
            counted = (("iteration", Tensor((), "int64")), ("condition", Tensor((), "bool")))
            yield _of(functions[body], "loop", (*counted, *_named((*state, *args))), seen)


def _named(args: Iterable[Var]) -> tuple[tuple[str, Annotation], ...]:
    return tuple((a.name, a.type) for a in args)


def _of(
    function: Function, kind: str, args: Sequence[tuple[str, Annotation]], given: frozenset[str]
) -> _Call:
    names = tuple(p.name for p in function.params)
    made = tuple(v.name for v in function.outputs)
    passed, types = tuple(n for n, _ in args), tuple(t for _, t in args)
    signature = signature_of(function, given)
    return _Call(function.name, kind, names, signature, types, given, passed, made)


def _kernel(binding: Binding) -> Iterator[_Call]:
    """The kernel that a binding calls: its buffers are in the caller's symbols."""
    if isinstance(binding.expr, KernelCall):
        kernel, args = binding.expr.kernel, binding.expr.args
        made = tuple(_buffer(kernel, n) for n in kernel.outputs)
        result = made[0] if len(made) == 1 else TupleType(made)
        signature = Callable(tuple(_buffer(kernel, n) for n in kernel.inputs), result)
        types = tuple(a.type for a in args)
        seen = frozenset(symbols_of_dims(d for t in kernel.tensors for d in t.shape))
        passed = tuple(a.name for a in args)
        yield _Call(
            kernel.name, "kernel", kernel.inputs, signature, types, seen, passed, kernel.outputs
        )


def _buffer(kernel: Kernel, name: str) -> Tensor:
    spec = kernel.spec(name)
    return Tensor(spec.shape, spec.dtype)
