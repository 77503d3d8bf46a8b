"""Operators that change a tensor's shape only: each is a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from explorer.ir.dims import Dim, Shape, floor_div, is_symbolic, product, simplify, sympy
from explorer.ir.types import Tensor
from explorer.ops.lowering import Lowering
from explorer.ops.record import Fold, HostNumber, OperatorRecord, RunTime, Site, Values
from explorer.ops.run_time import (
    Host,
    dim_names,
    dim_symbols,
    dim_values,
    highest,
    length,
    symbolic,
)
from explorer.ops.shape_rules import Unprovable, agree


def view(low: Lowering) -> None:
    """Bind the same bytes in the result's shape."""
    low.view(low.result, low.site.arg(0))


def refold(reference: Any) -> Fold:
    """Return a fold that applies the reference to dims."""

    def fold(site: Site) -> tuple[Values | None, ...]:
        elements = site.values[0]
        is_constant = all(isinstance(d, int) for name in site.attrs for d in site.dims(name) or ())
        return (
            reference(dict(site.attrs), [elements])
            if elements is not None and is_constant
            else None,
        )

    return fold


# Reshape: 0 copies a dim, -1 is inferred.


def _reshape_types(site: Site) -> tuple[Tensor, ...]:
    dims = site.dims("dims")
    if dims is not None:  # the host checks that they fit
        if site.env.equal(product(dims), product(site.shape())) is False:
            site.fail(f"{text(site.shape())} does not fit into {text(dims)}")
        return (Tensor(dims, site.dtype()),)
    shape, wanted = site.shape(), list(site.dims("shape") or ())
    if not site.integer("allowzero"):
        wanted = [_copied_dim(site, shape, d) if n == 0 else n for d, n in enumerate(wanted)]
    open_at = [d for d, n in enumerate(wanted) if n == -1]
    if len(open_at) > 1:
        site.fail(f"the shape {tuple(wanted)} has several dims of -1")
    if open_at and 0 in wanted and site.integer("allowzero"):
        site.fail(f"a dim of -1 is ambiguous beside a dim of 0, in {tuple(wanted)}")
    total, other_elements = product(shape), product(n for n in wanted if n != -1)
    if open_at:
        wanted[open_at[0]] = _remaining(site, total, other_elements)
        other_elements = product(wanted)
    try:
        fits = total == other_elements or agree(total, other_elements, site.env)
    except Unprovable as unknown:
        raise Unprovable(str(unknown), filled=tuple(wanted)) from None
    if not fits:
        site.fail(f"{text(shape)} has {total} elements and {text(wanted)} has {other_elements}")
    return (Tensor(tuple(wanted), site.dtype()),)


def _copied_dim(site: Site, shape: Shape, d: int) -> Dim:
    return (
        shape[d]
        if d < len(shape)
        else site.fail(f"a 0 copies dim {d}, but the input has {len(shape)} dims")
    )


def _remaining(site: Site, total: Dim, other_elements: Dim) -> Dim:
    if other_elements == 0:
        return 0
    if isinstance(total, int) and isinstance(other_elements, int) and total % other_elements:
        site.fail(f"{total} elements do not divide into rows of {other_elements}")
    return floor_div(total, other_elements)


def text(shape: Sequence[Dim]) -> str:
    """Return a shape in words."""
    return f"[{', '.join(map(str, shape))}]"


def _reshape(attrs: Mapping[str, Any], args: Any) -> Any:
    if "dims" in attrs:
        return args[0].reshape(attrs["dims"])
    x, shape = args[0], list(np.atleast_1d(attrs["shape"]))
    if not attrs.get("allowzero"):
        shape = [x.shape[d] if n == 0 else n for d, n in enumerate(shape)]
    return x.reshape(shape)


def _flatten_types(site: Site) -> tuple[Tensor, ...]:
    shape = site.shape()
    axis = site.integer("axis", 1)
    axis = len(shape) if axis == len(shape) else site.in_rank(axis, len(shape))
    return (Tensor((product(shape[:axis]), product(shape[axis:])), site.dtype()),)


def _flatten(attrs: Mapping[str, Any], args: Any) -> Any:
    x, axis = args[0], attrs.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return (
        x.reshape(int(np.prod(x.shape[:axis])), -1)
        if x.size
        else x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
    )


def _squeeze_types(site: Site) -> tuple[Tensor, ...]:
    shape = site.shape()
    axes = site.axes(len(shape))
    dropped = _ones(site, shape) if axes is None else axes
    if len(set(dropped)) < len(dropped):
        site.fail(f"axes {dropped} name a dim twice")
    for d in dropped:
        if shape[d] != 1 and not agree(shape[d], 1, site.env):
            site.fail(f"dim {d} of {text(shape)} is not 1")
    return (Tensor(tuple(n for d, n in enumerate(shape) if d not in dropped), site.dtype()),)


def _ones(site: Site, shape: Shape) -> tuple[int, ...]:
    """Return the dims of extent 1.

    Raises Unprovable if a dim may be 1 in one run and not in another: only a run knows the rank.
    """
    ones = [False if _is_more_than_one(n) else site.env.equal(n, 1) for n in shape]
    if None in ones:
        n, rank = shape[ones.index(None)], sum(is_one is not True for is_one in ones)
        raise Unprovable(f"whether {n} is 1", (n, simplify(sympy.Max(2, n))), rank=rank)
    return tuple(d for d, is_one in enumerate(ones) if is_one)


def _is_more_than_one(n: Dim) -> bool:
    return is_symbolic(n) and isinstance(n, sympy.Max) and 2 in n.args


def _squeeze(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.squeeze(args[0], attrs.get("axes"))


def _unsqueeze_types(site: Site) -> tuple[Tensor, ...]:
    shape, axes = site.shape(), site.integers("axes") or ()
    rank = len(shape) + len(axes)
    new, old_dims = {site.in_rank(a, rank) for a in axes}, iter(shape)
    if len(new) < len(axes):
        site.fail(f"axes {axes} name a dim twice")
    return (Tensor(tuple(1 if d in new else next(old_dims) for d in range(rank)), site.dtype()),)


def _unsqueeze(attrs: Mapping[str, Any], args: Any) -> Any:
    axes = attrs["axes"]
    return np.expand_dims(args[0], axes if isinstance(axes, int) else tuple(axes))


# Dims that only a run knows.


def _reshaped(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """Return a Reshape to dims that the host has checked to hold all elements."""
    return symbolic(site, site.arg(0), op="Reshape", dims=dim_symbols(symbols))


def _target_dims(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """Return a Reshape that also uses the known dims of the target shape."""
    target, shape, dims = site.values[1], site.shape(), list(dim_symbols(symbols))
    for d, n in enumerate(() if target is None else target.tolist()):
        if isinstance(n, int) and (n > 0 or (n == 0 and site.integer("allowzero"))):
            dims[d] = n
        elif isinstance(n, int) and n == 0 and d < len(shape):
            dims[d] = shape[d]
    return symbolic(site, site.arg(0), dims=tuple(dims))


def _reshape_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Reshape", attrs, args)
    shape, wanted = host.required(0), host.required(1)
    dims = list(wanted)
    if not attrs.get("allowzero"):
        for d, n in enumerate(wanted):
            if n == 0 and d >= len(shape):
                host.fail(f"a 0 copies dim {d}, but the input has {len(shape)} dims")
            dims[d] = shape[d] if n == 0 else n
    if any(n < -1 for n in dims) or dims.count(-1) > 1:
        host.fail(f"a shape has one dim of -1 and no other below 0, and is {wanted}")
    other_elements = prod(n for n in dims if n != -1)
    if -1 in dims:
        if 0 in wanted and attrs.get("allowzero"):
            host.fail(f"a dim of -1 is ambiguous beside a dim of 0, in {wanted}")
        dims[dims.index(-1)] = prod(shape) // other_elements if other_elements else 0
    if prod(dims) != prod(shape):
        host.fail(f"{shape} has {prod(shape)} elements and does not fit into {wanted}")
    return dim_values(dims)


def _squeeze_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    return dim_names(max(0, len(shape) - length(site, 1)), highest(site, shape))


def _squeeze_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Squeeze", attrs, args)
    shape = host.required(0)
    dropped = host.axes(host.required(1), len(shape))
    for d in dropped:
        if shape[d] != 1:
            host.fail(f"dim {d} of {shape} is not 1")
    return dim_values([n for d, n in enumerate(shape) if d not in dropped])


def _unsqueeze_names(site: Site) -> tuple[HostNumber, ...]:
    shape = site.shape()
    return dim_names(len(shape) + length(site, 1), highest(site, (1, *shape)))


def _unsqueeze_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Unsqueeze", attrs, args)
    shape, axes = host.required(0), host.required(1)
    rank = len(shape) + len(axes)
    new, old_dims = set(host.axes(axes, rank)), iter(shape)
    return dim_values([1 if d in new else next(old_dims) for d in range(rank)])


RESHAPE = RunTime(
    frozenset({1}), lambda site: dim_names(length(site, 1)), _reshape_values, _target_dims, "dims"
)


SQUEEZE = RunTime(frozenset({1}), _squeeze_names, _squeeze_values, _reshaped)


UNSQUEEZE = RunTime(frozenset({1}), _unsqueeze_names, _unsqueeze_values, _reshaped)


RECORDS = (
    OperatorRecord(
        "Reshape",
        "layout",
        _reshape_types,
        _reshape,
        view,
        refold(_reshape),
        {1: "shape"},
        run_time=RESHAPE,
    ),
    OperatorRecord("Flatten", "layout", _flatten_types, _flatten, view),
    OperatorRecord(
        "Squeeze",
        "layout",
        _squeeze_types,
        _squeeze,
        view,
        refold(_squeeze),
        {1: "axes"},
        run_time=SQUEEZE,
    ),
    OperatorRecord(
        "Unsqueeze",
        "layout",
        _unsqueeze_types,
        _unsqueeze,
        view,
        refold(_unsqueeze),
        {1: "axes"},
        run_time=UNSQUEEZE,
    ),
)
