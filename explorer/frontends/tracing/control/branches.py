"""cond: a branch on a traced bool; outside of a trace, Python's `if`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.coarse import KnownDims
from explorer.frontends.tracing.control.aliases import alias_branch_results, propagate_changes
from explorer.frontends.tracing.control.bodies import Body, captures_of, finish, run_body
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import attributed_to_call, current_frame
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import common_dtype, converted, is_traced, traced
from explorer.frontends.tracing.structure import flatten, rebuild
from explorer.ir.calls import Branch
from explorer.ir.shapes.dims import symbols_of
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
