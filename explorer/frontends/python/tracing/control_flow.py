"""Control flow on traced values: cond, while_loop and scan.

Outside of a trace they are Python's `if`, `while` and `for`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.bodies import (
    Body,
    alias_branch_results,
    alias_loop_results,
    captures_of,
    check_trips,
    finish,
    propagate_changes,
    run_body,
)
from explorer.frontends.python.tracing.dims import plain_dim
from explorer.frontends.python.tracing.emit import (
    KnownDims,
    bind,
    common_dtype,
    converted,
    emit_shape,
    is_traced,
    traced,
)
from explorer.frontends.python.tracing.frames import (
    attributed_to_call,
    calling_line,
    current_frame,
    is_tracing,
)
from explorer.frontends.python.tracing.structure import Structure, flatten, rebuild
from explorer.ir.calls import Branch, Loop
from explorer.ir.dims import Dim, symbols_of
from explorer.ir.types import Tensor

Run = Callable[..., Any]


def cond(pred: Any, then: Run, orelse: Run, *args: Any) -> Any:
    """Return `then(*args)` if `pred` is true, else `orelse(*args)`.

    Both arms return the same nesting, dtypes and ranks.

    Raises:
        TraceError, DtypeError, ShapeError: the arms differ; the error names the line.
    """
    if not is_traced(pred):
        return then(*args) if pred else orelse(*args)
    with attributed_to_call("cond"):
        return _cond(scalar_bool(pred, "cond"), then, orelse, args)


def _cond(pred: TracedArray, then: Run, orelse: Run, args: tuple[Any, ...]) -> Any:
    frame, (leaves, nesting) = current_frame(), flatten(args)
    arguments = [traced(leaf) for leaf in leaves]

    def run(function: Run, name: str) -> Body:
        return run_body(lambda *v: function(*rebuild(nesting, v)), name, arguments)

    arms = run(then, "then"), run(orelse, "else")
    if arms[0].structure != arms[1].structure:
        raise TraceError(
            f"{calling_line()}: one branch returns {arms[0].structure} and the other "
            f"{arms[1].structure}",
            where=calling_line(),
        )
    if not arms[0].results:  # no results to bind, only changes to propagate
        for arm in arms:
            propagate_changes(arm.frame)
        return rebuild(arms[0].structure, [])
    pairs = list(zip(arms[0].results, arms[1].results, strict=True))
    dtypes = [_one_dtype(*pair) for pair in pairs]
    dims = [_common_dims(*pair, arms) for pair in pairs]
    captures = captures_of(arms)
    for arm in arms:
        finish(arm, captures, lambda i, value: converted(value, dtypes[i]))
    shared = (*(frame.own(v.value, v.home) for v in arguments), *captures.values())
    branch = Branch(
        frame.own(pred.value, pred.home), arms[0].frame.name, arms[1].frame.name, shared
    )
    types = [_type(t.name, d) for t, d in zip(dtypes, dims, strict=True)]
    results = bind(frame, branch, types, "cond", dims)
    for value, (a, b) in zip(results, pairs, strict=True):
        value.weak = a.weak and b.weak
    for arm in arms:
        propagate_changes(arm.frame)
    alias_branch_results(
        results, [[_source_of_result(arm, arguments, v) for v in arm.results] for arm in arms]
    )
    return rebuild(arms[0].structure, results)


def _source_of_result(arm: Body, arguments: list[TracedArray], value: TracedArray) -> TracedArray:
    """Return an arm's result; a parameter that it passes through becomes the argument itself."""
    return next((v for p, v in zip(arm.values, arguments, strict=True) if p is value), value)


def _type(dtype: str, dims: KnownDims) -> Tensor:
    """Return the annotation; only with a rank if a dim is unknown."""
    extents = tuple(d for d in dims if d is not None)
    return Tensor(extents, dtype) if len(extents) == len(dims) else Tensor(None, dtype, len(dims))


def _one_dtype(a: TracedArray, b: TracedArray) -> np.dtype[np.generic]:
    """Return the common dtype of both arms; a weakly typed one yields."""
    if a.dtype != b.dtype and not (a.weak or b.weak):
        raise DtypeError(
            f"{calling_line()}: one branch returns {a.type} and the other {b.type}",
            where=calling_line(),
            try_="astype in one of them",
        )
    return common_dtype([a, b])


def _common_dims(a: TracedArray, b: TracedArray, arms: tuple[Body, Body]) -> KnownDims:
    """Return the dims in which both arms agree and which the enclosing function can name."""
    if a.ndim != b.ndim:
        raise ShapeError(
            f"{calling_line()}: one branch returns {a.type} and the other {b.type}",
            where=calling_line(),
            try_="reshape in one of them",
        )
    env, inner = current_frame().recorder.env, arms[0].frame.defined | arms[1].frame.defined
    return tuple(
        x if not symbols_of(x) & inner and env.equal(x, y) else None
        for x, y in zip(a.type.dims, b.type.dims, strict=True)
    )


def scalar_bool(value: Any, op: str) -> TracedArray:
    """Return the condition as a scalar bool; raise ShapeError if it is not a scalar."""
    flag = converted(value, "bool")
    if flag.ndim:
        raise ShapeError(
            f"{calling_line()}: the condition of {op} must be one bool, not {flag.type}",
            where=calling_line(),
            try_="explorer.np.all or explorer.np.any",
        )
    return flag


# Loops.


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


# Scans: loops over rows of arrays that stack their results.


def scan(body: Run, init: Any, xs: Any = None, length: Any = None) -> Any:
    """Run `carry, y = body(carry, x)` for each row x of `xs`; return the last carry and all ys.

    The ys are stacked. `xs` is an array, or a tuple or a dict of arrays of equal length; without it
    `length` is the trip count. The carry keeps its dtypes and shapes.
    """
    if not is_tracing():
        return _eager_scan(body, init, xs, length)
    with attributed_to_call("scan"):
        return _scan(body, init, xs, length)


def _eager_scan(body: Run, carry: Any, xs: Any, length: int | None) -> Any:
    leaves, nesting = flatten(xs)
    rows = [np.asarray(leaf) for leaf in leaves]
    count = len(rows[0]) if rows else int(length or 0)
    if any(len(r) != count for r in rows):
        raise ShapeError(f"{calling_line()}: scan over arrays of {[len(r) for r in rows]} rows")
    outputs: list[list[Any]] = []
    for i in range(count):
        carry, y = body(carry, rebuild(nesting, [r[i] for r in rows]))
        values, nested = flatten(y)
        outputs.append(values)
    if not count:  # run on a row of zeros to determine the shapes
        _, y = body(carry, rebuild(nesting, [np.zeros(r.shape[1:], r.dtype) for r in rows]))
        values, nested = flatten(y)
        none = [np.zeros((0, *np.shape(v)), np.asarray(v).dtype) for v in values]
        return carry, rebuild(nested, none)
    return carry, rebuild(nested, [np.stack(column) for column in zip(*outputs, strict=True)])


def _scan(body: Run, init: Any, xs: Any, length: Any) -> Any:
    (start, nesting), (leaves, rows_nesting) = flatten(init), flatten(xs)
    rows = [traced(leaf) for leaf in leaves]
    count = _length(rows, length)
    nested: list[Structure] = []

    def step(at: TracedArray, going: TracedArray, *values: TracedArray) -> Any:
        carry, y = body(rebuild(nesting, values), rebuild(rows_nesting, [r[at] for r in rows]))
        after, nesting_after = flatten(carry)
        check_nesting("scan", nesting_after, nesting)
        stacked, shape = flatten(y)
        nested[:] = [shape]
        return [going, *after, *stacked]

    state, done = trace_loop_body(step, [traced(leaf) for leaf in start])
    stacked = [_stacked(y, count, done) for y in done.results[1 + len(state) :]]
    trip = emit_shape((count,), scalar=True)
    results = emit_loop(done, trip, None, state, len(stacked), stacked)
    return rebuild(nesting, results[: len(state)]), rebuild(nested[0], results[len(state) :])


def _length(rows: list[TracedArray], length: Any) -> Dim:
    env = current_frame().recorder.env
    extents = [r.type.dims[0] for r in rows if r.ndim]
    if not rows and length is not None:
        dim = plain_dim(length)
        if dim is not None:
            return dim
    if len(extents) < len(rows) or not rows or not all(env.equal(extents[0], e) for e in extents):
        operands = " and ".join(str(r.type) for r in rows) or "nothing"
        raise ShapeError(
            f"{calling_line()}: scan iterates over the rows of arrays of equal length, not over "
            f"{operands}",
            where=calling_line(),
        )
    return extents[0]


def _stacked(y: TracedArray, count: Dim, body: Body) -> Tensor:
    inner = {s for d in y.type.dims for s in symbols_of(d)} & body.frame.defined
    if inner:
        raise ShapeError(
            f"{calling_line()}: each step returns {y.type}, whose {', '.join(sorted(inner))} may "
            "differ from step to step, so that they do not stack",
            where=calling_line(),
        )
    return Tensor((count, *y.type.dims), y.type.element)
