"""Col2Im and MaxUnpool: each result gathers from the windows that contain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from explorer.ir.affine import var
from explorer.ir.dims import Dim, floor_div, product, simplify
from explorer.ir.kernel import Axis, Const, Expr, IndexValue, Read
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.images.windows import each_positive, pads_of
from explorer.ops.interpreter.libraries import onnx_reference
from explorer.ops.lowering import Lowering, letters
from explorer.ops.record import HostNumber, OperatorRecord, RunTime, Site
from explorer.ops.run_time import Host, length
from explorer.ops.shape_rules import agree, demand_shape

MOST_STEPS = 1 << 24  # results times pooled elements, at the symbols' hints


class _Blocks:
    """The blocks of an image along each dim: their number, stride, and the padding before."""

    def __init__(self, site: Site) -> None:
        """Compute the number of blocks from the attributes."""
        self.image, self.block = site.dims("image_shape") or (), site.dims("block_shape") or ()
        count = len(self.image)
        self.strides = each_positive(site, "strides", count, 1)
        self.dilations = each_positive(site, "dilations", count, 1)
        self.pads = pads_of(site, count)
        if len(site.shape()) != 3 or len(self.block) != count or count == 0:
            site.fail(f"an image of {count} dims and blocks of {len(self.block)}")
        if any(isinstance(k, int) and k < 1 for k in self.block):
            site.fail(f"a block has positive extents, not {self.block}")
        rows = site.shape()[1]
        area = product(self.block)
        self.channels = (site.dims("channels") or (floor_div(rows, area),))[0]
        self.counts: list[Dim] = []
        for d, (n, k) in enumerate(zip(self.image, self.block, strict=True)):
            free_extent = n + self.pads[d] + self.pads[count + d] - self.dilations[d] * (k - 1) - 1
            self.counts.append(simplify(floor_div(simplify(free_extent), self.strides[d]) + 1))


def _col_types(site: Site) -> tuple[Tensor, ...]:
    blocks = _Blocks(site)
    count = simplify(product(blocks.counts))
    is_unchecked = site.dims("channels") is None  # else the host has looked
    if is_unchecked and not agree(site.shape()[2], count, site.env):
        site.fail(f"there are {site.shape()[2]} blocks, and the image has {count}")
    return (Tensor((site.shape()[0], blocks.channels, *blocks.image), site.dtype()),)


def _lower_col(low: Lowering) -> None:
    site, nest, blocks = low.site, low.nest("col2im"), _Blocks(low.site)
    n, c = Axis("n", low.shape[0]), Axis("c", low.shape[1])
    places = [Axis(f"i{d}", e) for d, e in enumerate(blocks.image)]
    inner = [Axis(f"k{d}", e) for d, e in enumerate(blocks.block)]
    row: Expr | None = None
    checks: list[Expr] = []
    row_index = var("c")
    for d, (place, k) in enumerate(zip(places, inner, strict=True)):
        stride, count = Const(blocks.strides[d], "int64"), Const(blocks.counts[d], "int64")
        start = var(place.name) + blocks.pads[d] - var(k.name) * blocks.dilations[d]
        number = call("floordiv", IndexValue(start), stride)
        checks += [
            call("eq", call("mul", number, stride), IndexValue(start)),
            call("ge", number, Const(0, "int64")),
            call("lt", number, count),
        ]
        row = number if row is None else call("add", call("mul", row, count), number)
        row_index = row_index * k.extent + var(k.name)
    assert row is not None
    element = Read(nest.tensor(site.arg(0), "x"), (var("n"), row_index, row))
    hit = reduce(lambda a, b: call("and", a, b), checks)
    zero = Const(0, site.dtype())
    masked = call("where", hit, element, zero)
    nest.compute("y", low.shape, site.dtype(), [n, c, *places], masked, inner, "sum")
    nest.into(low.result)


def _col_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    own_attrs = {k: v for k, v in attrs.items() if k in ("dilations", "pads", "strides")}
    shapes = (np.array(attrs[n], np.int64) for n in ("image_shape", "block_shape"))
    return onnx_reference("Col2Im", 18)(own_attrs, [args[0], *shapes])


def _col_names(site: Site) -> tuple[HostNumber, ...]:
    count = length(site, 1)
    if not isinstance(count, int) or len(site.shape()) != 3:
        return site.unsupported("an image of unknown rank")
    kinds = [f"{kind}{d}" for kind in ("image", "block") for d in range(count)]
    return (*(HostNumber(k) for k in kinds), HostNumber("channels"))


def _col_values(attrs: Mapping[str, Any], args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Col2Im", attrs, args)
    shape, image, block = (host.required(i) for i in range(3))
    area = prod(block)
    if len(image) != len(block) or min(block, default=0) < 1 or shape[1] % area:
        host.fail(f"{shape[1]} rows do not divide into blocks of {block}")
    rank = len(image)
    pads, ones = attrs.get("pads") or (0,) * (2 * rank), (1,) * rank
    count = 1
    for d, step, gap in zip(
        range(rank), attrs.get("strides") or ones, attrs.get("dilations") or ones, strict=True
    ):
        free_extent = image[d] + pads[d] + pads[rank + d] - gap * (block[d] - 1) - 1
        count *= free_extent // step + 1
    if shape[2] != count:
        host.fail(f"there are {shape[2]} blocks, and the image has {count}")
    values = {"channels": shape[1] // area}
    for d in range(len(image)):
        values |= {f"image{d}": image[d], f"block{d}": block[d]}
    return values


def _col_symbolic(site: Site, symbols: Mapping[str, Dim]) -> Site:
    count = length(site, 1)
    attrs = {
        **site.attrs,
        "image_shape": tuple(symbols[f"image{d}"] for d in range(count)),
        "block_shape": tuple(symbols[f"block{d}"] for d in range(count)),
        "channels": symbols["channels"],
    }
    return Site(site.op, site.where, site.args[:1], attrs, site.env, (), site.results)


# MaxUnpool: indices are into the flattened result.


def _unpool_types(site: Site) -> tuple[Tensor, ...]:
    x, sizes = site.shape(), site.integers("kernel_shape") or ()
    count = len(sizes)
    if len(x) != count + 2:
        site.fail(f"a kernel of {count} dims does not fit an input of shape {x}")
    demand_shape(site, 1, x, "the tensor of places")
    if site.has(2):
        site.unsupported("a shape of the result that is given has no kernel rule")
    strides, pads = each_positive(site, "strides", count, 1), pads_of(site, count)
    spatial = (
        simplify((n - 1) * strides[d] + sizes[d] - pads[d] - pads[count + d])
        for d, n in enumerate(x[2:])
    )
    return (Tensor((*x[:2], *spatial), site.dtype()),)


def _lower_unpool(low: Lowering) -> None:
    site, nest, env = low.site, low.nest("max_unpool"), low.site.env
    steps = env.hint(product(low.shape)) * env.hint(product(site.shape()[2:]))
    if steps > MOST_STEPS:
        site.unsupported(f"{steps} pairs of results and elements have no kernel rule")
    axes = letters(low.shape)
    over = [Axis(f"s{d}", n) for d, n in enumerate(site.shape()[2:])]
    at = (*(var(a.name) for a in axes[:2]), *(var(a.name) for a in over))
    here = var(axes[0].name)
    for a in axes[1:]:
        here = here * a.extent + var(a.name)
    hit = call("eq", nest.load(site.arg(1), "place", at), IndexValue(here))
    zero = Const(0, site.dtype())
    value = call("where", hit, nest.load(site.arg(0), "x", at), zero)
    nest.compute("y", low.shape, site.dtype(), axes, value, over, "sum")
    nest.into(low.result)


RECORDS = (
    OperatorRecord(
        "Col2Im",
        "layout",
        _col_types,
        _col_reference,
        _lower_col,
        None,
        {1: "image_shape", 2: "block_shape"},
        first=18,
        run_time=RunTime(frozenset({1, 2}), _col_names, _col_values, _col_symbolic),
    ),
    OperatorRecord(
        "MaxUnpool",
        "layout",
        _unpool_types,
        onnx_reference("MaxUnpool", 22),
        _lower_unpool,
        first=9,
    ),
)
