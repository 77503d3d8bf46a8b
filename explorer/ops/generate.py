"""Operators that create tensors from shapes and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import ShapeOf
from explorer.ir.dims import Dim, ceil_div, product, simplify
from explorer.ir.kernel import Const, Expr, IndexValue
from explorer.ir.types import Tensor, numpy_dtype
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering
from explorer.ops.record import HostNumber, OperatorRecord, RunTime, Site, Values
from explorer.ops.run_time import Host, dim_names, dim_symbols, dim_values, length, symbolic
from explorer.ops.shape_rules import most


def dims_array(dims: Any) -> Values:
    """Return dims as a one-dimensional array of objects."""
    out = np.empty(len(dims), dtype=object)
    out[:] = list(dims)
    return out


# Shape and Size.


def _shape_part(site: Site) -> tuple[Dim, ...]:
    return site.shape()[site.integer("start") : _end(site.attrs)]


def _end(attrs: Mapping[str, Any]) -> int | None:
    end = attrs.get("end")
    return end if isinstance(end, int) else None


def _shape_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor((len(_shape_part(site)),), "int64"),)


def _lower_shape(low: Lowering) -> None:
    low.bind(low.result, ShapeOf(_shape_part(low.site)))


def _shape(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.array(args[0].shape[attrs.get("start", 0) : _end(attrs)], np.int64)


def _lower_size(low: Lowering) -> None:
    low.bind(low.result, ShapeOf((product(low.site.shape()),), 0))


def _fold_size(site: Site) -> tuple[Values | None, ...]:
    return (np.array(product(site.shape()), dtype=object),)


# Range.


def _bounds(attrs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return start, limit and delta; ONNX's own functions give lists of one number for them."""
    values = (attrs[n] for n in ("start", "limit", "delta"))
    start, limit, step = (v[0] if isinstance(v, tuple) and len(v) == 1 else v for v in values)
    return start, limit, step


def _range_extent(site: Site) -> Dim:
    start, limit, step = _bounds(site.attrs)
    for name, value in (("start", start), ("limit", limit), ("delta", step)):
        if isinstance(value, tuple):
            site.fail(f"{name} must be one number, and is {value}", expected="one number")
    if isinstance(start, float) or isinstance(limit, float) or isinstance(step, float):
        numbers = [v for v in (start, limit, step) if isinstance(v, int | float)]
        if len(numbers) < 3:
            return site.unsupported("a limit that only a run knows, among floats")
        first, last, by = map(float, numbers)
        if not np.isfinite(numbers).all() or by == 0:
            site.fail(f"the range from {first} to {last} by {by} is not finite")
        return max(0, int(np.ceil((last - first) / by)))
    if not isinstance(step, int) or step == 0:
        return site.unsupported(f"a step of {step}")
    first_dim, last_dim = _dim(site, start), _dim(site, limit)
    distance = simplify(last_dim - first_dim) if step > 0 else simplify(first_dim - last_dim)
    return most(site.env, (0, ceil_div(distance, abs(step))))


def _dim(site: Site, value: Any) -> Dim:
    return (
        site.fail("a limit is not a number") if value is None or isinstance(value, str) else value
    )


def _range_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor((_range_extent(site),), site.text("dtype", "int64")),)


def _lower_range(low: Lowering) -> None:
    site, nest, dtype = low.site, low.nest("range"), low.site.text("dtype", "int64")
    first, _, by = _bounds(site.attrs)
    start, step = _dim(site, first), _dim(site, by)

    def body(axes: Any) -> Expr:
        place = var(axes[0].name)
        if not isinstance(start, float) and not isinstance(step, float):
            value = IndexValue(place * step + start)
            return value if dtype == "int64" else call(f"cast_{dtype}", value)
        return call(
            "add",
            call("mul", call(f"cast_{dtype}", IndexValue(place)), float(step), dtype=dtype),
            float(start),
            dtype=dtype,
        )

    nest.map("y", low.result, body)


def _range(attrs: Mapping[str, Any], args: Any) -> Any:
    dtype = numpy_dtype(attrs.get("dtype", "int64"))
    return np.arange(*_bounds(attrs)).astype(dtype)


def _fold_range(site: Site) -> tuple[Values | None, ...]:
    extent, (start, _, step) = _range_extent(site), _bounds(site.attrs)
    if not isinstance(extent, int) or isinstance(start, float) or isinstance(step, float):
        return (None,)
    first, by = _dim(site, start), _dim(site, step)
    return (dims_array([simplify(first + i * by) for i in range(extent)]),)


# Ramp: a Range whose start and step are data; only its extent is a dim.


def _ramp_types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(site.dims("extent"), site.dtype()),)


def _lower_ramp(low: Lowering) -> None:
    site, nest, dtype = low.site, low.nest("range"), low.site.dtype()

    def scalar(i: int, name: str) -> Expr:
        rank = len(site.shape(i))
        return nest.load(site.arg(i), name, (Affine(),) * rank)

    def body(axes: Any) -> Expr:
        place = call(f"cast_{dtype}", IndexValue(var(axes[0].name)))
        return call("add", scalar(0, "start"), call("mul", place, scalar(2, "delta")))

    nest.map("y", low.result, body)


def _ramp(attrs: Mapping[str, Any], args: Any) -> Any:
    start, delta = (np.reshape(a, -1)[0] for a in (args[0], args[2]))
    return start + np.arange(attrs["extent"]).astype(delta.dtype) * delta


# ConstantOfShape.


def _fill_value(site: Site) -> Any:
    """Return the fill value."""
    dtype, value = site.text("dtype", "float32"), site.attrs.get("value", 0)
    try:
        return numpy_dtype(dtype).type(value).item()
    except (OverflowError, ValueError):  # an integer too large, or not a number
        return site.fail(f"{value!r} is not a {dtype}", expected=f"a value that {dtype} has")


def _fill_types(site: Site) -> tuple[Tensor, ...]:
    _fill_value(site)
    return (Tensor(site.dims("shape") or (), site.text("dtype", "float32")),)


def _lower_fill(low: Lowering) -> None:
    nest, dtype = low.nest("fill"), low.site.text("dtype", "float32")
    nest.map("y", low.result, lambda axes: Const(_fill_value(low.site), dtype))


def _fill(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.full(attrs["shape"], attrs.get("value", 0), attrs.get("dtype", "float32"))


def _fold_fill(site: Site) -> tuple[Values | None, ...]:
    shape = (
        site.integers("shape")
        if all(isinstance(d, int) for d in site.dims("shape") or ())
        else None
    )
    is_integral = site.text("dtype", "float32").startswith("int")
    return (
        np.full(shape, _fill_value(site), object) if shape is not None and is_integral else None,
    )


# Range with a number of elements that only a run knows: a Ramp.


def _range_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Range", attrs, args)
    start, limit, delta = (host.number(i) for i in range(3))
    if delta == 0 or not all(np.isfinite(float(v)) for v in (start, limit, delta)):
        host.fail(f"there are no steps of {delta} from {start} to {limit}")
    if isinstance(delta, np.integer):
        distance = int(limit) - int(start)
        return {"extent": max(0, -(-distance // int(delta)))}
    return {"extent": max(0, int(np.ceil(float(limit - start) / float(delta))))}


def _as_ramp(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """Return `y[i] = start + i * delta`, of two scalars that the kernel reads."""
    return symbolic(site, site.arg(0), None, site.arg(2), op="Ramp", extent=symbols["extent"])


RANGE = RunTime(frozenset({0, 1, 2}), lambda site: (HostNumber("extent"),), _range_values, _as_ramp)


# ConstantOfShape with a shape that only a run knows.


def _fill_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("ConstantOfShape", attrs, args)
    if any(n < 0 for n in host.required(0)):
        host.fail(f"a shape has no dim below 0, and is {host.required(0)}")
    return dim_values(host.required(0))


FILL = RunTime(
    frozenset({0}),
    lambda site: dim_names(length(site, 0)),
    _fill_values,
    lambda site, symbols: symbolic(site, shape=dim_symbols(symbols)),
)


RECORDS = (
    OperatorRecord(
        "Shape",
        "layout",
        _shape_types,
        _shape,
        _lower_shape,
        lambda site: (dims_array(_shape_part(site)),),
    ),
    OperatorRecord(
        "Size",
        "layout",
        lambda site: (Tensor((), "int64"),),
        lambda attrs, args: np.array(args[0].size, np.int64),
        _lower_size,
        _fold_size,
    ),
    OperatorRecord(
        "Range",
        "layout",
        _range_types,
        _range,
        _lower_range,
        _fold_range,
        {0: "start", 1: "limit", 2: "delta"},
        dtype_from=0,
        first=11,
        run_time=RANGE,
    ),
    OperatorRecord("Ramp", "layout", _ramp_types, _ramp, _lower_ramp),
    OperatorRecord(
        "ConstantOfShape",
        "layout",
        _fill_types,
        _fill,
        _lower_fill,
        _fold_fill,
        {0: "shape"},
        first=9,
        run_time=FILL,
    ),
)
