"""Reductions along axes, and the prefix sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.dims import Dim, Shape, product
from explorer.ir.kernel import Affine, Axis, Const, Expr, IndexValue, Read, var
from explorer.ir.types import DType, Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, letters
from explorer.ops.pooling import scaled
from explorer.ops.record import Array, OperatorRecord, Site

Each = Callable[[Expr, DType], Expr]
Finish = Callable[[Expr, Dim, DType], Expr]


def _reduced(site: Site) -> tuple[int, ...]:
    """The dims that are reduced: all of them, unless axes are given or none are asked for."""
    rank = len(site.shape())
    axes = site.axes(rank)
    if axes is None or axes == ():
        return () if site.integer("noop_with_empty_axes") else tuple(range(rank))
    return tuple(sorted(axes))


def _types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(_result_shape(site, _reduced(site)), site.dtype()),)


def _result_shape(site: Site, gone: tuple[int, ...]) -> Shape:
    keep = site.integer("keepdims", 1)
    dims = ((1 if d in gone else n) for d, n in enumerate(site.shape()))
    return tuple(n for d, n in enumerate(dims) if keep or d not in gone)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A combiner, what is done to each element before it and to the result after it."""

    combiner: str
    before: Each = lambda x, t: x
    after: Finish = lambda x, count, t: x


class Rows:
    """The axes of an operator that reduces some dims: kept, reduced, and where results lie."""

    def __init__(self, shape: Shape, gone: tuple[int, ...], keep: bool) -> None:
        self.all = letters(shape)
        self.kept = tuple(a for d, a in enumerate(self.all) if d not in gone)
        self.over = tuple(a for d, a in enumerate(self.all) if d in gone)
        places = ((Affine() if d in gone else var(a.name)) for d, a in enumerate(self.all))
        self.place = tuple(p for d, p in enumerate(places) if keep or d not in gone)

    @property
    def store(self) -> tuple[Affine, ...]:
        """The index written; empty where it is the axes themselves."""
        plain = tuple(var(a.name) for a in self.kept)
        return () if self.place == plain else self.place


def _lower(name: str, how: Reduction) -> Callable[[Lowering], None]:
    def lower(low: Lowering) -> None:
        site, gone = low.site, _reduced(low.site)
        nest, dtype = low.nest(name), site.dtype()
        rows = Rows(site.shape(), gone, bool(site.integer("keepdims", 1)))
        x = how.before(nest.along(site.arg(0), "x", rows.all), dtype)
        total = Read("acc", rows.place)
        last = how.after(total, product(a.extent for a in rows.over), dtype)
        plain = last == total
        nest.compute(
            "y" if plain else "acc",
            low.shape,
            dtype,
            rows.kept,
            x,
            rows.over,
            how.combiner if rows.over else None,
            rows.store,
        )
        if not plain:
            nest.compute("y", low.shape, dtype, rows.kept, last, store=rows.store)
        nest.into(low.result)

    return lower


def _arguments(attrs: Mapping[str, Any], x: Array) -> dict[str, Any]:
    axes = attrs.get("axes")
    axes = tuple(axes) if isinstance(axes, (tuple, list)) else axes
    if axes is None or axes == ():
        axes = () if attrs.get("noop_with_empty_axes") else None
    return {"axis": axes, "keepdims": bool(attrs.get("keepdims", 1))}


def _numpy(function: Callable[..., Any]) -> Callable[[Mapping[str, Any], Any], Any]:
    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        return np.asarray(function(args[0], **_arguments(attrs, args[0])), args[0].dtype)

    return reference


def _record(name: str, kernel: str, how: Reduction, function: Callable[..., Any]) -> OperatorRecord:
    return OperatorRecord(
        name, "reduction", _types, _numpy(function), _lower(kernel, how), by_value={1: "axes"}
    )


def _square(x: Expr, t: DType) -> Expr:
    return call("mul", x, x)


def _sum_square(x: Array, **kw: Any) -> Any:
    return np.sum(x * x, **kw)


# LogSumExp: the maximum is taken out first.


def _lower_log_sum_exp(low: Lowering) -> None:
    site = low.site
    nest, dtype = low.nest("log_sum_exp"), site.dtype()
    rows = Rows(site.shape(), _reduced(site), bool(site.integer("keepdims", 1)))
    x, top = nest.along(site.arg(0), "x", rows.all), Read("top", rows.place)
    shifted = call("exp", call("sub", x, top))
    combine = "max" if rows.over else None
    nest.compute("top", low.shape, dtype, rows.kept, x, rows.over, combine, rows.store)
    combine = "sum" if rows.over else None
    nest.compute("acc", low.shape, dtype, rows.kept, shifted, rows.over, combine, rows.store)
    total = call("add", call("log", Read("acc", rows.place)), top)
    nest.compute("y", low.shape, dtype, rows.kept, total, store=rows.store)
    nest.into(low.result)


def _log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else total.reshape(np.sum(x, axis=axis).shape)


# ArgMax and ArgMin: the first (or last) place that holds the extreme.


def _arg_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(_result_shape(site, (site.axis(len(site.shape())),)), "int64"),)


def _lower_arg(combiner: str) -> Callable[[Lowering], None]:
    def lower(low: Lowering) -> None:
        site, nest = low.site, low.nest(f"arg{combiner}")
        axis = site.axis(len(site.shape()))
        rows = Rows(site.shape(), (axis,), bool(site.integer("keepdims", 1)))
        x, place = nest.along(site.arg(0), "x", rows.all), IndexValue(var(rows.over[0].name))
        last = bool(site.integer("select_last_index"))
        nowhere = Const(-1 if last else rows.over[0].extent, "int64")
        nest.compute("top", low.shape, site.dtype(), rows.kept, x, rows.over, combiner, rows.store)
        here = call("where", call("eq", x, Read("top", rows.place)), place, nowhere)
        nest.compute(
            "y",
            low.shape,
            "int64",
            rows.kept,
            here,
            rows.over,
            "max" if last else "min",
            rows.store,
        )
        nest.into(low.result)

    return lower


def _arg(function: Callable[..., Any]) -> Callable[[Mapping[str, Any], Any], Any]:
    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        x, axis, keep = args[0], attrs.get("axis", 0), bool(attrs.get("keepdims", 1))
        if attrs.get("select_last_index"):
            return x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis, keepdims=keep)
        return function(x, axis=axis, keepdims=keep)

    return reference


# CumSum: each result is a sum over the elements before it, zeros before the first.


def _lower_cumsum(low: Lowering) -> None:
    site, nest, axes = low.site, low.nest("cumsum"), letters(low.site.shape())
    at_axis = site.axis(len(axes))
    along, k = axes[at_axis], Axis("r", axes[at_axis].extent)
    skip = int(bool(site.integer("exclusive")))
    step = (var(k.name) + skip) * (1 if site.integer("reverse") else -1)
    index = [var(a.name) for a in axes]
    index[at_axis] = var(along.name) + step
    read = Read(nest.tensor(site.arg(0), "x"), tuple(index), 0.0)
    nest.compute("y", low.shape, site.dtype(), axes, read, [k], "sum")
    nest.into(low.result)


def _cumsum_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis = args[0], attrs["axis"]
    x = np.flip(x, axis) if attrs.get("reverse") else x
    y = np.cumsum(x, axis=axis, dtype=x.dtype)
    y = y - x if attrs.get("exclusive") else y
    return np.flip(y, axis) if attrs.get("reverse") else y


def _same(site: Site) -> tuple[Tensor, ...]:
    return (site.tensor(0),)


RECORDS = (
    _record("ReduceSum", "sum", Reduction("sum"), np.sum),
    _record("ReduceMax", "max", Reduction("max"), np.max),
    _record("ReduceMin", "min", Reduction("min"), np.min),
    _record("ReduceProd", "prod", Reduction("prod"), np.prod),
    _record("ReduceMean", "mean", Reduction("sum", after=scaled), np.mean),
    _record("ReduceSumSquare", "sum_square", Reduction("sum", _square), _sum_square),
    _record(
        "ReduceL1",
        "l1",
        Reduction("sum", lambda x, t: call("abs", x)),
        lambda x, **kw: np.sum(np.abs(x), **kw),
    ),
    _record(
        "ReduceL2",
        "l2",
        Reduction("sum", _square, lambda x, n, t: call("sqrt", x)),
        lambda x, **kw: np.sqrt(np.sum(x * x, **kw)),
    ),
    _record(
        "ReduceLogSum",
        "log_sum",
        Reduction("sum", after=lambda x, n, t: call("log", x)),
        lambda x, **kw: np.log(np.sum(x, **kw)),
    ),
    OperatorRecord(
        "ReduceLogSumExp",
        "reduction",
        _types,
        _numpy(_log_sum_exp),
        _lower_log_sum_exp,
        by_value={1: "axes"},
    ),
    OperatorRecord("ArgMax", "reduction", _arg_types, _arg(np.argmax), _lower_arg("max")),
    OperatorRecord("ArgMin", "reduction", _arg_types, _arg(np.argmin), _lower_arg("min")),
    OperatorRecord(
        "CumSum", "reduction", _same, _cumsum_reference, _lower_cumsum, by_value={1: "axis"}
    ),
)
