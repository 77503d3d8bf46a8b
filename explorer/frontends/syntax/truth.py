"""Tests: what Python knows is true or false, what only a run knows a traced bool."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from explorer.errors import TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.branches import one_bool
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


def decided(value: Any) -> bool | TracedArray:
    """What a test says: True or False where that is known, else a traced bool."""
    if isinstance(value, SymbolicDim):
        value = value != 0
    return one_bool(value, "an if or a while") if isinstance(value, TracedArray) else bool(value)


def plain(test: Any, why: str) -> Any:
    """The test of a statement that must be Python's own."""
    if isinstance(test, (TracedArray, SymbolicDim)) and not isinstance(decided(test), bool):
        cannot(why)
    return test


def plain_rows(rows: Any, why: str) -> Any:
    """What a `for` goes over that must be Python's own."""
    if isinstance(rows, TracedArray) and rows.ndim and not isinstance(rows.shape[0], int):
        cannot(why)
    return rows


def cannot(why: str) -> None:
    line = calling_line()
    raise TraceError(
        f"{line}: what only a run knows decides here ({line.text}), and a traced statement takes "
        f"no {why}",
        where=line,
        try_="a flag that is assigned, or explorer.cond, explorer.while_loop or explorer.scan",
    )


def and_(*parts: Callable[[], Any]) -> Any:
    """`a and b and …`."""
    return _joined(parts, "logical_and", False)


def or_(*parts: Callable[[], Any]) -> Any:
    """`a or b or …`."""
    return _joined(parts, "logical_or", True)


def _joined(parts: Sequence[Callable[[], Any]], name: str, ends: bool) -> Any:
    value = parts[0]()
    for part in parts[1:]:
        if not isinstance(value, (TracedArray, SymbolicDim)):
            if bool(value) is ends:
                return value
            value = part()
            continue
        here = decided(value)
        if isinstance(here, bool):
            value = value if here is ends else part()
            continue
        value = getattr(TracedArray.functions, name)(here, _test_of(part()))
    return value


def _test_of(value: Any) -> Any:
    return decided(value) if is_traced(value) else bool(value)


def chain(left: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
    """`left < middle < right`: each operand once, those behind what is false not at all."""
    name, later = pairs[0]
    right = later()
    here = COMPARISONS[name](left, right)
    return here if len(pairs) == 1 else and_(lambda: here, lambda: chain(right, *pairs[1:]))


def not_(value: Any) -> Any:
    """`not value`."""
    here = decided(value) if isinstance(value, (TracedArray, SymbolicDim)) else bool(value)
    return not here if isinstance(here, bool) else TracedArray.functions.logical_not(here)
