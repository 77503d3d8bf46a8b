"""What only the host can do: what values of a run decide, and whatever follows such a decision.

The rest stands in regions that are compiled: kernels, views, and the loops, branches and calls
whose bodies are such themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from explorer.grinder.calls.recursion import recursive
from explorer.grinder.calls.words import Words, words_of
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
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import ITEM_BYTES, Annotation, Tensor


@dataclass(frozen=True, slots=True)
class Host:
    """What the host does of a program: `dynamic` are the functions that hold a decision of its own,
    or call one that does; or themselves, in a way that only the host can follow, or shall.
    """

    functions: Mapping[str, Function]
    words: Words
    dynamic: frozenset[str] = frozenset()

    def does(self, binding: Binding) -> bool:
        """Whether only the host can do a binding."""
        known = all(is_static(v) for v in (*binding.vars, *binding.reads))
        if not known or any(n in self.dynamic for n in binding.calls):
            return True
        functions = self.functions
        match binding.expr:
            case MatchCast():
                return True
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


def host_of(program: Program, hosted: Collection[str] = ()) -> Host:
    """What the host does of a program; `hosted` are functions that call themselves and that it
    shall follow, though the device could.
    """
    loops = recursive(program)
    words = words_of(program, [name for name, why in loops.items() if not why])
    functions = {f.name: f for f in program.functions}
    found = Host(functions, words, frozenset(n for n, why in loops.items() if why or n in hosted))
    while True:
        others = [f for f in program.functions if f.name not in found.dynamic]
        more = {f.name for f in others if any(map(found.does, f.body))}
        if not more:
            return found
        found = replace(found, dynamic=found.dynamic | more)


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
