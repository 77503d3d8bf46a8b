"""while and for: Python's own where Python knows how often, else a loop of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer.errors import TraceError
from explorer.frontends.syntax.changes import Elements, begun, restored
from explorer.frontends.syntax.choice import Names, Run, Values, if_
from explorer.frontends.syntax.rows import Rows, known_rows
from explorer.frontends.syntax.truth import and_, cannot, decided, not_
from explorer.frontends.syntax.values import MISSING, called, is_arrays, is_plain, kind_of_value
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.loops import emit_loop, same_nesting, steady
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.emit import emit_shape
from explorer.frontends.tracing.frames import source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.structure import flatten, rebuild


def while_(
    test: Run,
    body: Run,
    names: Names,
    given: Values,
    stop: int,
    effect: str = "",
    elements: Elements = (),
) -> Values:
    """What the names are after `while test(*names): names = body(*names)`; `stop` is the place of a
    flag among them that ends it, -1 if there is none, `effect` and `elements` are as of `if_`.
    """
    state = given
    while True:
        holds = _going(test, state, stop)
        if isinstance(holds, TracedArray):
            if effect:
                cannot(effect)
            with source_of("while"):
                return _traced_loop(
                    names,
                    state,
                    None,
                    lambda at, values: body(*values),
                    lambda values: _going(test, values, stop),
                    elements,
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
    here = decided(value) if isinstance(value, (TracedArray, SymbolicDim)) else bool(value)
    return here if ended is True else and_(lambda: here, lambda: ended)


def for_(
    rows: Any,
    body: Run,
    names: Names,
    given: Values,
    stop: int,
    effect: str = "",
    elements: Elements = (),
) -> Values:
    """What the names are after `for row in rows: names = body(row, *names)`."""
    known = known_rows(rows)
    if known is not None:
        if effect:
            cannot(effect)
        with source_of("for"):
            return _traced_for(known, body, names, given, stop, elements)
    state = given
    for row in rows:
        going = not_(state[stop]) if stop >= 0 else True
        if going is False:
            break
        if going is True:
            state = body(row, *state)
        else:
            step = partial(body, row)
            state = if_(going, step, lambda *s: s, names, state, effect, elements)
    return state


def _traced_for(
    rows: Rows, body: Run, names: Names, given: Values, stop: int, elements: Elements
) -> Values:
    for n, name, _ in elements:
        if any(given[n] is of for of in rows.of):
            cannot(f"change of elements of {name}, over whose rows it goes")

    def step(at: TracedArray, values: Values) -> Values:
        return body(rows.at(at), *values)  # type: ignore[no-any-return] # a rewritten body

    def going(values: Values) -> Any:
        return not_(values[stop]) if stop >= 0 else True

    trip = rows.count
    count = traced(trip) if isinstance(trip, TracedArray) else emit_shape((trip,), scalar=True)
    return _traced_loop(names, given, count, step, going, elements)


def _traced_loop(
    names: Names,
    given: Values,
    trip: TracedArray | None,
    body: Callable[[TracedArray, Values], Values],
    going: Callable[[Values], Any],
    elements: Elements,
) -> Values:
    """A loop of the program over those names that are arrays; the others stay what they are."""
    for name, value in zip(names, given, strict=True):
        if value is MISSING:
            _refuse(name, "has a value only within a loop that may run no time")
    outside, given = given, begun(elements, given)
    carried = [n for n, v in enumerate(given) if is_arrays(v)]
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
    found = whole(emit_loop(done, trip, start, state, 0, ()))
    return restored(names, found, elements, outside)


def _check_state(names: Names, before: Values, after: Values, carried: Sequence[int]) -> None:
    """Arrays stay arrays, and whatever else a loop holds stays what it is."""
    for n, (name, a, b) in enumerate(zip(names, before, after, strict=True)):
        kept = is_arrays(b) if n in carried else a is b or (is_plain(a) and a == b)
        if not kept:
            kinds = kind_of_value(a), kind_of_value(b)
            _refuse(name, f"is {kinds[0]} before a step and {kinds[1]} after it, in a loop")


def _refuse(name: str, said: str) -> None:
    line = calling_line()
    raise TraceError(
        f"{line}: {called(name)} {said} that a run decides",
        where=line,
        try_="give it an array or a number before the loop",
    )
