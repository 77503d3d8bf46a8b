"""Operators that give a tensor another shape and move nothing: each is a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.ir.shapes.dims import Dim, Shape, floor_div, product, simplify
from explorer.ir.types import Tensor
from explorer.ops.arithmetic.broadcast import Unprovable, agree
from explorer.ops.lowering import Lowering
from explorer.ops.record import Fold, OperatorRecord
from explorer.ops.run_time.shapes import RESHAPE, SQUEEZE, UNSQUEEZE
from explorer.ops.site import Site, Values


def view(low: Lowering) -> None:
    """The same bytes under the result's shape."""
    low.view(low.result, low.site.arg(0))


def refold(reference: Any) -> Fold:
    """The reference, on dims."""

    def fold(site: Site) -> tuple[Values | None, ...]:
        known = site.values[0]
        whole = all(isinstance(d, int) for name in site.attrs for d in site.dims(name) or ())
        return (reference(dict(site.attrs), [known]) if known is not None and whole else None,)

    return fold


# Reshape: 0 keeps a dim, -1 is what remains.


def _reshape_types(site: Site) -> tuple[Tensor, ...]:
    dims = site.dims("dims")
    if dims is not None:  # the host finds what fits, if anything does
        if site.env.equal(product(dims), product(site.shape())) is False:
            site.fail(f"{text(site.shape())} does not fit into {text(dims)}")
        return (Tensor(dims, site.dtype()),)
    shape, wanted = site.shape(), list(site.dims("shape") or ())
    if not site.integer("allowzero"):
        wanted = [_kept(site, shape, d) if n == 0 else n for d, n in enumerate(wanted)]
    open_at = [d for d, n in enumerate(wanted) if n == -1]
    if len(open_at) > 1:
        site.fail(f"the shape {tuple(wanted)} has several dims of -1")
    if open_at and 0 in wanted and site.integer("allowzero"):
        site.fail(f"beside a dim of 0 that of -1 could be anything, in {tuple(wanted)}")
    total, rest = product(shape), product(n for n in wanted if n != -1)
    if open_at:
        wanted[open_at[0]] = _remaining(site, total, rest)
        rest = product(wanted)
    try:
        fits = total == rest or agree(total, rest, site.env)
    except Unprovable as unknown:
        raise Unprovable(str(unknown), filled=tuple(wanted)) from None
    if not fits:
        site.fail(f"{text(shape)} has {total} elements and {text(wanted)} has {rest}")
    return (Tensor(tuple(wanted), site.dtype()),)


def _kept(site: Site, shape: Shape, d: int) -> Dim:
    return shape[d] if d < len(shape) else site.fail(f"dim {d} is to be kept, of {len(shape)}")


def _remaining(site: Site, total: Dim, rest: Dim) -> Dim:
    if rest == 0:
        return 0
    if isinstance(total, int) and isinstance(rest, int) and total % rest:
        site.fail(f"{total} elements do not divide into rows of {rest}")
    return floor_div(total, rest)


def text(shape: Sequence[Dim]) -> str:
    """A shape in words."""
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
    gone = _ones(site, shape) if axes is None else axes
    if len(set(gone)) < len(gone):
        site.fail(f"axes {gone} name a dim twice")
    for d in gone:
        if shape[d] != 1 and not agree(shape[d], 1, site.env):
            site.fail(f"dim {d} of {text(shape)} is not 1")
    return (Tensor(tuple(n for d, n in enumerate(shape) if d not in gone), site.dtype()),)


def _ones(site: Site, shape: Shape) -> tuple[int, ...]:
    """Return the dims of extent 1; Unprovable where a dim may be 1 in one run and not in another,
    so that only a run knows the rank.
    """
    ones = [False if _is_more_than_one(n) else site.env.equal(n, 1) for n in shape]
    if None in ones:
        n, rank = shape[ones.index(None)], sum(one is not True for one in ones)
        raise Unprovable(f"whether {n} is 1", (n, simplify(sympy.Max(2, n))), rank=rank)
    return tuple(d for d, one in enumerate(ones) if one)


def _is_more_than_one(n: Dim) -> bool:
    return is_symbolic(n) and isinstance(n, sympy.Max) and 2 in n.args


def _squeeze(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.squeeze(args[0], attrs.get("axes"))


def _unsqueeze_types(site: Site) -> tuple[Tensor, ...]:
    shape, axes = site.shape(), site.integers("axes") or ()
    rank = len(shape) + len(axes)
    new, rest = {site.in_rank(a, rank) for a in axes}, iter(shape)
    if len(new) < len(axes):
        site.fail(f"axes {axes} name a dim twice")
    return (Tensor(tuple(1 if d in new else next(rest) for d in range(rank)), site.dtype()),)


def _unsqueeze(attrs: Mapping[str, Any], args: Any) -> Any:
    axes = attrs["axes"]
    return np.expand_dims(args[0], axes if isinstance(axes, int) else tuple(axes))


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
