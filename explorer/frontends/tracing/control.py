"""Control flow that depends on data: branches, loops, and loops over the rows of arrays.

Outside of a trace each is Python's own `if`, `while` or `for`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.bodies import Body, captured, finish, run_body
from explorer.frontends.tracing.coarse import Known
from explorer.frontends.tracing.dims import plain_dim
from explorer.frontends.tracing.emit import bind, emit_shape
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import common_dtype, converted, is_traced, traced
from explorer.frontends.tracing.recorder import current_frame, is_tracing, source_of
from explorer.frontends.tracing.structure import Structure, flatten, rebuild
from explorer.ir.calls import Branch, Loop
from explorer.ir.dims import Dim, symbols_of
from explorer.ir.types import Tensor

Run = Callable[..., Any]
COUNTERS = (("iteration", Tensor((), "int64")), ("going", Tensor((), "bool")))


def cond(pred: Any, then: Run, orelse: Run, *args: Any) -> Any:
    """`then(*args)` if `pred` holds, else `orelse(*args)`: one bool chooses, when it is run.

    Both give as many values, of the same dtypes and ranks. Raises TraceError, DtypeError or
    ShapeError where they do not, with the line.
    """
    if not is_traced(pred):
        return then(*args) if pred else orelse(*args)
    with source_of("cond"):
        return _cond(_flag(pred, "cond"), then, orelse, args)


def _cond(pred: TracedArray, then: Run, orelse: Run, args: tuple[Any, ...]) -> Any:
    frame, (leaves, nesting) = current_frame(), flatten(args)
    given = [traced(leaf) for leaf in leaves]

    def run(function: Run, name: str) -> Body:
        return run_body(lambda *v: function(*rebuild(nesting, v)), name, given)

    sides = run(then, "then"), run(orelse, "else")
    if sides[0].structure != sides[1].structure:
        raise TraceError(
            f"{calling_line()}: one branch gives {sides[0].structure} and the other "
            f"{sides[1].structure}",
            where=calling_line(),
        )
    pairs = list(zip(sides[0].results, sides[1].results, strict=True))
    dtypes = [_one_dtype(*pair) for pair in pairs]
    dims = [_common_dims(*pair, sides) for pair in pairs]
    captures = captured(sides)
    for side in sides:
        finish(side, captures, lambda i, value: converted(value, dtypes[i]))
    shared = (*(frame.own(v.value, v.home) for v in given), *captures.values())
    branch = Branch(
        frame.own(pred.value, pred.home), sides[0].frame.name, sides[1].frame.name, shared
    )
    types = [_type(t.name, d) for t, d in zip(dtypes, dims, strict=True)]
    found = bind(frame, branch, types, "cond", dims)
    for value, (a, b) in zip(found, pairs, strict=True):
        value.weak = a.weak and b.weak
    return rebuild(sides[0].structure, found)


def _type(dtype: str, dims: Known) -> Tensor:
    """The annotation; without dims where one is not known."""
    known = tuple(d for d in dims if d is not None)
    return Tensor(known, dtype) if len(known) == len(dims) else Tensor(None, dtype, len(dims))


def _one_dtype(a: TracedArray, b: TracedArray) -> np.dtype[np.generic]:
    """Both branches' dtype; what stands for a number yields."""
    if a.dtype != b.dtype and not (a.weak or b.weak):
        raise DtypeError(
            f"{calling_line()}: one branch gives {a.type} and the other {b.type}",
            where=calling_line(),
            try_="astype in one of them",
        )
    return common_dtype([a, b])


def _common_dims(a: TracedArray, b: TracedArray, sides: tuple[Body, Body]) -> Known:
    """The dims in which both agree and which the function around can name."""
    if a.ndim != b.ndim:
        raise ShapeError(
            f"{calling_line()}: one branch gives {a.type} and the other {b.type}",
            where=calling_line(),
            try_="reshape in one of them",
        )
    env, inner = current_frame().recorder.env, sides[0].frame.defined | sides[1].frame.defined
    return tuple(
        x if not symbols_of(x) & inner and env.equal(x, y) else None
        for x, y in zip(a.type.dims, b.type.dims, strict=True)
    )


def _flag(value: Any, op: str) -> TracedArray:
    """One bool."""
    found = converted(value, "bool")
    if found.ndim:
        raise ShapeError(
            f"{calling_line()}: {op} is decided by one bool, and is given {found.type}",
            where=calling_line(),
            try_="explorer.np.all or explorer.np.any",
        )
    return found


# While.


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
        return _flag(condition(*rebuild(nesting, values)), "while_loop")

    def step(_: TracedArray, going: TracedArray, *values: TracedArray) -> Any:
        found = body(*rebuild(nesting, values))
        after, nested = flatten((found,) if len(state) == 1 else tuple(found))
        _same_nesting("while_loop", nested, nesting)
        return [check(after), *after]

    given, done = _steady(step, [traced(leaf) for leaf in leaves])
    going = check(given)
    found = _loop(done, None, going, given, 0, ())
    result = rebuild(nesting, found)
    return result[0] if len(state) == 1 else result


def _same_nesting(op: str, found: Structure, wanted: Structure) -> None:
    if found != wanted:
        raise TraceError(
            f"{calling_line()}: the body of {op} is given {wanted} and gives {found}",
            where=calling_line(),
        )


def _steady(step: Run, state: list[TracedArray]) -> tuple[list[TracedArray], Body]:
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


def _loop(
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
    return found


# Scan.


def scan(body: Run, init: Any, xs: Any = None, length: Any = None) -> Any:
    """`carry, y = body(carry, x)` for each row x of `xs`: the last carry, and all ys stacked.

    `xs` is an array, or a tuple or a dict of arrays of equal length; without it `length` says how
    often. The carry keeps its dtypes and shapes.
    """
    if not is_tracing():
        return _eager_scan(body, init, xs, length)
    with source_of("scan"):
        return _scan(body, init, xs, length)


def _eager_scan(body: Run, carry: Any, xs: Any, length: int | None) -> Any:
    leaves, nesting = flatten(xs)
    rows = [np.asarray(leaf) for leaf in leaves]
    count = len(rows[0]) if rows else int(length or 0)
    if any(len(r) != count for r in rows):
        raise ShapeError(f"{calling_line()}: scan over arrays of {[len(r) for r in rows]} rows")
    found: list[list[Any]] = []
    for i in range(count):
        carry, y = body(carry, rebuild(nesting, [r[i] for r in rows]))
        values, nested = flatten(y)
        found.append(values)
    if not count:  # of what shape a row would be, a row of zeros says
        _, y = body(carry, rebuild(nesting, [np.zeros(r.shape[1:], r.dtype) for r in rows]))
        values, nested = flatten(y)
        none = [np.zeros((0, *np.shape(v)), np.asarray(v).dtype) for v in values]
        return carry, rebuild(nested, none)
    return carry, rebuild(nested, [np.stack(column) for column in zip(*found, strict=True)])


def _scan(body: Run, init: Any, xs: Any, length: Any) -> Any:
    (start, nesting), (leaves, rows_nesting) = flatten(init), flatten(xs)
    rows = [traced(leaf) for leaf in leaves]
    count = _length(rows, length)
    nested: list[Structure] = []

    def step(at: TracedArray, going: TracedArray, *values: TracedArray) -> Any:
        carry, y = body(rebuild(nesting, values), rebuild(rows_nesting, [r[at] for r in rows]))
        after, found = flatten(carry)
        _same_nesting("scan", found, nesting)
        stacked, shape = flatten(y)
        nested[:] = [shape]
        return [going, *after, *stacked]

    state, done = _steady(step, [traced(leaf) for leaf in start])
    stacked = [_stacked(y, count, done) for y in done.results[1 + len(state) :]]
    trip = emit_shape((count,), scalar=True)
    found = _loop(done, trip, None, state, len(stacked), stacked)
    return rebuild(nesting, found[: len(state)]), rebuild(nested[0], found[len(state) :])


def _length(rows: list[TracedArray], length: Any) -> Dim:
    env = current_frame().recorder.env
    extents = [r.type.dims[0] for r in rows if r.ndim]
    if not rows and length is not None:
        dim = plain_dim(length)
        if dim is not None:
            return dim
    if len(extents) < len(rows) or not rows or not all(env.equal(extents[0], e) for e in extents):
        given = " and ".join(str(r.type) for r in rows) or "nothing"
        raise ShapeError(
            f"{calling_line()}: scan goes over the rows of arrays of equal length, and is given "
            f"{given}",
            where=calling_line(),
        )
    return extents[0]


def _stacked(y: TracedArray, count: Dim, body: Body) -> Tensor:
    inner = {s for d in y.type.dims for s in symbols_of(d)} & body.frame.defined
    if inner:
        raise ShapeError(
            f"{calling_line()}: each step gives {y.type}, whose {', '.join(sorted(inner))} may "
            "differ from step to step, so that they do not stack",
            where=calling_line(),
        )
    return Tensor((count, *y.type.dims), y.type.element)
