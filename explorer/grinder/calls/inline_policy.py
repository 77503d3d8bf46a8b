"""Which calls of functions what the function does shall stand in the place of.

Of functions that call each other one stays, and the others go, if no circle is left without it. A
function that does not call itself goes where it is called with other shapes than in its own words.
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

MOST_BINDINGS = 4096  # in the place of calls, in a program: a bound on its size, chosen
Said: TypeAlias = Mapping[str, Dim]  # what a function's symbols are in the words of a call


@dataclass(frozen=True, slots=True)
class Inlining:
    """The functions that call themselves in the end, and those that `go`."""

    functions: Functions
    recursive: frozenset[str] = frozenset()
    go: frozenset[str] = frozenset()
    cast: frozenset[str] = field(default=frozenset())  # in which a run defines symbols

    def words(self, call: FunctionCall, results: Sequence[Var]) -> Said | None:
        """The called function's symbols in the words of a call that it goes in the place of; None
        where the call stays.
        """
        called = self.functions[call.function]
        if called.name in self.recursive or called.name in self.cast:
            return None
        words = said_by(called.params, [a.type for a in call.args])
        given = [v.type for v in (*call.args, *results)]
        own = [v.type for v in (*called.params, *called.outputs)]
        if called.name not in self.go and own == given:
            return None  # it is called as it is
        return words if [instantiate(kind, words) for kind in own] == given else None


def inlining(functions: Functions) -> Inlining:
    """What is decided of the functions of a program."""
    stay, go = set[str](), set[str]()
    for circle in call_cycles(functions):
        stays, _ = staying(circle, functions)
        stay.update({stays} if stays else circle.called)
        go.update({*circle.called} - {stays} if stays else ())
    cast = frozenset(n for n in functions if _casts(n, functions, set()))
    return Inlining(functions, frozenset(stay), frozenset(go), cast)


def staying(circle: CallCycle, functions: Functions) -> tuple[str, str]:
    """The function of a circle that stays, those first that others call from outside; or "" and why
    none can.
    """
    if len(circle.called) < 2:
        return (*circle.called, "")[0], ""
    together = " and ".join(sorted(circle.called))
    others = (f for f in functions.values() if f.name not in circle.names)
    outside = {name for f in others for b in f.body for name in b.calls}
    if any(_casts(name, functions, set()) for name in circle.called):
        return "", f"{together} call each other, with shapes that a run decides"
    for name in sorted(circle.called, key=lambda name: name not in outside):
        if not is_recursive(circle.names - {name}, functions):
            return name, ""
    return "", f"{together} call each other, and more than one of them itself"


def said_by(params: Sequence[Var], given: Sequence[Annotation]) -> Said:
    """What each bare symbol of the params is where these types are given for them."""
    found: dict[str, Dim] = {}
    for param, kind in zip(params, given, strict=True):
        match param.type, kind:
            case Tensor(tuple(dims)), Tensor(tuple(said)) if len(dims) == len(said):
                for dim, word in zip(dims, said, strict=True):
                    if is_symbol(dim):
                        found.setdefault(str(dim), word)
            case _:
                continue
    return found


def _casts(name: str, functions: Functions, seen: set[str]) -> bool:
    """Whether a run defines symbols in a function, in its sides, or in what these call."""
    if name in seen:
        return False
    seen.add(name)
    body = functions[name].body
    own = any(isinstance(b.expr, MatchCast) for b in body)
    return own or any(_casts(n, functions, seen) for b in body for n in b.calls)
