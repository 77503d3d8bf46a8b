"""What holds of the policies, numbered as in the paper's list of properties."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from explorer.cost.bind_kernel import extents
from explorer.cost.touched_parts import touched
from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.regions import propagate
from explorer.ir.program import Program
from explorer.roller import Price
from explorer.welder import POLICIES
from explorer.welder.artifact_policy import artifact_tiles
from explorer.welder.tiles.layers import Layer, layers, task_tiles
from explorer.welder.tiles.levels import memories
from explorer.welder.tiles.operator_tiles import connect_levels
from explorer.welder.tiles.sized_tile import SizedTile
from tests.roller.test_policy import DEVICE
from tests.strategies.layer_programs import Sketch
from tests.welder import groups
from tests.welder.test_policies import graph_of, kernels_of, weld

V100 = device("v100")
GROUPS = [
    groups.matmul_softmax(512, 64, 128),
    groups.layer_norm(256, 384),
    groups.chain(512, 256),
    groups.conv_relu_pool(32, 8, 16),
    groups.mlp(256, 32, 64),
    groups.attention(128, 64, 32),
]
each = pytest.mark.parametrize("kernel", GROUPS, ids=lambda k: k.name)
machines = pytest.mark.parametrize("machine", [V100, DEVICE], ids=lambda d: d.name)


def perceptron() -> Program:
    """Two products with elementwise operators and a softmax behind them, two results."""
    sketch = Sketch((96, 64))
    a = sketch.op("MatMul", sketch.params[0], sketch.weights(64, 80), shape=(96, 80))
    b = sketch.op("Relu", a, shape=(96, 80))
    c = sketch.op("MatMul", b, sketch.weights(80, 48), shape=(96, 48))
    d = sketch.op("Tanh", c, shape=(96, 48))
    e = sketch.op("Softmax", d, shape=(96, 48), attrs=(("axis", -1),))
    f = sketch.op("Exp", c, shape=(96, 48))
    return kernels_of(sketch.program((e, f)))


def shipped_of(kernel: Kernel, machine: Device) -> list[SizedTile]:
    found = artifact_tiles(kernel, machine)
    assert not isinstance(found, Refusal), found.words
    return list(found)


@each
@machines
def test_property_6_no_tile_over_capacity_is_returned(kernel: Kernel, machine: Device) -> None:
    for tile in (*task_tiles(kernel, machine), *shipped_tiles_or_none(kernel, machine)):
        assert tile.fits
        assert tile.room_bytes is not None and tile.held_bytes <= tile.room_bytes


def shipped_tiles_or_none(kernel: Kernel, machine: Device) -> list[SizedTile]:
    found = artifact_tiles(kernel, machine)
    return [] if isinstance(found, Refusal) else list(found)


def nested(layer: Layer) -> Iterator[tuple[Layer, Layer]]:
    for part in layer.parts:
        yield layer, part
        yield from nested(part)


@each
def test_property_8_the_two_step_policys_nearer_tiles_lie_inside_of_farther_ones(
    kernel: Kernel,
) -> None:
    task = task_tiles(kernel, DEVICE)[0]
    regions = propagate(kernel, dict(task.tile))
    levels = connect_levels(kernel, regions, memories(DEVICE), 2)
    found = layers(kernel, DEVICE, task, levels)
    assert isinstance(found, Layer)
    for outer, inner in nested(found):
        assert inner.tile.held_bytes <= outer.tile.held_bytes
        for axis, size in inner.tile.tile:
            known = [axes[axis].size for axes in regions.axes if axis in axes]
            assert known and all(size <= int(n) for n in known)


@each
@machines
def test_property_9_all_computes_of_a_shipped_group_have_one_grid_and_thread_count(
    kernel: Kernel, machine: Device
) -> None:
    for tile in shipped_of(kernel, machine):
        regions = propagate(kernel, dict(tile.tile))
        for n, c in enumerate(kernel.computes):
            grid = points = 1
            for a in c.axes:
                size = int(regions.axes[n][a.name].size)
                grid, points = grid * -(-int(a.extent) // size), points * size
            assert grid == tile.grid
            assert points % tile.threads == 0


@pytest.mark.parametrize("policy", POLICIES)
@machines
def test_property_10_results_are_stored_and_nothing_is_both_inside_and_outside(
    policy: str, machine: Device
) -> None:
    before = perceptron()
    after = weld(before, policy, machine)
    stored = {b.var.name for b in after.main.body}
    hidden = {m for g in graph_of(after).groups for m in g.members[:-1]}
    read = {v.name for b in after.main.body for v in b.reads}
    assert {v.name for v in before.main.outputs} <= stored
    assert not hidden & (stored | read)
    assert hidden | {g.members[-1] for g in graph_of(after).groups} == {
        b.var.name for b in before.kernel_calls
    }


@pytest.mark.parametrize("policy", POLICIES)
@machines
def test_property_11_accepted_merges_gain_by_the_model(policy: str, machine: Device) -> None:
    for group in graph_of(weld(perceptron(), policy, machine)).groups:
        assert all(s.cost_us <= 0 for s in group.steps if not s.refused)


@pytest.mark.parametrize("policy", POLICIES)
def test_property_11_a_group_takes_no_longer_than_its_kernels_and_their_barriers(
    policy: str,
) -> None:
    """So the gains of all groups add up to what single kernels take less what groups take."""
    before = perceptron()
    after = weld(before, policy)
    price, env = Price(DEVICE), before.env
    alone, welded = (
        {b.var.name: price(b.expr.kernel, env) for b in p.kernel_calls}  # type: ignore[union-attr]
        for p in (weld(before, policy, enabled=False), after)
    )
    for group in graph_of(after).groups:
        barriers = (len(group.members) - 1) * DEVICE.barrier_us
        apart = sum(alone[m] for m in group.members) + barriers
        assert welded[group.name] <= apart * (1 + 1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_property_12_all_edges_at_the_last_level_are_the_plan_without_fusion(policy: str) -> None:
    before = perceptron()
    names = tuple((b.var.name, "DRAM") for b in before.kernel_calls)
    after, off = weld(before, policy, connect=names), weld(before, policy, enabled=False)
    assert [b.expr for b in after.kernel_calls] == [b.expr for b in off.kernel_calls]
    for program in (after, off, weld(before, policy)):
        assert len(program.kernel_calls) == len(graph_of(program).groups)


@each
@machines
def test_property_13_the_shipped_order_is_that_of_traffic_and_one_times_waves(
    kernel: Kernel, machine: Device
) -> None:
    found = shipped_of(kernel, machine)
    keys = [(s.moved_bytes + 1) * s.waves for s in found]
    assert keys == sorted(keys) == [s.key for s in found]


def test_property_13_the_papers_tile_is_the_shipped_policys_first() -> None:
    """16 rows, as measured in the paper, where reduced axes are loaded whole."""
    kernel = groups.matmul_softmax(98304, 64, 128)
    best = shipped_of(kernel, V100)[0]
    regions = propagate(kernel, dict(best.tile))
    rows = dict(best.tile)["i"]
    parts = touched(kernel, regions, {"t_i": rows})
    assert rows >= 16 and best.key <= (264 * (1 << 20) + 1) * 39
    assert parts["a"].box == (rows, 64) and extents(kernel)["l"] == dict(best.tile)["l"]
