"""What holds of Welder's tiles for every group, numbered as in the paper's list of properties."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explorer.cost.bind_kernel import extents
from explorer.cost.footprint import GPU_ALIGN_BYTES, footprint
from explorer.cost.touched_parts import grid_of, touched
from explorer.cost.traffic import traffic
from explorer.devices.catalogue import device, device_names
from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.decisions.tile_graph import GroupPlan, OperatorTile
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply, at
from explorer.ir.kernels.regions import propagate, tile_variable
from explorer.ir.types import ITEM_BYTES
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.welder import curve, plan_group, tile_cost
from explorer.welder.tiles.levels import resident
from explorer.welder.tiles.sized_tile import size_tile
from explorer.welder.tiles.tile_costs import holder, steps_of
from explorer.welder.tiles.tile_graph import sub_kernel
from tests.examples import examples
from tests.roller.test_policy import DEVICE
from tests.strategies.kernels import tiles
from tests.welder import groups
from tests.welder.access_counts import one_tile

V100 = device("v100")
GROUPS = [
    groups.matmul(9, 5, 12),
    groups.matmul_softmax(12, 5, 9),
    groups.softmax(11, 7),
    groups.layer_norm(8, 13),
    groups.chain(9, 8),
    groups.conv_relu_pool(8, 2, 3),
    groups.conv_relu_pool(9, 1, 2, width=3),
    groups.conv_conv(7, 1, 2),
    groups.conv_conv(9, 2, 1, stride=2),
    groups.attention(6, 7, 4),
    groups.transposed(7, 9),
    groups.mlp(7, 5, 6),
]
each = pytest.mark.parametrize("kernel", GROUPS, ids=lambda k: k.name)
quick = settings(
    max_examples=examples(15, few=6), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def places(draw: st.DrawFn, kernel: Kernel, tile: dict[str, int]) -> dict[str, int]:
    """The origin of one tile."""
    grid = grid_of(kernel, tile)
    return {tile_variable(a): s * draw(st.integers(0, n - 1)) for a, (s, n) in grid.items()}


def border_bytes(kernel: Kernel) -> int:
    border = (*kernel.inputs, kernel.output)
    return sum(ITEM_BYTES[kernel.dtype(n)] * prod(map(int, kernel.shape(n))) for n in border)


SPLITS = [
    (groups.matmul_softmax(12, 5, 8), 1, "t"),
    (groups.mlp(8, 5, 6), 2, "r"),
    (groups.attention(6, 8, 4), 1, "t"),
    (groups.attention(6, 8, 4), 5, "y"),
    (groups.chain(6, 8), 1, "t"),
]


@pytest.mark.parametrize(("kernel", "first", "tensor"), SPLITS, ids=lambda v: str(v)[:12])
@quick
@given(data=st.data())
def test_property_1_an_intermediate_in_memory_costs_its_write_and_its_read(
    kernel: Kernel, first: int, tensor: str, data: st.DataObject
) -> None:
    rows, extent = next(iter(extents(kernel).items()))
    size = data.draw(st.integers(1, extent))
    count = len(kernel.computes)
    producer, _ = sub_kernel(kernel, range(first))
    consumer, _ = sub_kernel(kernel, range(first, count))
    made = next(iter(extents(producer)))
    apart = traffic(producer, {made: size}), traffic(consumer, {rows: size})
    more = sum(t.total_bytes for t in apart) - traffic(kernel, {rows: size}).total_bytes
    stored = 4 * prod(map(int, kernel.shape(tensor)))
    assert producer.output == tensor
    assert more == 2 * stored


@each
@quick
@given(data=st.data())
def test_property_2_a_tile_is_computed_from_its_propagated_regions_alone(
    kernel: Kernel, data: st.DataObject
) -> None:
    """What lies outside of the regions is NaN."""
    tile = data.draw(tiles(kernel))
    origin = data.draw(places(kernel, tile))
    parts = touched(kernel, propagate(kernel, tile), origin)
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    full = [rng.standard_normal(tuple(map(int, kernel.shape(n)))) for n in kernel.inputs]
    given_ = [x.astype(np.float32) for x in full]
    kept = []
    for name, x in zip(kernel.inputs, given_, strict=True):
        part = tuple(slice(d.low, d.high) for d in parts[name].dims)
        alone = np.full_like(x, np.nan)
        alone[part] = x[part]
        kept.append(alone)
    out = tuple(slice(d.low, d.high) for d in parts[kernel.output].dims)
    whole, alone = (evaluate_kernel(kernel, xs, {})[out] for xs in (given_, kept))
    assert not np.isnan(whole).any()
    np.testing.assert_array_equal(whole, alone)


@pytest.mark.few(5)
@each
@quick
@given(data=st.data())
def test_property_3_a_region_is_the_smallest_box_around_what_is_loaded(
    kernel: Kernel, data: st.DataObject
) -> None:
    tile = data.draw(tiles(kernel))
    origin = data.draw(places(kernel, tile))
    begin = {a: origin.get(tile_variable(a), 0) for a in extents(kernel)}
    needed, _ = one_tile(
        kernel, {a: range(b, min(b + tile[a], extents(kernel)[a])) for a, b in begin.items()}
    )
    for name, part in touched(kernel, propagate(kernel, tile), origin).items():
        dims = zip(*needed[name], strict=True)
        assert [(min(d), max(d) + 1) for d in dims] == [(d.low, d.high) for d in part.dims]


def test_property_3_a_dim_that_is_addressed_by_data_is_needed_whole() -> None:
    i, j = Axis("i", 6), Axis("j", 4)
    read = Read("table", (Read("index", (var("i"),)), var("j")))
    tensors = (TensorSpec("table", (50, 4)), TensorSpec("index", (6,), "int64"))
    kernel = Kernel(
        "gather", (*tensors, TensorSpec("y", (6, 4))), (Compute("y", (i, j), read),),
        ("table", "index"), ("y",),
    )  # fmt: skip
    parts = touched(kernel, propagate(kernel, {"i": 2, "j": 2}), {"t_i": 2, "t_j": 2})
    assert [(d.low, d.high) for d in parts["table"].dims] == [(0, 50), (2, 4)]
    assert [(d.low, d.high) for d in parts["index"].dims] == [(2, 4)]
    assert parts["table"].elements == 4  # no more than are loaded


@each
def test_property_4_one_tile_moves_inputs_and_output_once(kernel: Kernel) -> None:
    for tile in ({}, dict(extents(kernel))):
        found = traffic(kernel, tile)
        assert (found.tiles, found.total_bytes) == (1, border_bytes(kernel))


@each
@quick
@given(data=st.data())
def test_property_5_room_is_that_of_a_placement_in_which_nothing_overlaps(
    kernel: Kernel, data: st.DataObject
) -> None:
    found = footprint(kernel, data.draw(tiles(kernel)), align_bytes=GPU_ALIGN_BYTES)
    live = (
        sum(p.bytes for p in found.places if p.first <= n <= p.last)
        for n in range(len(kernel.computes))
    )
    assert max(live) <= found.bytes <= sum(p.bytes for p in found.places)
    for p in found.places:
        assert p.offset % GPU_ALIGN_BYTES == 0
        for q in found.places:
            together = p is not q and p.first <= q.last and q.first <= p.last
            apart = p.offset + p.bytes <= q.offset or q.offset + q.bytes <= p.offset
            assert apart or not together


LARGE = [
    groups.matmul_softmax(4096, 64, 128),
    groups.softmax(2048, 512),
    groups.layer_norm(2048, 768),
    groups.chain(4096, 1024),
    groups.conv_relu_pool(112, 16, 32),
    groups.conv_conv(56, 16, 16),
    groups.attention(512, 128, 64),
    groups.transposed(512, 768),
    groups.mlp(1024, 64, 64),
]
larger = pytest.mark.parametrize("kernel", LARGE, ids=lambda k: k.name)


@pytest.mark.few(20)
@larger
@pytest.mark.parametrize("name", [*device_names("gpu"), "a-cpu"])
def test_property_6_a_plan_is_never_over_capacity(kernel: Kernel, name: str) -> None:
    machine = DEVICE if name == "a-cpu" else device(name)
    plan = plan_group(kernel, machine)
    assert plan.fits, [m for m in plan.levels if not m.fits]
    for p in curve(kernel, machine):
        assert p.valid or p.key == float("inf")


@pytest.mark.few(4)
@larger
@given(rows=st.integers(1, 14), vectors=st.integers(1, 4))
@quick
def test_property_7_what_registers_hold_changes_no_farther_memory(
    kernel: Kernel, rows: int, vectors: int
) -> None:
    tile = plan_group(kernel, DEVICE).tile
    plans = [
        plan_group(kernel, DEVICE, tile=Tiling(tile, Micro(*m))) for m in ((rows, vectors), (4, 2))
    ]
    home = [m.level for m in plans[0].levels].index(plans[0].level)
    assert plans[0].levels[home:] == plans[1].levels[home:]
    assert plans[0].grid == plans[1].grid


def by_level(plan: GroupPlan) -> dict[str, dict[tuple[str, str], OperatorTile]]:
    found: dict[str, dict[tuple[str, str], OperatorTile]] = {}
    for t in plan.tiles:
        found.setdefault(t.level, {})[t.node, t.tensor] = t
    return found


@larger
@pytest.mark.parametrize("machine", [V100, DEVICE], ids=lambda d: d.name)
def test_property_8_a_farther_tile_is_no_smaller_in_any_dim(
    kernel: Kernel, machine: Device
) -> None:
    plan = plan_group(kernel, machine)
    known = list(by_level(plan).values())
    assert len(known) >= 2
    for near, far in pairwise(known):
        assert near.keys() == far.keys()
        for key, tile in near.items():
            pairs = zip(tile.tile, far[key].tile, tile.full, strict=True)
            assert all(a <= b <= n for a, b, n in pairs), (key, tile, far[key])


@larger
@pytest.mark.parametrize("name", device_names("gpu"))
def test_a_plan_and_the_cost_of_its_tile_agree(kernel: Kernel, name: str) -> None:
    machine = device(name)
    plan = plan_group(kernel, machine)
    tile = dict(plan.tile)
    cost = tile_cost(kernel, machine, tile, steps_of(kernel, machine, tile))
    shared = plan.at("shared")
    assert (cost.traffic, cost.footprint) == (shared.traffic, shared.footprint)
    fits = shared.footprint <= (machine.levels[0].capacity_bytes or 0)
    assert cost.valid == fits
    if name == "webgpu" and not fits:
        return  # one row of the group takes more than its 14 KiB
    assert (cost.grid, cost.waves, cost.valid) == (plan.grid, plan.waves, True)
    found = size_tile(kernel, machine, holder(machine), tile, steps_of(kernel, machine, tile))
    assert (found.held_bytes, found.waves, found.fits) == (cost.footprint, cost.waves, True)


@pytest.mark.parametrize("name", device_names("gpu"))
def test_a_unit_has_no_more_blocks_than_its_sheet_allows(name: str) -> None:
    machine = device(name)
    assert 1 <= resident(machine, 0, 1) <= machine.unit_blocks
    assert resident(machine, machine.unit_shared_bytes, 1) == 1


@pytest.mark.few(6)
@each
@quick
@given(data=st.data())
def test_property_13_the_key_is_traffic_and_one_times_waves(
    kernel: Kernel, data: st.DataObject
) -> None:
    costs = [tile_cost(kernel, V100, data.draw(tiles(kernel))) for _ in range(5)]
    assert all(c.key == (c.traffic + 1) * c.waves for c in costs if c.valid)


@pytest.mark.parametrize(("rows", "mib"), [(4, 840), (16, 264), (32, 168), (64, 120)])
def test_property_14_the_papers_numbers(rows: int, mib: int) -> None:
    kernel = groups.matmul_softmax(98304, 64, 128)
    assert traffic(kernel, {"i": rows}).total_bytes == mib << 20


@pytest.mark.few(5)
@each
@quick
@given(data=st.data())
def test_property_15_a_step_of_reduced_axes_changes_room_and_no_traffic(
    kernel: Kernel, data: st.DataObject
) -> None:
    tile = data.draw(tiles(kernel))
    reduced = {a.name: int(a.extent) for c in kernel.computes for a in c.reduce}
    steps = {a: data.draw(st.integers(1, n)) for a, n in reduced.items()}
    whole, short = (tile_cost(kernel, V100, tile, s) for s in (None, steps))
    assert short.traffic == whole.traffic
    assert tile_cost(kernel, V100, tile, reduced) == whole
    held = [footprint(kernel, tile, steps=s) for s in (None, steps)]
    before, after = ({p.tensor: p.bytes for p in f.places} for f in held)
    assert before.keys() == after.keys()
    assert all(after[n] <= size for n, size in before.items())
    assert all(after[n] == before[n] for n in before if n not in kernel.inputs)


def test_property_3_a_region_ends_where_its_tensor_does() -> None:
    i = Axis("i", 6)
    shifted = Compute("y", (i,), apply("add", Read("x", (var("i") - 2,), 0.0), at("x", (i,))))
    kernel = Kernel(
        "shift", (TensorSpec("x", (6,)), TensorSpec("y", (6,))), (shifted,), ("x",), ("y",)
    )
    parts = touched(kernel, propagate(kernel, {"i": 2}), {"t_i": 0})
    assert [(d.low, d.high) for d in parts["x"].dims] == [(0, 2)]
