"""What only the host can do: what values of a run decide, and whatever follows such a decision.

The rest stands in regions that are compiled: kernels, views, and the loops, branches and calls
whose bodies are such themselves; and match_casts that the sizes of the inputs decide, which are
judged when a program is bound to sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from explorer.grinder.calls.recursion import recursive
from explorer.grinder.calls.rename_symbols import SymbolRenaming, rename_symbols
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
from explorer.ir.lattice import instantiate
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.shapes.dims import Dim, Shape, Sizes, evaluate_dim, symbols_of
from explorer.ir.symbols import defined_by, parameter_symbols
from explorer.ir.types import ITEM_BYTES, Annotation, ShapeType, Tensor


@dataclass(frozen=True, slots=True)
class Host:
    """What the host does of a program: `dynamic` are the functions that hold a decision of its own,
    or call one that does; or themselves, in a way that only the host can follow, or shall.
    """

    functions: Mapping[str, Function]
    words: SymbolRenaming
    dynamic: frozenset[str] = frozenset()
    constants: Mapping[str, Constant] = field(default_factory=dict)
    run_time: frozenset[str] | None = frozenset()  # symbols that a run gives values; None: all

    def does(self, binding: Binding) -> bool:
        """Whether only the host can do a binding."""
        if isinstance(binding.expr, MatchCast):
            return self.relations(binding) is None
        known = all(is_static(v) for v in (*binding.vars, *binding.reads))
        if not known or any(n in self.dynamic for n in binding.calls):
            return True
        functions = self.functions
        match binding.expr:
            case LibraryCall(library):
                return library == "shape"
            case KernelCall() | View() | ShapeOf():
                return False
            case FunctionCall(name, args):
                called, words = functions[name], self.words.get(name, {})
                same = _fit(called.params, args, binding.vars, called.outputs)
                return not (same or _fit(called.params, args, binding.vars, called.outputs, words))
            case Branch(_, then, orelse, args):
                sides = (functions[then], functions[orelse])
                return not all(_fit(s.params, args, binding.vars, s.outputs) for s in sides)
            case Loop() as loop:
                body, count = functions[loop.body], len(loop.state)
                given, made = (*loop.state, *loop.args), body.outputs[1 : 1 + count]
                rows = zip(binding.vars[count:], body.outputs[1 + count :], strict=True)
                fits = _fit(body.params[2:], given, binding.vars[:count], made)
                return not (fits and all(_stacks(stacked, row) for stacked, row in rows))
        return True

    def relations(self, binding: Binding) -> tuple[Relation, ...] | None:
        """Return the extents that a match_cast wants to be equal, where the sizes of the inputs
        decide that; None where a run does.
        """
        match binding.expr, binding.vars[0].type if binding.vars else None:
            case MatchCast(arg), ShapeType(tuple(wanted)) if arg.name in self.constants:
                given = tuple(self.constants[arg.name].array.reshape(-1).tolist())
            case MatchCast(arg), Tensor(tuple(wanted), dtype) if is_static(arg):
                if arg.tensor.dtype != dtype:
                    return None
                given = arg.tensor.dims
            case _:
                return None
        return self.related(binding.name, wanted, given)

    def related(self, name: str, wanted: Shape, given: Shape) -> tuple[Relation, ...] | None:
        """Return the extents of a shape that are to be equal; None where only a run can tell."""
        symbols = frozenset[str]().union(*map(symbols_of, (*wanted, *given)))
        if self.run_time is None or symbols & self.run_time or len(wanted) != len(given):
            return None
        pairs = enumerate(zip(wanted, given, strict=True))
        return tuple(Relation(name, n, a, b) for n, (a, b) in pairs if a != b)


@dataclass(frozen=True, slots=True)
class Relation:
    """Two extents that must be equal: what is `wanted` along an axis of a value and what it has."""

    name: str
    axis: int
    wanted: Dim
    given: Dim

    def holds(self, sizes: Sizes) -> bool:
        """Return True if they are equal under a binding."""
        return evaluate_dim(self.wanted, sizes) == evaluate_dim(self.given, sizes)


def size_relations(program: Program, host: Host) -> Mapping[str, tuple[Relation, ...]]:
    """For each function the relations of the match_casts that sizes decide; for the first one those
    of results, too, that are declared to be more than is known of them.
    """
    found = {
        f.name: [r for b in f.body for r in host.relations(b) or ()] for f in program.functions
    }
    main = program.main
    bound = {v.name: v for v in (*main.params, *(v for b in main.body for v in b.vars))}
    for output in main.outputs:
        found[main.name] += promise(host, output, bound.get(output.name, output)) or ()
    return {name: tuple(relations) for name, relations in found.items() if relations}


def promise(host: Host, declared: Var, bound: Var) -> tuple[Relation, ...] | None:
    """What must hold of a result that is declared otherwise than it is bound, if sizes decide."""
    a, b = declared.type, bound.type
    if a == b:
        return ()
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_known and b.is_known:
        return host.related(declared.name, a.dims, b.dims) if a.dtype == b.dtype else None
    return None


def followed_functions(program: Program, host: Host) -> frozenset[str]:
    """The functions whose bindings the host does one by one: those that it calls itself, too."""
    found: set[str] = set()
    todo = [program.main.name]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            own = (b for b in host.functions[name].body if host.does(b))
            todo += [callee for b in own for callee in b.calls]
    return frozenset(found)


def host_of(program: Program, hosted: Collection[str] = (), strict: bool = False) -> Host:
    """What the host does of a program; `hosted` are functions that call themselves and that it
    shall follow, though the device could. `strict`: it does every match_cast.
    """
    loops = recursive(program)
    words = rename_symbols(program, [name for name, why in loops.items() if not why])
    functions = {f.name: f for f in program.functions}
    dynamic = frozenset(n for n, why in loops.items() if why or n in hosted)
    run_time = None if strict else _run_time_symbols(program)
    found = Host(functions, words, dynamic, program.constants, run_time)
    while True:
        others = [f for f in program.functions if f.name not in found.dynamic]
        more = {f.name for f in others if any(map(found.does, f.body))}
        if not more:
            return found
        found = replace(found, dynamic=found.dynamic | more)


def _run_time_symbols(program: Program) -> frozenset[str]:
    """The symbols that have no value, or none for all of a run, when it begins: those of functions
    that are called, of bodies and of match_casts, where they are not the inputs'.
    """
    called = {n for _, b in program.bindings() for n in _callees(b)}
    own = frozenset[str]().union(*(parameter_symbols(f) for f in program.functions[1:]))
    own = own.union(*(defined_by(b) for _, b in program.bindings()))
    of_calls = (parameter_symbols(f) for f in program.functions if f.name in called)
    return (own - parameter_symbols(program.main)).union(*of_calls)


def _callees(binding: Binding) -> tuple[str, ...]:
    return binding.calls if isinstance(binding.expr, FunctionCall) else ()


def _fit(
    params: tuple[Var, ...],
    args: tuple[Var, ...],
    vars: tuple[Var, ...],
    outputs: tuple[Var, ...],
    words: Mapping[str, Dim] | None = None,
) -> bool:
    """Whether a body takes and gives what stands around it, in the same words; or with `words` in
    the place of its own symbols.
    """
    inside, outside = (*params, *outputs), (*args, *vars)
    kinds = (v.type if words is None else instantiate(v.type, words) for v in inside)
    return all(kind == v.type for kind, v in zip(kinds, outside, strict=True))


def _stacks(stacked: Var, row: Var) -> bool:
    """Whether a value is made of such rows, in the same words."""
    whole, part = stacked.type, row.type
    if not isinstance(whole, Tensor) or not isinstance(part, Tensor) or not part.is_known:
        return False
    return (whole.dims[1:], whole.dtype) == (part.dims, part.dtype)


def is_static(var: Var) -> bool:
    """Whether a value is a tensor whose shape is known where it is bound."""
    return _has_kernels(var.type)


def _has_kernels(type: Annotation) -> bool:
    """A tensor whose shape is in symbols, of a dtype that kernels take."""
    return isinstance(type, Tensor) and type.is_known and type.dtype in ITEM_BYTES
