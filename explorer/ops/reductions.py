"""Reductions along axes, and the prefix sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, Shape, product
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.scalar_functions import divide
from explorer.ir.types import DType, Tensor
from explorer.ops.elementwise import call
from explorer.ops.images.pooling import scaled
from explorer.ops.interpreter.scalar import identity
from explorer.ops.lowering import Lowering, Nest, entry, letters
from explorer.ops.record import Array, HostNumber, OperatorRecord, RunTime, Site, same_type
from explorer.ops.run_time import Host, highest, reduction_rule, symbolic
from explorer.ops.shape_rules import demand_as_many

Each = Callable[[Expr, DType], Expr]
Finish = Callable[[Expr, Dim, DType], Expr]


def _reduced(site: Site) -> tuple[int, ...]:
    """Return the reduced dims: all, unless axes are given or none are requested."""
    rank = len(site.shape())
    axes = site.axes(rank)
    if axes is None or axes == ():
        return () if site.integer("noop_with_empty_axes") else tuple(range(rank))
    return tuple(sorted(axes))


def _types(site: Site) -> tuple[Tensor, ...]:
    outer_dims = site.dims("kept")
    if outer_dims is not None:  # computed by the host
        dims = site.dims("dims")
        return (Tensor(outer_dims if dims is None else dims, site.dtype()),)
    return (Tensor(_result_shape(site, _reduced(site)), site.dtype()),)


def _result_shape(site: Site, reduced: tuple[int, ...]) -> Shape:
    keep = site.integer("keepdims", 1)
    dims = ((1 if d in reduced else n) for d, n in enumerate(site.shape()))
    return tuple(n for d, n in enumerate(dims) if keep or d not in reduced)


@dataclass(frozen=True, slots=True)
class Reduction:
    """A combiner, with a function of each element before it and of the result after it."""

    combiner: str
    before: Each = lambda x, t: x
    after: Finish = lambda x, count, t: x


@dataclass(frozen=True, slots=True)
class Rows:
    """The axes of a reduction: kept, reduced, the index of an element, the place of a result.

    Results lie in a tensor of `shape`. It is the shape of the operator's result, except for dims
    that only a run drops.
    """

    outer: tuple[Axis, ...]
    over: tuple[Axis, ...]
    index: tuple[Affine, ...]
    place: tuple[Affine, ...]
    shape: Shape

    @property
    def store(self) -> tuple[Affine, ...]:
        """The index written; empty if it is the axes themselves."""
        plain = tuple(var(a.name) for a in self.outer)
        return () if self.place == plain else self.place

    def bind(self, low: Lowering, nest: Nest) -> None:
        """Bind the operator's result to the kernel."""
        if self.shape == low.shape:
            nest.into(low.result)
            return
        low.view(low.result, nest.into(low.temporary("kept", self.shape, low.site.dtype())))


def rows_of(low: Lowering, reduced: tuple[int, ...]) -> Rows:
    """Return the rows of an operator that reduces these dims."""
    keep = bool(low.site.integer("keepdims", 1))
    every = letters(low.site.shape())
    places = ((Affine() if d in reduced else var(a.name)) for d, a in enumerate(every))
    return Rows(
        tuple(a for d, a in enumerate(every) if d not in reduced),
        tuple(a for d, a in enumerate(every) if d in reduced),
        tuple(entry(a, a.extent) for a in every),
        tuple(p for d, p in enumerate(places) if keep or d not in reduced),
        low.shape,
    )


def _rows(low: Lowering) -> Rows:
    outer_dims = low.site.dims("kept")
    if outer_dims is None:
        return rows_of(low, _reduced(low.site))
    axes, over = letters(outer_dims), low.site.dims("over") or ()
    inner = tuple(Axis(f"{a.name}r", n) for a, n in zip(axes, over, strict=True))
    both = zip(axes, inner, over, strict=True)
    index = tuple(Affine() if n == 1 else var(a.name) + var(r.name) for a, r, n in both)
    return Rows(axes, tuple(r for r in inner if r.extent != 1), index, _bare(axes), outer_dims)


def _bare(axes: tuple[Axis, ...]) -> tuple[Affine, ...]:
    return tuple(var(a.name) for a in axes)


def _lower(name: str, how: Reduction) -> Callable[[Lowering], None]:
    def lower(low: Lowering) -> None:
        site, rows = low.site, _rows(low)
        nest, dtype = low.nest(name), site.dtype()
        x = how.before(nest.load(site.arg(0), "x", rows.index), dtype)
        total = Read("acc", rows.place)
        last = how.after(total, product(a.extent for a in rows.over), dtype)
        plain = last == total
        nest.compute(
            "y" if plain else "acc",
            rows.shape,
            dtype,
            rows.outer,
            x,
            rows.over,
            how.combiner if rows.over else None,
            rows.store,
        )
        if not plain:
            nest.compute("y", rows.shape, dtype, rows.outer, last, store=rows.store)
        rows.bind(low, nest)

    return lower


def _arguments(attrs: Mapping[str, Any], x: Array) -> dict[str, Any]:
    if "over" in attrs:
        reduced = tuple(d for d, n in enumerate(attrs["over"]) if n != 1)
        return {"axis": reduced, "keepdims": True}
    axes = attrs.get("axes")
    axes = tuple(axes) if isinstance(axes, (tuple, list)) else axes
    if axes is None or axes == ():
        axes = () if attrs.get("noop_with_empty_axes") else None
    return {"axis": axes, "keepdims": bool(attrs.get("keepdims", 1))}


def _numpy(function: Callable[..., Any]) -> Callable[[Mapping[str, Any], Any], Any]:
    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        result = np.asarray(function(args[0], **_arguments(attrs, args[0])), args[0].dtype)
        return result.reshape(attrs["dims"]) if "dims" in attrs else result

    return reference


def _record(name: str, kernel: str, how: Reduction, function: Callable[..., Any]) -> OperatorRecord:
    return OperatorRecord(
        name,
        "reduction",
        _types,
        _numpy(function),
        _lower(kernel, how),
        by_value={1: "axes"},
        run_time=reduction_rule(name),
    )


def _extreme(combiner: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy reduction; of no elements it is the combiner's identity."""

    def reference(x: Array, **kw: Any) -> Any:
        none = {} if x.size else {"initial": identity(combiner, x.dtype.name)}
        return function(x, **kw, **none)

    return reference


def _square(x: Expr, t: DType) -> Expr:
    return call("mul", x, x)


def _sum_square(x: Array, **kw: Any) -> Any:
    return np.sum(x * x, **kw)


# Means and norms of integers are truncated towards zero, as in onnxruntime.


def _mean(total: Expr, count: Dim, t: DType) -> Expr:
    return scaled(total, count, t) if is_float(t) else call("div", total, Const(count, t))


def _mean_reference(x: Array, **kw: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.mean(x, **kw)
    total = np.sum(x, dtype=x.dtype, **kw)
    count = x.size // max(total.size, 1)
    return divide(total, np.asarray(count, x.dtype))


def _root(x: Expr, count: Dim, t: DType) -> Expr:
    if is_float(t):
        return call("sqrt", x)
    return call(f"cast_{t}", call("sqrt", call("cast_float64", x)))


def _l2(x: Array, **kw: Any) -> Any:
    return np.sqrt(np.sum(x * x, **kw))


# LogSumExp: the maximum is taken out first.


def _lower_log_sum_exp(low: Lowering) -> None:
    site = low.site
    nest, dtype, rows = low.nest("log_sum_exp"), site.dtype(), _rows(low)
    x, top = nest.load(site.arg(0), "x", rows.index), _finite(Read("top", rows.place), dtype)
    shifted = call("exp", call("sub", x, top))
    combine = "max" if rows.over else None
    nest.compute("top", rows.shape, dtype, rows.outer, x, rows.over, combine, rows.store)
    combine = "sum" if rows.over else None
    nest.compute("acc", rows.shape, dtype, rows.outer, shifted, rows.over, combine, rows.store)
    total = call("add", call("log", Read("acc", rows.place)), top)
    nest.compute("y", rows.shape, dtype, rows.outer, total, store=rows.store)
    rows.bind(low, nest)


def _finite(top: Expr, dtype: DType) -> Expr:
    """Clamp a number so that its difference to an infinite one is infinite, not NaN."""
    if not is_float(dtype):
        return top
    most = float(np.finfo(dtype).max)
    return call("max", call("min", top, most, dtype=dtype), -most, dtype=dtype)


def _log_sum_exp(x: Array, axis: Any, keepdims: bool) -> Any:
    top = _extreme("max", np.max)(x, axis=axis, keepdims=True)
    if x.dtype.kind == "f":
        top = np.clip(top, -np.finfo(x.dtype).max, np.finfo(x.dtype).max)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else total.reshape(np.sum(x, axis=axis).shape)


# ArgMax and ArgMin: the first (or last) place that holds the extreme.


def _arg_types(site: Site) -> tuple[Tensor, ...]:
    """Return the types of ArgMax or ArgMin.

    An empty result places no demand on a dim without elements, as in onnxruntime.
    """
    axis = site.axis(len(site.shape()))
    result = _result_shape(site, (axis,))
    extent = site.shape()[axis] if site.shape() else 1
    if extent == 0 and 0 not in result:
        site.fail(f"dim {axis} has no elements, so none of them is the extreme")
    if extent != 0 and site.env.bounds(extent)[0] < 1:
        if any(site.env.bounds(n)[0] < 1 for n in result):
            site.unsupported("only a run knows whether it asks for an extreme of no elements")
        demand_as_many(site, 1, extent)
    return (Tensor(result, "int64"),)


def _lower_arg(combiner: str) -> Callable[[Lowering], None]:
    def lower(low: Lowering) -> None:
        site, nest = low.site, low.nest(f"arg{combiner}")
        axis = site.axis(len(site.shape()))
        rows = rows_of(low, (axis,))
        x, place = nest.load(site.arg(0), "x", rows.index), IndexValue(var(rows.over[0].name))
        last = bool(site.integer("select_last_index"))
        nowhere = Const(-1 if last else rows.over[0].extent, "int64")
        nest.compute("top", low.shape, site.dtype(), rows.outer, x, rows.over, combiner, rows.store)
        hit: Expr = call("eq", x, Read("top", rows.place))
        if is_float(site.dtype()):  # NaN is the extreme, and equals nothing
            hit = call("or", hit, call("isnan", x))
        here = call("where", hit, place, nowhere)
        nest.compute(
            "y",
            low.shape,
            "int64",
            rows.outer,
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
        if x.ndim and not x.shape[axis]:
            places = np.sum(x, axis, np.int64, keepdims=keep)
            if not places.size:
                return places
        if attrs.get("select_last_index"):
            return x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis, keepdims=keep)
        return function(x, axis=axis, keepdims=keep)

    return reference


# CumSum and CumProd: each result combines the elements before it; the fill is the identity.


def _lower_running(combiner: str) -> Callable[[Lowering], None]:
    def lower(low: Lowering) -> None:
        site, nest, axes = low.site, low.nest(f"running_{combiner}"), letters(low.site.shape())
        steps, extent = site.dims("steps"), site.dims("extent")
        if steps is None or extent is None:
            at_axis = site.axis(len(axes))
            steps = tuple(int(d == at_axis) for d in range(len(axes)))
            extent = (low.shape[at_axis],)
        k, sign = Axis("r", extent[0]), 1 if site.integer("reverse") else -1
        by = (var(k.name) + int(bool(site.integer("exclusive")))) * sign
        index = tuple(var(a.name) + by * step for a, step in zip(axes, steps, strict=True))
        nothing = 1.0 if combiner == "prod" else 0.0
        read = Read(nest.tensor(site.arg(0), "x"), index, nothing)
        nest.compute("y", low.shape, site.dtype(), axes, read, [k], combiner)
        nest.into(low.result)

    return lower


def _running(function: Any, nothing: int) -> Callable[[Mapping[str, Any], Any], Any]:
    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        x, axis = args[0], attrs["steps"].index(1) if "steps" in attrs else attrs["axis"]
        x = np.flip(x, axis) if attrs.get("reverse") else x
        y = function(x, axis=axis, dtype=x.dtype)
        if attrs.get("exclusive") and x.shape[axis]:
            y = np.roll(y, 1, axis)
            y[(slice(None),) * (axis % x.ndim) + (0,)] = nothing
        return np.flip(y, axis) if attrs.get("reverse") else y

    return reference


# CumSum along an axis that only a run knows: a step of 0 or 1 along each dim, and the extent of
# the summed dim.


def _cumsum_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    steps = (HostNumber(f"step{d}", 0, 1) for d in range(len(shape)))
    return (*steps, HostNumber("extent", 0, highest(site, shape)))


def _cumsum_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("CumSum", attrs, args)
    shape = host.required(0)
    axis = host.axis(host.single(1), len(shape))
    return {"extent": shape[axis], **{f"step{d}": int(d == axis) for d in range(len(shape))}}


def _cumsum(site: Site, symbols: Mapping[str, Dim]) -> Site:
    steps = tuple(symbols[f"step{d}"] for d in range(len(site.shape())))
    return symbolic(site, site.arg(0), steps=steps, extent=symbols["extent"])


CUMSUM = RunTime(frozenset({1}), _cumsum_names, _cumsum_values, _cumsum, "steps")


RECORDS = (
    _record("ReduceSum", "sum", Reduction("sum"), np.sum),
    _record("ReduceMax", "max", Reduction("max"), _extreme("max", np.max)),
    _record("ReduceMin", "min", Reduction("min"), _extreme("min", np.min)),
    _record("ReduceProd", "prod", Reduction("prod"), np.prod),
    _record("ReduceMean", "mean", Reduction("sum", after=_mean), _mean_reference),
    _record("ReduceSumSquare", "sum_square", Reduction("sum", _square), _sum_square),
    _record(
        "ReduceL1",
        "l1",
        Reduction("sum", lambda x, t: call("abs", x)),
        lambda x, **kw: np.sum(np.abs(x), **kw),
    ),
    _record("ReduceL2", "l2", Reduction("sum", _square, _root), _l2),
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
        run_time=reduction_rule("ReduceLogSumExp"),
    ),
    OperatorRecord("ArgMax", "reduction", _arg_types, _arg(np.argmax), _lower_arg("max")),
    OperatorRecord("ArgMin", "reduction", _arg_types, _arg(np.argmin), _lower_arg("min")),
    *(
        OperatorRecord(
            name,
            "reduction",
            same_type,
            _running(function, combiner == "prod"),
            _lower_running(combiner),
            by_value={1: "axis"},
            run_time=CUMSUM,
        )
        for name, combiner, function in (
            ("CumSum", "sum", np.cumsum),
            ("CumProd", "prod", np.cumprod),
        )
    ),
)
