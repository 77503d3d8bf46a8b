"""What a rewritten function's control flow means when it runs: Python's own where Python knows the
values, else a branch or a loop of the program that is traced.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.errors import ShapeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.branches import cond, one_bool
from explorer.frontends.tracing.dims import SymbolicDim, plain_dim, python_dim
from explorer.frontends.tracing.emit import emit_shape
from explorer.frontends.tracing.frames import current_frame, source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.loops import emit_loop, same_nesting, steady
from explorer.frontends.tracing.promote import is_traced, traced
from explorer.frontends.tracing.structure import flatten, rebuild

Run = Callable[..., Any]
Names = tuple[str, ...]
Values = tuple[Any, ...]


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


class Missing:
    """The place of a name that has no value yet."""

    def __repr__(self) -> str:
        return "no value"


MISSING = Missing()


def read(name: Callable[[], Any]) -> Any:
    """The value of a name, MISSING where it has none."""
    try:
        return name()
    except NameError:
        return MISSING


# Tests.


def _decided(value: Any) -> bool | TracedArray:
    """What a test says: True or False where that is known, else a traced bool."""
    if isinstance(value, SymbolicDim):
        value = value != 0
    return one_bool(value, "an if or a while") if isinstance(value, TracedArray) else bool(value)


def plain(test: Any, why: str) -> Any:
    """The test of a statement that must be Python's own."""
    if isinstance(test, (TracedArray, SymbolicDim)) and not isinstance(_decided(test), bool):
        _cannot(why)
    return test


def plain_rows(rows: Any, why: str) -> Any:
    """What a `for` goes over that must be Python's own."""
    if isinstance(rows, TracedArray) and rows.ndim and not isinstance(rows.shape[0], int):
        _cannot(why)
    return rows


def _cannot(why: str) -> None:
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
        here = _decided(value)
        if isinstance(here, bool):
            value = value if here is ends else part()
            continue
        value = getattr(TracedArray.functions, name)(here, _test_of(part()))
    return value


def _test_of(value: Any) -> Any:
    return _decided(value) if is_traced(value) else bool(value)


def chain(left: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
    """`left < middle < right`: each operand once, those behind what is false not at all."""
    name, later = pairs[0]
    right = later()
    here = COMPARISONS[name](left, right)
    return here if len(pairs) == 1 else and_(lambda: here, lambda: chain(right, *pairs[1:]))


def not_(value: Any) -> Any:
    """`not value`."""
    here = _decided(value) if isinstance(value, (TracedArray, SymbolicDim)) else bool(value)
    return not here if isinstance(here, bool) else TracedArray.functions.logical_not(here)


def either(test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """`then if test else orelse`."""
    here = _decided(test) if isinstance(test, (TracedArray, SymbolicDim)) else test
    if not isinstance(here, TracedArray):
        return then() if here else orelse()
    (value,) = if_(here, lambda: (then(),), lambda: (orelse(),), ("the value",), ())
    return value


# if.


def if_(test: Any, then: Run, orelse: Run, names: Names, given: Values) -> Values:
    """What the names are after `then(*given)` or `orelse(*given)`."""
    here = _decided(test) if isinstance(test, (TracedArray, SymbolicDim)) else test
    if not isinstance(here, TracedArray):
        found: Values = then(*given) if here else orelse(*given)
        return found
    if not names:
        return ()
    sides: list[Values] = []

    def side(run: Run) -> Callable[[], list[Any]]:
        def arrays() -> list[Any]:
            values = run(*given)
            sides.append(values)
            return [v for v in values if _is_arrays(v)]

        return arrays

    made = _branch(here, side(then), side(orelse), names, sides)
    return tuple(next(made) if _is_arrays(v) else v for v in sides[0])


def _branch(test: TracedArray, then: Run, orelse: Run, names: Names, sides: list[Values]) -> Any:
    def checked() -> Any:
        found = orelse()
        for name, a, b in zip(names, sides[0], sides[1], strict=True):
            _check_sides(name, a, b)
        return found

    return iter(cond(test, then, checked))


def _check_sides(name: str, a: Any, b: Any) -> None:
    """Both sides give a name arrays of one nesting, or the very same thing."""
    if _is_arrays(a) and _is_arrays(b):
        nested = flatten(a)[1], flatten(b)[1]
        if nested[0] == nested[1]:
            return
        said = f"is {nested[0]} after one side and {nested[1]} after the other"
    elif a is b or (type(a) is type(b) and _is_plain(a) and a == b):
        return
    elif a is MISSING or b is MISSING:
        said = "has a value after one side only"
    else:
        said = f"is {_kind(a)} after one side and {_kind(b)} after the other"
    line = calling_line()
    raise TraceError(
        f"{line}: {_called(name)} {said} of an if that a run decides",
        where=line,
        try_="assign it before the if, or on both sides",
    )


def _called(name: str) -> str:
    return "the result" if name.startswith("_result_") else name


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    return "an array" if _is_arrays(value) else f"of type {type(value).__name__}"


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, bytes, type(None)))


def _is_arrays(value: Any) -> bool:
    """Whether a value is arrays and numbers, nested as one likes; there is one at least."""
    leaves, _ = flatten(value)
    return bool(leaves) and all(map(_is_array, leaves))


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, (TracedArray, SymbolicDim)):
        return True
    if isinstance(leaf, (bool, int, float, np.generic)):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype != object


# while and for.


def while_(test: Run, body: Run, names: Names, given: Values, stop: int) -> Values:
    """What the names are after `while test(*names): names = body(*names)`; `stop` is the place of a
    flag among them that ends it, -1 if there is none.
    """
    state = given
    while True:
        holds = _going(test, state, stop)
        if isinstance(holds, TracedArray):
            with source_of("while"):
                return _traced_loop(
                    names,
                    state,
                    None,
                    lambda at, values: body(*values),
                    lambda values: _going(test, values, stop),
                )
        if not holds:
            return state
        state = body(*state)


def _going(test: Run, state: Values, stop: int) -> Any:
    """Whether a loop goes on."""
    ended = not_(state[stop]) if stop >= 0 else True
    if ended is False:
        return False
    value = test(*state)
    here = _decided(value) if isinstance(value, (TracedArray, SymbolicDim)) else bool(value)
    return here if ended is True else and_(lambda: here, lambda: ended)


def for_(rows: Any, body: Run, names: Names, given: Values, stop: int) -> Values:
    """What the names are after `for row in rows: names = body(row, *names)`."""
    known = _known_rows(rows)
    if known is not None:
        with source_of("for"):
            return _traced_for(known, body, names, given, stop)
    state = given
    for row in rows:
        going = not_(state[stop]) if stop >= 0 else True
        if going is False:
            break
        if going is True:
            state = body(row, *state)
        else:
            state = if_(going, lambda *s, r=row: body(r, *s), lambda *s: s, names, state)
    return state


def _traced_for(rows: Rows, body: Run, names: Names, given: Values, stop: int) -> Values:
    def step(at: TracedArray, values: Values) -> Values:
        return body(rows.at(at), *values)  # type: ignore[no-any-return] # a rewritten body

    def going(values: Values) -> Any:
        return not_(values[stop]) if stop >= 0 else True

    trip = rows.count
    count = traced(trip) if isinstance(trip, TracedArray) else emit_shape((trip,), scalar=True)
    return _traced_loop(names, given, count, step, going)


def _traced_loop(
    names: Names,
    given: Values,
    trip: TracedArray | None,
    body: Callable[[TracedArray, Values], Values],
    going: Callable[[Values], Any],
) -> Values:
    """A loop of the program over those names that are arrays; the others stay what they are."""
    for name, value in zip(names, given, strict=True):
        if value is MISSING:
            _refuse(name, "has a value only within a loop that may run no time")
    carried = [n for n, v in enumerate(given) if _is_arrays(v)]
    leaves, nesting = flatten(tuple(given[n] for n in carried))

    def whole(values: Sequence[Any]) -> Values:
        parts = dict(zip(carried, rebuild(nesting, values), strict=True))
        return tuple(parts.get(n, given[n]) for n in range(len(given)))

    def step(at: TracedArray, before: TracedArray, *values: TracedArray) -> Any:
        after = body(at, whole(values))
        _check_state(names, given, after, carried)
        inner, nested = flatten(tuple(after[n] for n in carried))
        same_nesting("a loop", nested, nesting)
        more = going(whole([traced(x) for x in inner]))
        return [traced(np.asarray(more)) if isinstance(more, bool) else more, *inner]

    state, done = steady(step, [traced(x) for x in leaves])
    first = going(whole(state))
    start = None if first is True else traced(first)
    return whole(emit_loop(done, trip, start, state, 0, ()))


def _check_state(names: Names, before: Values, after: Values, carried: Sequence[int]) -> None:
    for n, (name, a, b) in enumerate(zip(names, before, after, strict=True)):
        if n not in carried and not (a is b or (_is_plain(a) and a == b)):
            _refuse(name, f"is {_kind(a)} before a step and {_kind(b)} after it, in a loop")
        if n in carried and not _is_arrays(b):
            _refuse(name, f"is {_kind(a)} before a step and {_kind(b)} after it, in a loop")


def _refuse(name: str, said: str) -> None:
    line = calling_line()
    raise TraceError(
        f"{line}: {_called(name)} {said} that a run decides",
        where=line,
        try_="give it an array or a number before the loop",
    )


# Rows.


@dataclass(frozen=True)
class Rows:
    """What a traced `for` goes over: how many, and the one at a place."""

    count: Any  # an int, a SymbolicDim's expression, or a traced scalar
    at: Callable[[Any], Any]


def rows(function: Any, *args: Any) -> Any:
    """`range`, `enumerate`, `zip` or `reversed`, also of what only a run knows."""
    inner = [_known_rows(a) for a in args]
    if function is range and is_traced(args):
        return _range(*args)
    if function is enumerate and inner[0] is not None:
        first, start = inner[0], args[1] if len(args) > 1 else 0
        return Rows(first.count, lambda at: (_number(at) + start, first.at(at)))
    if function is reversed and inner[0] is not None:
        back = inner[0]
        last = python_dim(back.count) if plain_dim(back.count) is not None else back.count
        return Rows(back.count, lambda at: back.at(last - 1 - at))
    if function is zip and any(r is not None for r in inner):
        return _zipped(inner)
    return function(*args)


def _known_rows(value: Any) -> Rows | None:
    """The rows of a traced array, or rows already."""
    if isinstance(value, TracedArray) and value.ndim:
        return Rows(value.type.dims[0], lambda at: value[at])
    return value if isinstance(value, Rows) else None


def _zipped(every: Sequence[Rows | None]) -> Rows:
    known = [r for r in every if r is not None]
    env = current_frame().recorder.env
    counts = [r.count for r in known]
    dims = all(plain_dim(c) is not None for c in counts)
    if len(known) < len(every) or not dims or not all(env.equal(counts[0], c) for c in counts):
        line = calling_line()
        raise ShapeError(
            f"{line}: zip in a traced for goes over arrays of equal length, and these have "
            f"{', '.join(str(c) for c in counts)} rows",
            where=line,
            try_="explorer.np.asarray for lists, or slices of equal length",
        )
    return Rows(counts[0], lambda at: tuple(r.at(at) for r in known))


def _range(*args: Any) -> Rows:
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else 1
    if not isinstance(step, int) or step == 0:
        line = calling_line()
        raise TraceError(f"{line}: a traced range steps by a number that is known", where=line)
    span = (stop - start + (step - 1)) // step if step > 0 else (start - stop - step - 1) // -step
    dim = plain_dim(span)
    if dim is None:
        functions = TracedArray.functions
        count = functions.maximum(span, 0).astype("int64")
    else:
        low, _ = current_frame().recorder.env.bounds(dim)
        count = dim if low >= 0 else TracedArray.functions.maximum(python_dim(dim), 0)
    return Rows(count, lambda at: _number(at) * step + start)


def _number(at: TracedArray) -> TracedArray:
    """A count as Python's: its dtype yields to an array's."""
    return TracedArray(at.value, at.home, weak=True)
