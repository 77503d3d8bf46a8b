"""`if` and `a if c else b`: evaluated while tracing if the condition is known, else a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.errors import TraceError
from explorer.frontends.syntax.changes import Elements, prepare_elements, write_back
from explorer.frontends.syntax.truth import decide, refuse_traced
from explorer.frontends.syntax.values import (
    MISSING,
    is_arrays,
    is_plain,
    kind_of_value,
    name_for_error,
)
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.branches import cond
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.structure import flatten

Run = Callable[..., Any]
Names = tuple[str, ...]
Values = tuple[Any, ...]


def either(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """Return `then if test else orelse`."""
    here = decide(test) if isinstance(test, (TracedArray, SymbolicDim)) else test
    if not isinstance(here, TracedArray):
        return then() if here else orelse()
    (value,) = if_(here, lambda: (then(),), lambda: (orelse(),), ("the value",), ())
    return value


def if_(
    test: Any,
    then: Run,
    orelse: Run,
    names: Names,
    inputs: Values,
    effect: str = "",
    elements: Elements = (),
) -> Values:
    """Return the values of the names after `then(*inputs)` or `orelse(*inputs)`.

    `effect` names a side effect that only Python can perform. `elements` are the values of which
    elements change.
    """
    here = decide(test) if isinstance(test, (TracedArray, SymbolicDim)) else test
    if not isinstance(here, TracedArray):
        results: Values = then(*inputs) if here else orelse(*inputs)
        return results
    if effect:
        refuse_traced(effect)
    outside, inputs = inputs, prepare_elements(elements, inputs)
    arm_values: list[Values] = []

    def record_arm(run: Run) -> Callable[[], list[Any]]:
        def arrays() -> list[Any]:
            values = run(*prepare_elements(elements, inputs))
            arm_values.append(values)
            return [v for v in values if is_arrays(v)]

        return arrays

    branch_results = _branch(here, record_arm(then), record_arm(orelse), names, arm_values)
    results = tuple(next(branch_results) if is_arrays(v) else v for v in arm_values[0])
    return write_back(names, results, elements, outside)


def _branch(
    test: TracedArray, then: Run, orelse: Run, names: Names, arm_values: list[Values]
) -> Any:
    def checked() -> Any:
        results = orelse()
        for name, a, b in zip(names, arm_values[0], arm_values[1], strict=True):
            _check_arms(name, a, b)
        return results

    return iter(cond(test, then, checked))


def _check_arms(name: str, a: Any, b: Any) -> None:
    """Check that both arms give a name arrays of one nesting, or the same object."""
    if is_arrays(a) and is_arrays(b):
        nested = flatten(a)[1], flatten(b)[1]
        if nested[0] == nested[1]:
            return
        difference = f"is {nested[0]} after one branch and {nested[1]} after the other"
    elif a is b or (type(a) is type(b) and is_plain(a) and a == b):
        return
    elif a is MISSING or b is MISSING:
        difference = "has a value after one branch only"
    else:
        difference = (
            f"is {kind_of_value(a)} after one branch and {kind_of_value(b)} after the other"
        )
    line = calling_line()
    raise TraceError(
        f"{line}: {name_for_error(name)} {difference} of an if on a traced condition",
        where=line,
        try_="assign it before the if, or in both branches",
    )
