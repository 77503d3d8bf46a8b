"""if, and `a if c else b`: one side where Python knows which, else a branch of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.errors import TraceError
from explorer.frontends.syntax.changes import Elements, begun, restored
from explorer.frontends.syntax.truth import cannot, decided
from explorer.frontends.syntax.values import MISSING, called, is_arrays, is_plain, kind_of_value
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.branches import cond
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.structure import flatten

Run = Callable[..., Any]
Names = tuple[str, ...]
Values = tuple[Any, ...]


def either(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """`then if test else orelse`."""
    here = decided(test) if isinstance(test, (TracedArray, SymbolicDim)) else test
    if not isinstance(here, TracedArray):
        return then() if here else orelse()
    (value,) = if_(here, lambda: (then(),), lambda: (orelse(),), ("the value",), ())
    return value


def if_(
    test: Any,
    then: Run,
    orelse: Run,
    names: Names,
    given: Values,
    effect: str = "",
    elements: Elements = (),
) -> Values:
    """What the names are after `then(*given)` or `orelse(*given)`; `effect` is what Python alone
    can do there, `elements` are the values of which elements change.
    """
    here = decided(test) if isinstance(test, (TracedArray, SymbolicDim)) else test
    if not isinstance(here, TracedArray):
        found: Values = then(*given) if here else orelse(*given)
        return found
    if effect:
        cannot(effect)
    outside, given = given, begun(elements, given)
    sides: list[Values] = []

    def side(run: Run) -> Callable[[], list[Any]]:
        def arrays() -> list[Any]:
            values = run(*begun(elements, given))
            sides.append(values)
            return [v for v in values if is_arrays(v)]

        return arrays

    made = _branch(here, side(then), side(orelse), names, sides)
    found = tuple(next(made) if is_arrays(v) else v for v in sides[0])
    return restored(names, found, elements, outside)


def _branch(test: TracedArray, then: Run, orelse: Run, names: Names, sides: list[Values]) -> Any:
    def checked() -> Any:
        found = orelse()
        for name, a, b in zip(names, sides[0], sides[1], strict=True):
            _check_sides(name, a, b)
        return found

    return iter(cond(test, then, checked))


def _check_sides(name: str, a: Any, b: Any) -> None:
    """Both sides give a name arrays of one nesting, or the very same thing."""
    if is_arrays(a) and is_arrays(b):
        nested = flatten(a)[1], flatten(b)[1]
        if nested[0] == nested[1]:
            return
        said = f"is {nested[0]} after one side and {nested[1]} after the other"
    elif a is b or (type(a) is type(b) and is_plain(a) and a == b):
        return
    elif a is MISSING or b is MISSING:
        said = "has a value after one side only"
    else:
        said = f"is {kind_of_value(a)} after one side and {kind_of_value(b)} after the other"
    line = calling_line()
    raise TraceError(
        f"{line}: {called(name)} {said} of an if that a run decides",
        where=line,
        try_="assign it before the if, or on both sides",
    )
