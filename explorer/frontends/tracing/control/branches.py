"""cond: one of two functions, as data says. Outside of a trace, Python's own `if`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.coarse import Known
from explorer.frontends.tracing.control.bodies import Body, captured, finish, run_body
from explorer.frontends.tracing.control.shared import changed_in, handed_on
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import current_frame, source_of
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import common_dtype, converted, is_traced, traced
from explorer.frontends.tracing.structure import flatten, rebuild
from explorer.ir.calls import Branch
from explorer.ir.shapes.dims import symbols_of
from explorer.ir.types import Tensor

Run = Callable[..., Any]


def cond(pred: Any, then: Run, orelse: Run, *args: Any) -> Any:
    """`then(*args)` if `pred` holds, else `orelse(*args)`: one bool chooses, when it is run.

    Both give as many values, of the same dtypes and ranks. Raises TraceError, DtypeError or
    ShapeError where they do not, with the line.
    """
    if not is_traced(pred):
        return then(*args) if pred else orelse(*args)
    with source_of("cond"):
        return _cond(one_bool(pred, "cond"), then, orelse, args)


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
    if not sides[0].results:  # nothing to run, and all to be told of what they changed
        for side in sides:
            changed_in(side.frame)
        return rebuild(sides[0].structure, [])
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
    for side in sides:
        changed_in(side.frame)
    handed_on(found, [[_before(side, given, v) for v in side.results] for side in sides])
    return rebuild(sides[0].structure, found)


def _before(side: Body, given: list[TracedArray], value: TracedArray) -> TracedArray:
    """What a side gives: where that is what it was given, what that was before."""
    return next((v for p, v in zip(side.values, given, strict=True) if p is value), value)


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


def one_bool(value: Any, op: str) -> TracedArray:
    """The bool that decides; ShapeError where there are several."""
    found = converted(value, "bool")
    if found.ndim:
        raise ShapeError(
            f"{calling_line()}: {op} is decided by one bool, and is given {found.type}",
            where=calling_line(),
            try_="explorer.np.all or explorer.np.any",
        )
    return found
