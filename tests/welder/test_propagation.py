"""From an output tile to the regions of inputs, and which tiles of several outputs go together."""

from __future__ import annotations

import pytest

from explorer.cost.touched_parts import touched
from explorer.ir.affine import Affine, var
from explorer.ir.kernel import Axis, Compute, Expr, Kernel, Read, TensorSpec, apply, at
from explorer.ir.kernels.regions import propagate
from explorer.welder import plan_group
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.operator_tiles import connect_levels, is_tied
from explorer.welder.tiles.tile_graph import links, sub_kernel, virtual_nodes
from tests.roller.test_policy import DEVICE
from tests.welder import groups

ROW, COLUMN = Axis("i", 16), Axis("j", 12)


def mapped(expr: Expr, size: int = 40) -> Kernel:
    tensors = (TensorSpec("x", (size,)), TensorSpec("y", (16,)))
    return Kernel("map", tensors, (Compute("y", (ROW,), expr),), ("x",), ("y",))


def load(index: Affine) -> Read:
    return Read("x", (index,))


@pytest.mark.parametrize(
    ("index", "low", "high", "count"),
    [
        (var("i"), 4, 8, 4),
        (var("i") * 2 + 1, 9, 16, 4),
        (var("i") * -1 + 15, 8, 12, 4),
        (var("i") * -2 + 31, 17, 24, 4),
    ],
)
def test_one_affine_load_needs_its_image(index: Affine, low: int, high: int, count: int) -> None:
    kernel = mapped(load(index))
    (part,) = touched(kernel, propagate(kernel, {"i": 4}), {"t_i": 4})["x"].dims
    assert part == (low, high, count, False)


def test_several_loads_need_the_box_around_all() -> None:
    kernel = mapped(
        apply("add", load(var("i")), apply("mul", load(var("i") + 5), load(var("i") + 1)))
    )
    regions = propagate(kernel, {"i": 4})
    assert (regions.tensors["x"][0].lo, regions.tensors["x"][0].size) == (var("t_i"), 9)
    (part,) = touched(kernel, regions, {"t_i": 8})["x"].dims
    assert (part.low, part.high) == (8, 17)


def test_loads_that_move_differently_need_the_whole_dim() -> None:
    kernel = mapped(apply("add", load(var("i")), load(var("i") * 2)))
    region = propagate(kernel, {"i": 4}).tensors["x"][0]
    assert (region.lo, region.size) == (Affine(), 40)


def test_every_second_element_is_counted_once() -> None:
    both = apply("add", load(var("i") * 2), load(var("i") * 2 + 1))
    for expr, count in ((load(var("i") * 2), 4), (both, 8), (apply("neg", both), 8)):
        kernel = mapped(expr)
        assert touched(kernel, propagate(kernel, {"i": 4}), {"t_i": 4})["x"].elements == count


def two_outputs(second: Compute, shape: tuple[int, ...]) -> Kernel:
    """`r` is read by two computes, whose outputs are both read by `y`."""
    half = Compute("r", (ROW, COLUMN), apply("mul", at("x", (ROW, COLUMN)), 0.5))
    first = Compute("p", (ROW, COLUMN), apply("exp", at("r", (ROW, COLUMN))))
    shapes = {"x": (16, 12), "r": (16, 12), "p": (16, 12), "q": shape, "y": (16,)}
    k = Axis("k", 12)
    last = Compute(
        "y",
        (ROW,),
        apply("mul", at("p", (ROW, k)), Read("q", (var("i"),) * len(shape))),
        (k,),
        "sum",
    )
    tensors = tuple(TensorSpec(n, s) for n, s in shapes.items())
    return Kernel("two", tensors, (half, second, first, last), ("x",), ("y",))


def test_another_output_is_tied_by_the_inverse_of_its_map() -> None:
    """`q[j, i]` of `r[i, j]`: a tile of 4 by 3 of the first output is one of 3 by 4 of it."""
    a, b = Axis("a", 12), Axis("b", 16)
    part, also = sub_kernel(
        two_outputs(Compute("q", (a, b), apply("neg", Read("r", (var("b"), var("a"))))), (12, 16)),
        (0, 1, 2),
    )
    assert (part.output, also) == ("p", ("q",))
    regions = propagate(part, {"i": 4, "j": 3})
    assert [r.size for r in regions.tensors["q"]] == [3, 4]
    assert [r.lo for r in regions.tensors["q"]] == [var("t_j"), var("t_i")]
    assert is_tied(part, also)


def test_outputs_that_overlap_do_not_connect() -> None:
    """`q[i] = r[i, 0] + r[i + 1, 0]` is no one tile's own."""
    a = Axis("a", 15)
    pair = apply("add", Read("r", (var("a"), Affine())), Read("r", (var("a") + 1, Affine())))
    kernel = two_outputs(Compute("q", (a,), pair), (15,))
    part, also = sub_kernel(kernel, (0, 1, 2))
    assert also and not is_tied(part, also)


def test_the_diagonal_of_a_tensor_does_not_connect() -> None:
    a = Axis("a", 12)
    kernel = two_outputs(Compute("q", (a,), Read("r", (var("a"), var("a")))), (12,))
    part, also = sub_kernel(kernel, (0, 1, 2))
    assert also and not is_tied(part, also)


def test_what_is_connected_at_a_level_is_one_node_of_the_next() -> None:
    kernel = groups.attention(64, 32, 16)
    known = memories(DEVICE)
    levels = connect_levels(kernel, propagate(kernel, {"i": 8}), known, 2)
    assert levels == {"t": 2, "top": 1, "e": 1, "total": 1, "y": 2}
    nodes = virtual_nodes(kernel, levels, [m.name for m in known[:2]])
    assert [(n.level, n.numbers) for n in nodes] == [
        ("L1", (0,)), ("L1", (1, 2, 3, 4)), ("L1", (5,))
    ]  # fmt: skip
    (group,) = virtual_nodes(kernel, levels, [m.name for m in known[:3]])
    assert (group.level, group.parts) == ("L2", nodes)
    in_registers = {**levels, "e": 0, "y": 0}
    nodes = virtual_nodes(kernel, in_registers, [m.name for m in known[:2]])
    assert [p.numbers for n in nodes for p in n.parts] == [(0,), (1,), (2, 3, 4, 5)]


def test_how_near_an_intermediate_is_handed_over_follows_from_its_loads() -> None:
    near = {k.name: {x.tensor: x.near for x in links(k)} for k in (
        groups.mlp(8, 4, 6), groups.conv_relu_pool(8, 2, 3), groups.conv_conv(8, 2, 3),
        groups.transposed(4, 6), groups.layer_norm(4, 6),
    )}  # fmt: skip
    assert near == {
        "mlp": {"t": 0, "r": 1},
        "conv_relu_pool": {"t": 0, "r": 2},
        "conv_conv": {"t": 2},
        "transposed": {"t": 2},
        "layer_norm": {"s": 1, "q": 1},
    }


def test_halos_that_are_computed_again_are_told() -> None:
    kernel = groups.conv_conv(32, 8, 8)
    plan = plan_group(kernel, DEVICE, tile={"h_y": 4, "v_y": 32, "o_y": 8})
    rows = 6 * 6 + 2 * 5  # of the first one, by 8 tiles: 5 at both ends
    assert plan.recompute == (rows + 32) / (32 + 32)
