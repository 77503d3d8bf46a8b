"""Selection of the calls to inline.

One function of a set of mutually recursive functions stays, and the others are inlined, if no cycle
remains without it. A function that is not recursive is inlined where a call's shapes differ from
its own symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from explorer.grinder.calls.call_cycles import CallCycle, Functions, call_cycles, is_recursive
from explorer.ir.calls import FunctionCall, MatchCast, Var
from explorer.ir.lattice import instantiate
from explorer.ir.shapes.algebra import is_symbol
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation, Tensor

MOST_BINDINGS = 4096  # inlined in a program: a bound on its size, chosen
SymbolMap: TypeAlias = Mapping[str, Dim]  # a function's symbols -> extents at a call


@dataclass(frozen=True, slots=True)
class Inlining:
    """The functions that stay recursive, and those that are inlined."""

    functions: Functions
    recursive: frozenset[str] = frozenset()
    inlined: frozenset[str] = frozenset()
    # functions that define symbols at run time
    run_time: frozenset[str] = field(default=frozenset())

    def renaming_of(self, call: FunctionCall, results: Sequence[Var]) -> SymbolMap | None:
        """Return the renaming of the callee's symbols for a call to inline.

        Return None if the call stays.
        """
        called = self.functions[call.function]
        if called.name in self.recursive or called.name in self.run_time:
            return None
        renaming = match_symbols(called.params, [a.type for a in call.args])
        call_types = [v.type for v in (*call.args, *results)]
        own_types = [v.type for v in (*called.params, *called.outputs)]
        if called.name not in self.inlined and own_types == call_types:
            return None  # no renaming is needed
        return (
            renaming if [instantiate(kind, renaming) for kind in own_types] == call_types else None
        )


def decide_inlining(functions: Functions) -> Inlining:
    """Return the inlining decisions for the functions of a program."""
    recursive, inlined = set[str](), set[str]()
    for circle in call_cycles(functions):
        head, _ = select_cycle_head(circle, functions)
        recursive.update({head} if head else circle.called)
        inlined.update({*circle.called} - {head} if head else ())
    cast = frozenset(n for n in functions if _defines_symbols_at_run_time(n, functions, set()))
    return Inlining(functions, frozenset(recursive), frozenset(inlined), cast)


def select_cycle_head(circle: CallCycle, functions: Functions) -> tuple[str, str]:
    """Return the function of a cycle that stays; or "" and the reason why none can.

    Functions that are called from outside of the cycle are tried first.
    """
    if len(circle.called) < 2:
        return (*circle.called, "")[0], ""
    together = " and ".join(sorted(circle.called))
    others = (f for f in functions.values() if f.name not in circle.names)
    outside = {name for f in others for b in f.body for name in b.calls}
    if any(_defines_symbols_at_run_time(name, functions, set()) for name in circle.called):
        return "", f"{together} call each other, with shapes that a run decides"
    for name in sorted(circle.called, key=lambda name: name not in outside):
        if not is_recursive(circle.names - {name}, functions):
            return name, ""
    return "", f"{together} call each other, and more than one of them itself"


def match_symbols(params: Sequence[Var], types: Sequence[Annotation]) -> SymbolMap:
    """Return the extent of each bare symbol of the parameters for arguments of these types."""
    renaming: dict[str, Dim] = {}
    for param, kind in zip(params, types, strict=True):
        match param.type, kind:
            case Tensor(tuple(dims)), Tensor(tuple(actual)) if len(dims) == len(actual):
                for dim, extent in zip(dims, actual, strict=True):
                    if is_symbol(dim):
                        renaming.setdefault(str(dim), extent)
            case _:
                continue
    return renaming


def _defines_symbols_at_run_time(name: str, functions: Functions, seen: set[str]) -> bool:
    """Return True if a function, or one that it reaches, defines symbols at run time."""
    if name in seen:
        return False
    seen.add(name)
    body = functions[name].body
    own = any(isinstance(b.expr, MatchCast) for b in body)
    return own or any(
        _defines_symbols_at_run_time(n, functions, seen) for b in body for n in b.calls
    )
