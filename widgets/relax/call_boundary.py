"""The boundary of a call: parameter and argument annotations, bound symbols, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.compilation.operators import Operator, distinct_labels, value_labels
from explorer.ir.annotations import Derived, Match, signature_of, unify
from explorer.ir.calls import Branch, FunctionCall, KernelCall, Loop, Var
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Annotation, Callable, Tensor, TupleType
from widgets.draw.symbol_marks import symbols_of_dims
from widgets.model.compiled import Compiled
from widgets.relax.levels import lowered_program
from widgets.relax.shape_words import annotation_text
from widgets.relax.shapes import inferred_program

LEVELS = {
    Match.DISJOINT: "never fits",
    Match.COARSE: "too little is known",
    Match.CHECKED: "checked by the run",
    Match.PROVED: "proved",
}


@dataclass(frozen=True, slots=True)
class MatchRow:
    """One dim or dtype of a parameter and of its argument; `binds` is the symbol it defines."""

    param: str
    declared: str
    actual: str
    binds: str
    level: str
    reason: str


@dataclass(frozen=True, slots=True)
class PassedValue:
    """One parameter and the argument passed for it.

    `level` is the weakest of its dims' levels, "" for a result; `binds` are the symbols that get a
    value, as `n = 10`.
    """

    param: str
    declared: str
    argument: str
    actual: str
    level: str = ""
    binds: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundaryRow:
    """A call with its display name; `kind` is "function", "branch", "loop" or "kernel".

    `level` is the weakest of its rows. `results` of a kernel call go into arrays that the caller
    passes; other results are returned.
    """

    name: str
    display_name: str
    callee: str
    kind: str
    function: str
    rows: tuple[MatchRow, ...]
    level: str
    result: str
    ops: tuple[str, ...]
    passed: tuple[PassedValue, ...] = ()
    results: tuple[PassedValue, ...] = ()


def data(c: Compiled, operators: Sequence[Operator] = ()) -> tuple[BoundaryRow, ...]:
    """Return the calls of functions after shape inference, then the kernel calls if there are any.

    `operators` are the source operators, from which the display names come.
    """
    rows = (
        *of_program(inferred_program(c), kernels=False),
        *of_program(lowered_program(c), kernels=True),
    )
    labels = value_labels(operators, lowered_program(c))
    display_names = distinct_labels(operators, {r.name: (r.ops, r.callee) for r in rows})
    return tuple(_with_display_names(r, display_names[r.name], labels) for r in rows)


def _with_display_names(
    r: BoundaryRow, display_name: str, labels: Mapping[str, str]
) -> BoundaryRow:
    """Return the row with the display names of its values."""
    passed, results = (
        tuple(replace(p, argument=labels.get(p.argument, p.argument)) for p in part)
        for part in (r.passed, r.results)
    )
    return replace(r, display_name=display_name, passed=passed, results=results)


def of_program(program: Program, *, kernels: bool) -> tuple[BoundaryRow, ...]:
    """Return every call of a function, or every call of a kernel."""
    functions = {f.name: f for f in program.functions}
    rows = []
    for function, binding in program.bindings():
        calls = _kernel(binding) if kernels else _calls(binding, functions, program.env)
        for call in calls:
            rows.append(_boundary(function, binding, call, program.env))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Call:
    callee: str
    kind: str
    names: tuple[str, ...]
    signature: Callable
    args: tuple[Annotation, ...]
    bound_symbols: frozenset[str] = frozenset()
    passed: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def _boundary(function: Function, binding: Binding, call: _Call, env: ShapeEnv) -> BoundaryRow:
    derived: Derived = unify(call.signature, call.args, env, call.bound_symbols)
    rows = tuple(
        MatchRow(call.names[r.argument], r.param, r.arg, r.symbol, LEVELS[r.level], r.reason)
        for r in derived.rows
    )
    name = ", ".join(v.name for v in binding.vars)
    return BoundaryRow(
        name,
        name,
        call.callee,
        call.kind,
        function.name,
        rows,
        LEVELS[derived.level],
        annotation_text(derived.result),
        tuple(sorted(binding.origin)),
        tuple(_passed(n, call, derived) for n in range(len(call.args))),
        tuple(_results(binding, call, derived)),
    )


def _passed(n: int, call: _Call, derived: Derived) -> PassedValue:
    mine = [r for r in derived.rows if r.argument == n]
    wanted = annotation_text(call.signature.params[n])  # type: ignore[index]
    worst = min((r.level for r in mine), default=Match.PROVED)
    return PassedValue(
        call.names[n],
        wanted,
        call.passed[n],
        annotation_text(call.args[n]),
        LEVELS[worst],
        tuple(f"{r.symbol} = {r.arg}" for r in mine if r.symbol),
        tuple(r.reason for r in mine if r.level is worst),
    )


def _results(binding: Binding, call: _Call, derived: Derived) -> Iterator[PassedValue]:
    """Yield the results of the callee with their names in the caller."""
    kind, result = call.signature.result, derived.result
    inner = kind.items if isinstance(kind, TupleType) else (kind,)
    outer = result.items if isinstance(result, TupleType) else (result,)
    names = call.outputs or tuple(v.name for v in binding.vars)
    for name, v, wanted, got in zip(names, binding.vars, inner, outer):
        yield PassedValue(name, annotation_text(wanted), v.name, annotation_text(got))


def _calls(binding: Binding, functions: Mapping[str, Function], env: ShapeEnv) -> Iterator[_Call]:
    """Yield the functions that a binding calls.

    A branch or a loop body sees its caller's symbols.
    """
    seen = frozenset(s.name for s in env.symbols)
    match binding.expr:
        case FunctionCall(name, args):
            yield _call_of(functions[name], "function", _named(args), frozenset())
        case Branch(_, then, orelse, args):
            for name in (then, orelse):
                yield _call_of(functions[name], "branch", _named(args), seen)
        case Loop(body, _, _, state, args, _):
            counted = (("iteration", Tensor((), "int64")), ("condition", Tensor((), "bool")))
            yield _call_of(functions[body], "loop", (*counted, *_named((*state, *args))), seen)


def _named(args: Iterable[Var]) -> tuple[tuple[str, Annotation], ...]:
    return tuple((a.name, a.type) for a in args)


def _call_of(
    function: Function,
    kind: str,
    args: Sequence[tuple[str, Annotation]],
    bound_symbols: frozenset[str],
) -> _Call:
    names = tuple(p.name for p in function.params)
    outputs = tuple(v.name for v in function.outputs)
    passed, types = tuple(n for n, _ in args), tuple(t for _, t in args)
    signature = signature_of(function, bound_symbols)
    return _Call(function.name, kind, names, signature, types, bound_symbols, passed, outputs)


def _kernel(binding: Binding) -> Iterator[_Call]:
    """Yield the kernel that a binding calls; its buffers use the caller's symbols."""
    if isinstance(binding.expr, KernelCall):
        kernel, args = binding.expr.kernel, binding.expr.args
        outputs = tuple(_buffer(kernel, n) for n in kernel.outputs)
        result = outputs[0] if len(outputs) == 1 else TupleType(outputs)
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
