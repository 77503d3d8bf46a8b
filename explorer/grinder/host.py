"""Analysis of what only the host can run.

These are steps that values of a run decide, and all that depends on them. Everything else belongs
to regions that are compiled: kernels, views, and loops, branches and calls whose bodies hold only
these; also match_casts that the sizes of the inputs decide, which are checked when a program is
bound to sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from explorer.grinder.recursion import SymbolRenaming, find_recursive, rename_symbols
from explorer.ir.annotations import instantiate
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.dims import Dim, Shape, Sizes, evaluate_dim, symbols_of
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.symbols import defined_by, parameter_symbols
from explorer.ir.types import ITEM_BYTES, Annotation, ShapeType, Tensor


@dataclass(frozen=True, slots=True)
class Host:
    """The functions of a program that need the host.

    `dynamic` functions hold a host step, call such a function, or are recursive in a form that only
    the host can follow or was asked to follow. `symbol_renaming` is for recursive functions.
    """

    functions: Mapping[str, Function]
    symbol_renaming: SymbolRenaming
    dynamic: frozenset[str] = frozenset()
    constants: Mapping[str, Constant] = field(default_factory=dict)
    run_time: frozenset[str] | None = frozenset()  # symbols defined at run time; None: all

    def is_host_only(self, binding: Binding) -> bool:
        """Return True if only the host can run a binding."""
        if isinstance(binding.expr, MatchCast):
            return self.relations(binding) is None
        static = all(is_static(v) for v in (*binding.vars, *binding.reads))
        if not static or any(n in self.dynamic for n in binding.calls):
            return True
        functions = self.functions
        match binding.expr:
            case LibraryCall(library):
                return library == "shape"
            case KernelCall() | View() | ShapeOf():
                return False
            case FunctionCall(name, args):
                called, words = functions[name], self.symbol_renaming.get(name, {})
                same = _types_match(called.params, args, binding.vars, called.outputs)
                return not (
                    same or _types_match(called.params, args, binding.vars, called.outputs, words)
                )
            case Branch(_, then, orelse, args):
                arms = (functions[then], functions[orelse])
                return not all(
                    _types_match(arm.params, args, binding.vars, arm.outputs) for arm in arms
                )
            case Loop() as loop:
                body, count = functions[loop.body], len(loop.state)
                inputs, results = (*loop.state, *loop.args), body.outputs[1 : 1 + count]
                rows = zip(binding.vars[count:], body.outputs[1 + count :], strict=True)
                fits = _types_match(body.params[2:], inputs, binding.vars[:count], results)
                return not (fits and all(_is_stack_of(stacked, row) for stacked, row in rows))
        return True

    def relations(self, binding: Binding) -> tuple[Relation, ...] | None:
        """Return the extents that a match_cast requires to be equal, if input sizes decide it.

        Return None if only a run can decide it.
        """
        match binding.expr, binding.vars[0].type if binding.vars else None:
            case MatchCast(arg), ShapeType(tuple(expected)) if arg.name in self.constants:
                actual = tuple(self.constants[arg.name].array.reshape(-1).tolist())
            case MatchCast(arg), Tensor(tuple(expected), dtype) if is_static(arg):
                if arg.tensor.dtype != dtype:
                    return None
                actual = arg.tensor.dims
            case _:
                return None
        return self.shape_relations(binding.name, expected, actual)

    def shape_relations(
        self, name: str, expected: Shape, actual: Shape
    ) -> tuple[Relation, ...] | None:
        """Return the extents of a shape that must be equal; None if only a run can compare them."""
        symbols = frozenset[str]().union(*map(symbols_of, (*expected, *actual)))
        if self.run_time is None or symbols & self.run_time or len(expected) != len(actual):
            return None
        pairs = enumerate(zip(expected, actual, strict=True))
        return tuple(Relation(name, n, a, b) for n, (a, b) in pairs if a != b)


@dataclass(frozen=True, slots=True)
class Relation:
    """A pair of extents that must be equal: the expected and the actual size of a value's axis."""

    name: str
    axis: int
    expected: Dim
    actual: Dim

    def holds(self, sizes: Sizes) -> bool:
        """Return True if the extents are equal under a binding."""
        return evaluate_dim(self.expected, sizes) == evaluate_dim(self.actual, sizes)


def size_relations(program: Program, host: Host) -> Mapping[str, tuple[Relation, ...]]:
    """Return the relations of each function's match_casts that input sizes decide.

    For the main function, include the relations of results whose declared type says more than their
    value's type.
    """
    relations_of = {
        f.name: [r for b in f.body for r in host.relations(b) or ()] for f in program.functions
    }
    main = program.main
    bound = {v.name: v for v in (*main.params, *(v for b in main.body for v in b.vars))}
    for output in main.outputs:
        relations_of[main.name] += (
            declared_relations(host, output, bound.get(output.name, output)) or ()
        )
    return {name: tuple(relations) for name, relations in relations_of.items() if relations}


def declared_relations(host: Host, declared: Var, bound: Var) -> tuple[Relation, ...] | None:
    """Return the relations that a result's declared type adds to its bound type.

    Return None if only a run can decide them.
    """
    a, b = declared.type, bound.type
    if a == b:
        return ()
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_known and b.is_known:
        return host.shape_relations(declared.name, a.dims, b.dims) if a.dtype == b.dtype else None
    return None


def followed_functions(program: Program, host: Host) -> frozenset[str]:
    """Return the functions whose bindings the host runs one by one, the ones it calls included."""
    followed: set[str] = set()
    todo = [program.main.name]
    while todo:
        name = todo.pop()
        if name not in followed:
            followed.add(name)
            own = (b for b in host.functions[name].body if host.is_host_only(b))
            todo += [callee for b in own for callee in b.calls]
    return frozenset(followed)


def analyse_host(program: Program, hosted: Collection[str] = (), strict: bool = False) -> Host:
    """Return the host analysis of a program.

    `hosted` are recursive functions that the host runs although the device could. `strict`: the
    host runs every match_cast.
    """
    reasons = find_recursive(program)
    words = rename_symbols(program, [name for name, reason in reasons.items() if not reason])
    functions = {f.name: f for f in program.functions}
    dynamic = frozenset(n for n, reason in reasons.items() if reason or n in hosted)
    run_time = None if strict else _run_time_symbols(program)
    host = Host(functions, words, dynamic, program.constants, run_time)
    while True:
        others = [f for f in program.functions if f.name not in host.dynamic]
        more = {f.name for f in others if any(map(host.is_host_only, f.body))}
        if not more:
            return host
        host = replace(host, dynamic=host.dynamic | more)


def _run_time_symbols(program: Program) -> frozenset[str]:
    """Return the symbols without one value for a whole run when it begins.

    These are symbols of called functions, of bodies and of match_casts, unless they are the inputs'
    symbols.
    """
    called = {n for _, b in program.bindings() for n in _callees(b)}
    own = frozenset[str]().union(*(parameter_symbols(f) for f in program.functions[1:]))
    own = own.union(*(defined_by(b) for _, b in program.bindings()))
    of_calls = (parameter_symbols(f) for f in program.functions if f.name in called)
    return (own - parameter_symbols(program.main)).union(*of_calls)


def _callees(binding: Binding) -> tuple[str, ...]:
    return binding.calls if isinstance(binding.expr, FunctionCall) else ()


def _types_match(
    params: tuple[Var, ...],
    args: tuple[Var, ...],
    vars: tuple[Var, ...],
    outputs: tuple[Var, ...],
    renaming: Mapping[str, Dim] | None = None,
) -> bool:
    """Return True if a body's parameters and outputs have the types of the values around it.

    With `words`, the body's own symbols are renamed first.
    """
    inside, outside = (*params, *outputs), (*args, *vars)
    kinds = (v.type if renaming is None else instantiate(v.type, renaming) for v in inside)
    return all(kind == v.type for kind, v in zip(kinds, outside, strict=True))


def _is_stack_of(stacked: Var, row: Var) -> bool:
    """Return True if a value's type is a stack of such rows."""
    stack, element = stacked.type, row.type
    if not isinstance(stack, Tensor) or not isinstance(element, Tensor) or not element.is_known:
        return False
    return (stack.dims[1:], stack.dtype) == (element.dims, element.dtype)


def is_static(var: Var) -> bool:
    """Return True if a value is a tensor whose shape is known where it is bound."""
    return _has_kernels(var.type)


def _has_kernels(type: Annotation) -> bool:
    """Return True if a type is a tensor of symbolic shape and of a dtype that kernels accept."""
    return isinstance(type, Tensor) and type.is_known and type.dtype in ITEM_BYTES
