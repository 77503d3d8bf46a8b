"""What only the host can do: what values of a run decide, and whatever follows such a decision.

The rest stands in regions that are compiled: kernels, views, and the loops, branches and calls
whose bodies are such themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import ITEM_BYTES, Annotation, Tensor


def dynamic_functions(program: Program) -> frozenset[str]:
    """The functions that hold a decision of the host, or call one that does, or themselves."""
    functions = {f.name: f for f in program.functions}
    calls = {f.name: {n for b in f.body for n in b.calls} for f in program.functions}
    found = {name for name in functions if name in _reached(name, calls)}
    while True:
        more = {
            f.name
            for f in program.functions
            if f.name not in found and any(is_host(b, functions, found) for b in f.body)
        }
        if not more:
            return frozenset(found)
        found |= more


def _reached(name: str, calls: Mapping[str, Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    todo = list(calls[name])
    while todo:
        callee = todo.pop()
        if callee not in seen:
            seen.add(callee)
            todo += calls[callee]
    return seen


def is_host(binding: Binding, functions: Mapping[str, Function], dynamic: Iterable[str]) -> bool:
    """Whether only the host can do a binding."""
    known = all(is_static(v) for v in (*binding.vars, *binding.reads))
    if not known or any(n in dynamic for n in binding.calls):
        return True
    match binding.expr:
        case MatchCast():
            return True
        case LibraryCall(library):
            return library == "shape"
        case KernelCall() | View() | ShapeOf():
            return False
        case FunctionCall(name, args):
            return not _fit(functions[name].params, args, binding.vars, functions[name].outputs)
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


def _fit(
    params: tuple[Var, ...], args: tuple[Var, ...], vars: tuple[Var, ...], outputs: tuple[Var, ...]
) -> bool:
    """Whether a body takes and gives what stands around it, in the same words."""
    pairs = (*zip(params, args, strict=True), *zip(vars, outputs, strict=True))
    return all(a.type == b.type for a, b in pairs)


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
