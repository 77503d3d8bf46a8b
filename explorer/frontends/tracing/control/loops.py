"""while_loop: a loop on a traced condition; outside of a trace, Python's `while`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.aliases import (
    alias_loop_results,
    check_trips,
    propagate_changes,
)
from explorer.frontends.tracing.control.bodies import Body, captures_of, finish, run_body
from explorer.frontends.tracing.control.branches import scalar_bool
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import attributed_to_call, current_frame, is_tracing
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import converted, traced
from explorer.frontends.tracing.structure import Structure, flatten, rebuild
from explorer.ir.calls import Loop
from explorer.ir.types import Tensor

Run = Callable[..., Any]
COUNTERS = (("iteration", Tensor((), "int64")), ("going", Tensor((), "bool")))


def while_loop(condition: Run, body: Run, *state: Any) -> Any:
    """Run `while condition(*state): state = body(*state)`.

    The state keeps its dtypes and shapes. A single state is returned as it is, several as a tuple.
    """
    if not is_tracing():
        while condition(*state):
            after = body(*state)
            state = (after,) if len(state) == 1 else tuple(after)
        return state[0] if len(state) == 1 else state
    with attributed_to_call("while_loop"):
        return _while(condition, body, state)


def _while(condition: Run, body: Run, state: tuple[Any, ...]) -> Any:
    leaves, nesting = flatten(state)

    def check(values: Sequence[Any]) -> TracedArray:
        return scalar_bool(condition(*rebuild(nesting, values)), "while_loop")

    def step(_: TracedArray, going: TracedArray, *values: TracedArray) -> Any:
        result = body(*rebuild(nesting, values))
        after, nested = flatten((result,) if len(state) == 1 else tuple(result))
        check_nesting("while_loop", nested, nesting)
        return [check(after), *after]

    initial, done = trace_loop_body(step, [traced(leaf) for leaf in leaves])
    going = check(initial)
    results = emit_loop(done, None, going, initial, 0, ())
    result = rebuild(nesting, results)
    return result[0] if len(state) == 1 else result


def check_nesting(op: str, nesting: Structure, expected: Structure) -> None:
    """Raise TraceError if a loop's body returns another nesting than it takes."""
    if nesting != expected:
        raise TraceError(
            f"{calling_line()}: the body of {op} takes {expected} and returns {nesting}",
            where=calling_line(),
        )


def trace_loop_body(step: Run, state: list[TracedArray]) -> tuple[list[TracedArray], Body]:
    """Return the initial state and the traced body.

    A weakly typed number of the state takes the dtype that it has after a step.
    """
    recorder = current_frame().recorder
    for _ in range(len(state) + 1):
        mark = recorder.mark()
        done = run_body(step, "body", state, COUNTERS)
        after = done.results[1 : 1 + len(state)]
        changed = [a.weak and not b.weak for a, b in zip(state, after, strict=True)]
        if not any(changed):
            break
        recorder.rewind(mark)
        state = [
            converted(a, b.dtype) if c else a for a, b, c in zip(state, after, changed, strict=True)
        ]
    for before, value in zip(state, after, strict=True):
        _check_invariant_type(before, value, done)
    return state, done


def _check_invariant_type(before: TracedArray, after: TracedArray, body: Body) -> None:
    env = current_frame().recorder.env
    kind = f"{before.type}" + (" (a number)" if before.weak else "")
    sentence = (
        f"{calling_line()}: a value of the state is {kind} before a step and {after.type} after"
    )
    if before.dtype != after.dtype and not after.weak:
        raise DtypeError(sentence, where=calling_line(), try_="astype before the loop, or in it")
    same = before.ndim == after.ndim and all(
        env.equal(a, b) for a, b in zip(before.type.dims, after.type.dims, strict=True)
    )
    if not same:
        raise ShapeError(
            sentence,
            where=calling_line(),
            try_="explorer.match_cast in the body" if before.ndim == after.ndim else "",
        )


def emit_loop(
    body: Body,
    trip: TracedArray | None,
    going: TracedArray | None,
    state: list[TracedArray],
    scans: int,
    stacked: Sequence[Tensor],
) -> list[TracedArray]:
    """Emit a loop and return its final state and stacked results."""
    frame, captures = current_frame(), captures_of([body])
    dtypes = [np.dtype(bool), *(s.dtype for s in state)]

    def convert(i: int, value: TracedArray) -> TracedArray:
        return converted(value, dtypes[i] if i < len(dtypes) else value.dtype)

    finish(body, captures, convert)
    own = [frame.own(s.value, s.home) for s in state]
    loop = Loop(
        body.frame.name,
        None if trip is None else frame.own(trip.value, trip.home),
        None if going is None else frame.own(going.value, going.home),
        tuple(own),
        tuple(captures.values()),
        scans,
    )
    results = bind(frame, loop, [*(s.type for s in state), *stacked], "loop")
    for value, before in zip(results, state, strict=False):
        value.weak = before.weak
    check_trips(body.frame)
    propagate_changes(body.frame)
    alias_loop_results(results[: len(state)], state, body.values[len(COUNTERS) :], body.results[1:])
    return results
