"""while_loop: a function again and again, as long as data says. Outside of a trace, a `while`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.bodies import Body, captured, finish, run_body
from explorer.frontends.tracing.control.branches import one_bool
from explorer.frontends.tracing.control.shared import changed_in, check_trips, handed_on_by_trips
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import current_frame, is_tracing, source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import converted, traced
from explorer.frontends.tracing.structure import Structure, flatten, rebuild
from explorer.ir.calls import Loop
from explorer.ir.types import Tensor

Run = Callable[..., Any]
COUNTERS = (("iteration", Tensor((), "int64")), ("going", Tensor((), "bool")))


def while_loop(condition: Run, body: Run, *state: Any) -> Any:
    """`body` as long as `condition` holds of the state: `while condition(*state): state =
    body(*state)`.

    The state keeps its dtypes and shapes. One state is given back as it is, several as a tuple.
    """
    if not is_tracing():
        while condition(*state):
            found = body(*state)
            state = (found,) if len(state) == 1 else tuple(found)
        return state[0] if len(state) == 1 else state
    with source_of("while_loop"):
        return _while(condition, body, state)


def _while(condition: Run, body: Run, state: tuple[Any, ...]) -> Any:
    leaves, nesting = flatten(state)

    def check(values: Sequence[Any]) -> TracedArray:
        return one_bool(condition(*rebuild(nesting, values)), "while_loop")

    def step(_: TracedArray, going: TracedArray, *values: TracedArray) -> Any:
        found = body(*rebuild(nesting, values))
        after, nested = flatten((found,) if len(state) == 1 else tuple(found))
        same_nesting("while_loop", nested, nesting)
        return [check(after), *after]

    given, done = steady(step, [traced(leaf) for leaf in leaves])
    going = check(given)
    found = emit_loop(done, None, going, given, 0, ())
    result = rebuild(nesting, found)
    return result[0] if len(state) == 1 else result


def same_nesting(op: str, found: Structure, wanted: Structure) -> None:
    if found != wanted:
        raise TraceError(
            f"{calling_line()}: the body of {op} is given {wanted} and gives {found}",
            where=calling_line(),
        )


def steady(step: Run, state: list[TracedArray]) -> tuple[list[TracedArray], Body]:
    """The body, and the state it starts from: numbers take the dtype that a step gives them."""
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
        _check_kept(before, value, done)
    return state, done


def _check_kept(before: TracedArray, after: TracedArray, body: Body) -> None:
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
    frame, captures = current_frame(), captured([body])
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
    found = bind(frame, loop, [*(s.type for s in state), *stacked], "loop")
    for value, before in zip(found, state, strict=False):
        value.weak = before.weak
    check_trips(body.frame)
    changed_in(body.frame)
    handed_on_by_trips(found[: len(state)], state, body.values[len(COUNTERS) :], body.results[1:])
    return found
