"""Modelled traffic and work equal what a simulator counts that executes tiles point by point."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explorer.cost.footprint import points
from explorer.cost.traffic import traffic
from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, apply
from explorer.ir.kernels.regions import propagate
from explorer.welder.tiles.plan import operations, recompute
from tests.examples import examples
from tests.strategies.kernels import tiles
from tests.welder import groups
from tests.welder.access_counts import Counted, count

GROUPS = [
    groups.matmul_softmax(6, 3, 8),
    groups.softmax(7, 5),
    groups.layer_norm(5, 7),
    groups.chain(5, 6),
    groups.conv_relu_pool(6, 2, 3),
    groups.conv_relu_pool(7, 1, 2, width=3),
    groups.conv_conv(5, 1, 2),
    groups.conv_conv(7, 1, 1, stride=2),
    groups.attention(4, 5, 3),
    groups.transposed(5, 7),
    groups.mlp(5, 3, 4),
]
slow = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # points are executed one by one


@cache
def counted_whole(kernel: Kernel) -> Counted:
    return count(kernel, {})


@pytest.mark.few(6)
@pytest.mark.parametrize("kernel", GROUPS, ids=lambda k: k.name)
@slow
@given(data=st.data())
def test_modelled_bytes_and_work_are_those_that_are_counted(
    kernel: Kernel, data: st.DataObject
) -> None:
    """Halos that neighbouring tiles compute again are counted to the point."""
    tile = data.draw(tiles(kernel))
    counted, modelled, regions = count(kernel, tile), traffic(kernel, tile), propagate(kernel, tile)
    assert modelled.tiles == counted.tiles
    assert modelled.total_bytes == counted.bytes(kernel)
    numbers = range(len(kernel.computes))
    assert points(kernel, regions, tile) == tuple(counted.points[n] for n in numbers)
    cost = [operations(c.expr) for c in kernel.computes]
    more = sum(counted.points[n] * cost[n] for n in numbers)
    least = sum(counted_whole(kernel).points[n] * cost[n] for n in numbers)
    assert recompute(kernel, regions, tile) == more / least


@pytest.mark.few(8)
@pytest.mark.parametrize("kernel", GROUPS, ids=lambda k: k.name)
@pytest.mark.parametrize(("read", "write"), [(8, 4), (128, 32)])
@slow
@given(data=st.data())
def test_modelled_transactions_are_those_of_the_runs_that_are_touched(
    kernel: Kernel, read: int, write: int, data: st.DataObject
) -> None:
    tile = data.draw(tiles(kernel))
    counted = count(kernel, tile, read, write)
    modelled = traffic(kernel, tile, line_bytes=read, write_bytes=write)
    loads = sum(counted.transactions[n] for n in kernel.inputs)
    assert modelled.loaded_bytes == loads * read
    assert modelled.stored_bytes == counted.transactions[kernel.output] * write


@st.composite
def loads(draw: st.DrawFn, tensor: str, shape: tuple[int, int], names: list[str]) -> Read:
    """A load at sums of axes, some past the border."""

    def index() -> Affine:
        found = Affine((), draw(st.integers(-2, 2)))
        for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
            found = found + var(name) * draw(st.sampled_from([1, 1, 2, 3, -1]))
        return found

    return Read(tensor, (index(), index()), 0.0)


@st.composite
def pairs(draw: st.DrawFn) -> Kernel:
    """Two computes, the second of which reads the first one and perhaps the input again."""
    size = st.integers(1, 5)
    i, j, p, q = (Axis(n, draw(size)) for n in "ijpq")
    k, r = (Axis(n, draw(st.integers(1, 3))) for n in "kr")
    shapes = {"x": (draw(size), draw(size)), "t": (int(i.extent), int(j.extent))}
    first = draw(loads("x", shapes["x"], ["i", "j", "k"]))
    second: Expr = draw(loads("t", shapes["t"], ["p", "q", "r"]))
    if draw(st.booleans()):
        second = apply("add", second, draw(loads("x", shapes["x"], ["p", "q", "r"])))
    computes = [
        Compute("t", (i, j), apply("add", first, 1.0), (k,), "sum"),
        Compute("y", (p, q), second, (r,), "sum"),
    ]
    return groups.kernel("pair", computes, {**shapes, "y": (int(p.extent), int(q.extent))})


def test_even_and_odd_elements_are_not_taken_for_the_same() -> None:
    """x is read at 2 * j and at 2 * p - 1: ranges and numbers of places are equal."""
    first = Read("x", (var("i"), var("j") * 2), 0.0)
    second = apply(
        "add", Read("t", (var("p"), var("p"))), Read("x", (Affine(), var("p") * 2 - 1), 0.0)
    )
    computes = [
        Compute("t", (Axis("i", 2), Axis("j", 2)), first),
        Compute("y", (Axis("p", 2), Axis("q", 2)), second),
    ]
    kernel = groups.kernel("pair", computes, {"x": (1, 2), "t": (2, 2), "y": (2, 2)})
    tile = {"p": 2, "q": 1}
    assert traffic(kernel, tile).total_bytes == count(kernel, tile).bytes(kernel)


@settings(slow, max_examples=examples(60))
@given(kernel=pairs(), data=st.data())
def test_no_tile_touches_or_does_more_than_is_modelled(kernel: Kernel, data: st.DataObject) -> None:
    """Whatever the indices: boxes hold at least what is loaded."""
    tile = data.draw(tiles(kernel))
    counted, regions = count(kernel, tile), propagate(kernel, tile)
    assert traffic(kernel, tile).total_bytes >= counted.bytes(kernel)
    first, last = points(kernel, regions, tile)
    assert (first >= counted.points[0], last) == (True, counted.points[1])
