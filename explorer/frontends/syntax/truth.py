"""Conditions: known ones are bools, others are traced bools."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from explorer.errors import TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.branches import scalar_bool
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import is_traced

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def decide(value: Any) -> bool | TracedArray:
    """Return True or False if a condition is known, else a traced bool."""
    if isinstance(value, SymbolicDim):
        value = value != 0
    return scalar_bool(value, "an if or a while") if isinstance(value, TracedArray) else bool(value)


def plain(test: Any, why: str) -> Any:
    """Return the condition of a statement that must run in Python; refuse a traced one."""
    if isinstance(test, (TracedArray, SymbolicDim)) and not isinstance(decide(test), bool):
        refuse_traced(why)
    return test


def plain_rows(rows: Any, why: str) -> Any:
    """Return the iterable of a `for` that must run in Python; refuse a traced one."""
    if isinstance(rows, TracedArray) and rows.ndim and not isinstance(rows.shape[0], int):
        refuse_traced(why)
    return rows


def refuse_traced(why: str) -> None:
    """Raise TraceError: a traced statement cannot contain `why`."""
    line = calling_line()
    raise TraceError(
        f"{line}: this condition is known only at run time ({line.text}), and a traced statement "
        f"cannot contain: {why}",
        where=line,
        try_="a flag that is assigned, or explorer.cond, explorer.while_loop or explorer.scan",
    )


def and_(*parts: Callable[[], Any]) -> Any:
    """Return `a and b and …`."""
    return _short_circuit(parts, "logical_and", False)


def or_(*parts: Callable[[], Any]) -> Any:
    """Return `a or b or …`."""
    return _short_circuit(parts, "logical_or", True)


def _short_circuit(parts: Sequence[Callable[[], Any]], name: str, ends: bool) -> Any:
    value = parts[0]()
    for part in parts[1:]:
        if not isinstance(value, (TracedArray, SymbolicDim)):
            if bool(value) is ends:
                return value
            value = part()
            continue
        here = decide(value)
        if isinstance(here, bool):
            value = value if here is ends else part()
            continue
        value = getattr(TracedArray.functions, name)(here, _as_condition(part()))
    return value


def _as_condition(value: Any) -> Any:
    return decide(value) if is_traced(value) else bool(value)


def chain(left: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
    """Return `left < middle < right`: each operand is evaluated once, later ones only if needed."""
    name, later = pairs[0]
    right = later()
    here = COMPARISONS[name](left, right)
    return here if len(pairs) == 1 else and_(lambda: here, lambda: chain(right, *pairs[1:]))


def not_(value: Any) -> Any:
    """Return `not value`."""
    here = decide(value) if isinstance(value, (TracedArray, SymbolicDim)) else bool(value)
    return not here if isinstance(here, bool) else TracedArray.functions.logical_not(here)
