"""`while` and `for`: run while tracing if the trip count is known, else a loop of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer.errors import TraceError
from explorer.frontends.syntax.changes import Elements, prepare_elements, write_back
from explorer.frontends.syntax.choice import Names, Run, Values, if_
from explorer.frontends.syntax.rows import Rows, traced_rows_of
from explorer.frontends.syntax.truth import and_, decide, not_, refuse_traced
from explorer.frontends.syntax.values import (
    MISSING,
    is_arrays,
    is_plain,
    kind_of_value,
    name_for_error,
)
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.loops import check_nesting, emit_loop, trace_loop_body
from explorer.frontends.tracing.dims import SymbolicDim
from explorer.frontends.tracing.emit import emit_shape
from explorer.frontends.tracing.frames import attributed_to_call
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.structure import flatten, rebuild


def while_(
    test: Run,
    body: Run,
    names: Names,
    inputs: Values,
    stop: int,
    effect: str = "",
    elements: Elements = (),
) -> Values:
    """Return the values of the names after `while test(*names): names = body(*names)`.

    `stop` is the index of a flag among them that ends the loop, or -1. `effect` and `elements` are
    as in `if_`.
    """
    state = inputs
    while True:
        holds = _going(test, state, stop)
        if isinstance(holds, TracedArray):
            if effect:
                refuse_traced(effect)
            with attributed_to_call("while"):
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
    """Return True, False or a traced bool: does the loop continue?"""
    ended = not_(state[stop]) if stop >= 0 else True
    if ended is False:
        return False
    value = test(*state)
    here = decide(value) if isinstance(value, (TracedArray, SymbolicDim)) else bool(value)
    return here if ended is True else and_(lambda: here, lambda: ended)


def for_(
    rows: Any,
    body: Run,
    names: Names,
    inputs: Values,
    stop: int,
    effect: str = "",
    elements: Elements = (),
) -> Values:
    """Return the values of the names after `for row in rows: names = body(row, *names)`."""
    traced_rows = traced_rows_of(rows)
    if traced_rows is not None:
        if effect:
            refuse_traced(effect)
        with attributed_to_call("for"):
            return _traced_for(traced_rows, body, names, inputs, stop, elements)
    state = inputs
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
    rows: Rows, body: Run, names: Names, inputs: Values, stop: int, elements: Elements
) -> Values:
    for n, name, _ in elements:
        if any(inputs[n] is array for array in rows.of):
            refuse_traced(f"change of elements of {name}, the array it iterates over")

    def step(at: TracedArray, values: Values) -> Values:
        return body(rows.at(at), *values)  # type: ignore[no-any-return] # a rewritten body

    def going(values: Values) -> Any:
        return not_(values[stop]) if stop >= 0 else True

    trip = rows.count
    count = traced(trip) if isinstance(trip, TracedArray) else emit_shape((trip,), scalar=True)
    return _traced_loop(names, inputs, count, step, going, elements)


def _traced_loop(
    names: Names,
    inputs: Values,
    trip: TracedArray | None,
    body: Callable[[TracedArray, Values], Values],
    going: Callable[[Values], Any],
    elements: Elements,
) -> Values:
    """Emit a loop that carries the names that are arrays; the others are loop-invariant."""
    for name, value in zip(names, inputs, strict=True):
        if value is MISSING:
            _refuse(name, "has a value only after an iteration of a loop")
    outside, inputs = inputs, prepare_elements(elements, inputs)
    carried = [n for n, v in enumerate(inputs) if is_arrays(v)]
    leaves, nesting = flatten(tuple(inputs[n] for n in carried))

    def all_values(values: Sequence[Any]) -> Values:
        parts = dict(zip(carried, rebuild(nesting, values), strict=True))
        return tuple(parts.get(n, inputs[n]) for n in range(len(inputs)))

    def step(at: TracedArray, before: TracedArray, *values: TracedArray) -> Any:
        after = body(at, all_values(values))
        _check_state(names, inputs, after, carried)
        inner, nested = flatten(tuple(after[n] for n in carried))
        check_nesting("a loop", nested, nesting)
        more = going(all_values([traced(x) for x in inner]))
        return [traced(np.asarray(more)) if isinstance(more, bool) else more, *inner]

    state, done = trace_loop_body(step, [traced(x) for x in leaves])
    first = going(all_values(state))
    start = None if first is True else traced(first)
    results = all_values(emit_loop(done, trip, start, state, 0, ()))
    return write_back(names, results, elements, outside)


def _check_state(names: Names, before: Values, after: Values, carried: Sequence[int]) -> None:
    """Check that arrays stay arrays, and that other values do not change in the loop."""
    for n, (name, a, b) in enumerate(zip(names, before, after, strict=True)):
        is_invariant = is_arrays(b) if n in carried else a is b or (is_plain(a) and a == b)
        if not is_invariant:
            kinds = kind_of_value(a), kind_of_value(b)
            _refuse(name, f"is {kinds[0]} before a step and {kinds[1]} after it, in a loop")


def _refuse(name: str, problem: str) -> None:
    line = calling_line()
    raise TraceError(
        f"{line}: {name_for_error(name)} {problem} with a traced condition",
        where=line,
        try_="give it an array or a number before the loop",
    )
