"""Control flow of rewritten functions at tracing time; rewritten code calls these functions.

Known conditions and trip counts run as Python; others become branches and loops of the traced
program. The functions for conditions, names and elements are those of `values`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from explorer.errors import ShapeError, TraceError
from explorer.frontends.python.syntax.values import (
    MISSING,
    Elements,
    Values,
    and_,
    assign_element,
    augment_element,
    chain,
    decide,
    is_arrays,
    is_plain,
    kind_of_value,
    name_for_error,
    not_,
    or_,
    plain,
    plain_rows,
    prepare_elements,
    read,
    refuse_traced,
    write_back,
)
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.control_flow import (
    check_nesting,
    cond,
    emit_loop,
    trace_loop_body,
)
from explorer.frontends.python.tracing.dims import SymbolicDim, plain_dim, python_dim
from explorer.frontends.python.tracing.emit import emit_shape, is_traced, traced
from explorer.frontends.python.tracing.frames import attributed_to_call, calling_line, current_frame
from explorer.frontends.python.tracing.structure import flatten, rebuild

__all__ = [
    "MISSING",
    "and_",
    "assign_element",
    "augment_element",
    "chain",
    "either",
    "for_",
    "if_",
    "not_",
    "or_",
    "plain",
    "plain_rows",
    "read",
    "rows",
    "slice_",
    "while_",
]

Run = Callable[..., Any]
Names = tuple[str, ...]
slice_ = slice


# Branches.


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


# Loops.


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
    traced_rows = _traced_rows_of(rows)
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


# Iterables of a traced `for`: rows of arrays, and ranges of symbolic or traced length.


@dataclass(frozen=True)
class Rows:
    """The iterable of a traced `for`: length, item at an index, and the arrays of its rows."""

    count: Any  # an int, a SymbolicDim's expression, or a traced scalar
    at: Callable[[Any], Any]
    of: tuple[TracedArray, ...] = ()


def rows(function: Any, *args: Any) -> Any:
    """Apply `range`, `enumerate`, `zip` or `reversed`, also to traced values."""
    inner = [_traced_rows_of(a) for a in args]
    if function is range and is_traced(args):
        return _range(*args)
    if function is enumerate and inner[0] is not None:
        first, start = inner[0], args[1] if len(args) > 1 else 0
        return Rows(first.count, lambda at: (_number(at) + start, first.at(at)), first.of)
    if function is reversed and inner[0] is not None:
        back = inner[0]
        last = python_dim(back.count) if plain_dim(back.count) is not None else back.count
        return Rows(back.count, lambda at: back.at(last - 1 - at), back.of)
    if function is zip and any(r is not None for r in inner):
        return _zipped(inner)
    return function(*args)


def _traced_rows_of(value: Any) -> Rows | None:
    """Return the rows of an array of symbolic length; None if Python can iterate over it."""
    if isinstance(value, TracedArray) and value.ndim and not isinstance(value.shape[0], int):
        return Rows(value.type.dims[0], lambda at: value[at], (value,))
    return value if isinstance(value, Rows) else None


def _zipped(every: Sequence[Rows | None]) -> Rows:
    traced_rows = [r for r in every if r is not None]
    env = current_frame().recorder.env
    counts = [r.count for r in traced_rows]
    dims = all(plain_dim(c) is not None for c in counts)
    if (
        len(traced_rows) < len(every)
        or not dims
        or not all(env.equal(counts[0], c) for c in counts)
    ):
        line = calling_line()
        raise ShapeError(
            f"{line}: zip in a traced for takes arrays of equal length, and these have "
            f"{', '.join(str(c) for c in counts)} rows",
            where=line,
            try_="explorer.np.asarray for lists, or slices of equal length",
        )
    arrays = tuple(array for r in traced_rows for array in r.of)
    return Rows(counts[0], lambda at: tuple(r.at(at) for r in traced_rows), arrays)


def _range(*args: Any) -> Rows:
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) > 2 else 1
    if not isinstance(step, int) or step == 0:
        line = calling_line()
        raise TraceError(
            f"{line}: the step of a traced range must be a nonzero Python integer", where=line
        )
    start, stop = _as_int64(start), _as_int64(stop)
    span = stop - start if isinstance(start, TracedArray) or start != 0 else stop
    if step != 1:
        span = (span + step - 1) // step if step > 0 else (-span - step - 1) // -step
    dim = plain_dim(span)
    if dim is None:
        functions = TracedArray.functions
        count = functions.maximum(span, 0).astype("int64")
    else:
        low, _ = current_frame().recorder.env.bounds(dim)
        count = dim if low >= 0 else TracedArray.functions.maximum(python_dim(dim), 0)

    def number(at: TracedArray) -> TracedArray:
        place = at if step == 1 else at * step
        from_zero = not isinstance(start, TracedArray) and start == 0
        return _number(place if from_zero else place + start)

    return Rows(count, number)


def _as_int64(bound: Any) -> Any:
    """Return a bound of a range as int64."""
    if not isinstance(bound, TracedArray):
        return bound
    if bound.ndim or bound.dtype.kind not in "iu":
        line = calling_line()
        raise TraceError(
            f"{line}: the bounds of a traced range must be integers, not {bound.type}",
            where=line,
            try_='.astype("int64")',
        )
    return bound.astype("int64")


def _number(at: TracedArray) -> TracedArray:
    """Return a weakly typed count, like a Python number."""
    return TracedArray(at.value, at.home, weak=True)
