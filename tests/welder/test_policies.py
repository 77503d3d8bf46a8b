"""Every policy by name: the same numbers from every random program, and decisions that hold what
Welder promises (section 3.6 of the notes on the paper).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explorer.cost.bind_kernel import bind_kernel, sizes_of
from explorer.devices.catalogue import device as data_sheet
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.dims import evaluate_shape
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernels.normal import normalise
from explorer.ir.kernels.regions import propagate
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate, evaluate_kernel
from explorer.passes.random_inputs import random_inputs
from explorer.relax import deduce, legalize
from explorer.roller import Options as RollerOptions
from explorer.roller import Price
from explorer.roller.transform import roll
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.layout import ChooseLayout
from explorer.transforms.simplify.redundancy import remove_dead_code
from explorer.welder import POLICIES, Options, Weld
from explorer.welder.tiles.levels import memories
from tests.examples import examples
from tests.roller.test_policy import DEVICE
from tests.strategies.layer_programs import Sketch, programs

QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
V100 = data_sheet("v100")


def kernels_of(program: Program) -> Program:
    """The program in kernels, as Welder is given it."""
    plain = fold_copies(remove_dead_code(legalize(deduce(program))))
    return remove_dead_code(ChooseLayout()(plain))


def weld(program: Program, policy: str, device: Device = DEVICE, **options: object) -> Program:
    return Weld(device, Price(device), Options(policy=policy, **options))(program)  # type: ignore[arg-type]


def graph_of(program: Program) -> TileGraph:
    graph = program.decisions.tile_graph
    assert graph is not None
    return graph


def same(want: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> None:
    for key, value in want.items():
        bound = max(1.0, float(np.abs(value).max(initial=0.0)))
        np.testing.assert_allclose(got[key], value, rtol=0, atol=1e-4 * bound, equal_nan=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("policy", POLICIES)
@settings(QUIET, max_examples=examples(25, few=8))
@given(program=programs())
def test_a_policy_keeps_every_value_of_a_random_program(policy: str, program: Program) -> None:
    before = kernels_of(program)
    after = weld(before, policy)
    inputs = random_inputs(before)
    same(evaluate(before, inputs), evaluate(after, inputs))


@pytest.mark.few(1)
@pytest.mark.parametrize("policy", POLICIES)
@settings(QUIET, max_examples=examples(15, few=6))
@given(program=programs(5))
def test_the_tiles_of_every_group_compute_what_the_group_says(
    policy: str, program: Program
) -> None:
    after = roll(weld(kernels_of(program), policy), DEVICE, RollerOptions())
    sizes = after.env.hints
    for binding in after.kernel_calls:
        assert isinstance(binding.expr, KernelCall) and binding.expr.tiling is not None
        kernel = binding.expr.kernel
        if kernel.updates:
            continue
        rng = np.random.default_rng(0)
        given_ = {
            n: rng.standard_normal(evaluate_shape(kernel.shape(n), sizes)).astype(
                numpy_dtype(kernel.dtype(n))
            )
            for n in kernel.inputs
        }
        want = evaluate_kernel(kernel, [given_[n] for n in kernel.inputs], sizes)
        out = np.full(want.shape, np.nan, want.dtype)
        program_ = lower(kernel, binding.expr.tiling, after.env)
        machine = Interpreter(program_, {**given_, kernel.output: out}, sizes)
        machine.run()
        same({"y": want}, {"y": machine.arrays[kernel.output].reshape(want.shape)})


@pytest.mark.few(2)
@pytest.mark.parametrize("device", [DEVICE, V100], ids=["cpu", "v100"])
@pytest.mark.parametrize("policy", POLICIES)
@settings(QUIET, max_examples=10)
@given(program=programs())
def test_groups_part_the_kernels_and_hide_no_result(
    policy: str, device: Device, program: Program
) -> None:
    before = kernels_of(program)
    after = weld(before, policy, device)
    groups = graph_of(after).groups
    members = [m for g in groups for m in g.members]
    assert sorted(members) == sorted(b.var.name for b in before.kernel_calls)
    stored = {b.var.name for b in after.main.body} | {p.name for p in after.main.params}
    assert {v.name for v in after.main.outputs} <= stored | set(after.constants)
    inside = {m for g in groups for m in g.members[:-1]}
    read = {v.name for b in after.main.body for v in b.reads}
    assert not inside & read  # nothing is used inside and outside
    assert len(after.kernel_calls) == len(groups)
    for g in groups:
        assert all(s.why is not None and s.refused == s.why.words for s in g.steps if s.refused)


@pytest.mark.few(2)
@pytest.mark.parametrize("device", [DEVICE, V100], ids=["cpu", "v100"])
@pytest.mark.parametrize("policy", ["two_step", "shipped"])
@settings(QUIET, max_examples=10)
@given(program=programs())
def test_no_tile_over_capacity_is_chosen(policy: str, device: Device, program: Program) -> None:
    after = weld(kernels_of(program), policy, device)
    for g in graph_of(after).groups:
        if g.plan is not None:
            assert all(m.fits for m in g.plan.levels if m.level in ("L2", "shared"))


@settings(QUIET, max_examples=examples(25, few=8))
@given(program=programs())
def test_shipped_groups_have_one_grid(program: Program) -> None:
    after = weld(kernels_of(program), "shipped")
    calls = {b.var.name: b.expr.kernel for b in after.kernel_calls}  # type: ignore[union-attr]
    for g in graph_of(after).groups:
        if g.plan is None:
            continue
        kernel = calls[g.name]
        bound = bind_kernel(kernel, sizes_of(kernel, after.env))
        regions = propagate(bound, dict(g.plan.tile))
        for n, c in enumerate(bound.computes):
            own = [-(-int(a.extent) // max(1, int(regions.axes[n][a.name].size))) for a in c.axes]  # type: ignore[arg-type]
            assert np.prod(own, dtype=int) == g.plan.grid
        assert g.plan.recompute == 1.0


@settings(QUIET, max_examples=examples(25, few=8))
@given(program=programs(), policy=st.sampled_from(sorted(POLICIES)))
def test_all_edges_in_the_last_memory_are_the_plan_without_fusion(
    program: Program, policy: str
) -> None:
    before = kernels_of(program)
    last = DEVICE.levels[-1].name
    names = tuple((b.var.name, last) for b in before.kernel_calls)
    after = weld(before, policy, connect=names)
    assert len(after.kernel_calls) == len(before.kernel_calls)
    assert all(len(g.members) == 1 for g in graph_of(after).groups)


@cache
def branches() -> Program:
    """Two readers of one value, joined again: `relu(x @ w)`, its tanh and its sum with that."""
    sketch = Sketch((64, 64))
    product = sketch.op("MatMul", sketch.params[0], sketch.weights(64, 64), shape=(64, 64))
    value = sketch.op("Relu", product, shape=(64, 64))
    other = sketch.op("Tanh", value, shape=(64, 64))
    total = sketch.op("Add", value, other, shape=(64, 64))
    return kernels_of(sketch.program((total,)))


@pytest.mark.parametrize("policy", POLICIES)
def test_branches_that_meet_again_are_one_group(policy: str) -> None:
    assert len(graph_of(weld(branches(), policy)).groups) == 1


@cache
def product_and_softmax(rows: int = 4096) -> Program:
    """The paper's example, with fewer rows: `softmax(x[rows, 64] @ w[64, 128])`."""
    sketch = Sketch((rows, 64))
    product = sketch.op("MatMul", sketch.params[0], sketch.weights(64, 128), shape=(rows, 128))
    soft = sketch.op("Softmax", product, shape=(rows, 128), attrs=(("axis", -1),))
    return kernels_of(sketch.program((soft,)))


@pytest.mark.parametrize("policy", ["two_step", "shipped"])
def test_a_v100_holds_the_products_rows_in_shared_memory(policy: str) -> None:
    (group,) = graph_of(weld(product_and_softmax(), policy, V100)).groups
    assert group.plan is not None and group.plan.level == "shared"
    assert group.plan.at("shared").fits and group.plan.predicted_us > 0
    columns = [n for _, n in group.plan.tile if n == 128]
    assert not columns  # whole rows: what is not cut is not named


@pytest.mark.parametrize("policy", POLICIES)
def test_an_edge_is_joined_by_hand_even_where_that_takes_longer(policy: str) -> None:
    before = product_and_softmax(96)
    value = before.kernel_calls[0].var.name
    joined = weld(before, policy, connect=((value, "L2"),))
    assert len(graph_of(joined).groups) == 1
    apart = weld(before, policy, connect=((value, "DRAM"),))
    assert len(graph_of(apart).groups) == 2


def test_a_level_that_the_device_has_not_is_refused_by_name() -> None:
    with pytest.raises(BadOption, match="no such level"):
        weld(branches(), "gain", connect=(("v1", "L9"),))


def test_a_policy_that_is_not_there_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadOption, match="gain, two_step, shipped"):
        Options(policy="fastest")


@pytest.mark.parametrize("policy", ["two_step", "shipped"])
def test_equal_groups_are_searched_once(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.welder import tune_merges as tune

    weld(branches(), policy)
    monkeypatch.setattr(tune, "_run_search", lambda *_: pytest.fail("searched again"))
    renamed = branches()
    weld(replace(renamed, name="another"), policy)


def test_other_readers_are_named_with_the_change_that_would_help() -> None:
    sketch = Sketch((64, 64))
    value = sketch.op("MatMul", sketch.params[0], sketch.weights(64, 64), shape=(64, 64))
    one = sketch.op("Relu", value, shape=(64, 64))
    two = sketch.op("Tanh", value, shape=(64, 64))
    graph = graph_of(weld(kernels_of(sketch.program((one, two))), "gain"))
    found = [s.why for g in graph.groups for s in g.steps if s.why is not None]
    whys = [w for w in found if w.condition == "readers"]
    assert {(w.value, w.limit) for w in whys} == {(1, 0)}
    assert {w.change for w in whys} == {f"join {n} too" for n in ("v1", "v2")}


def test_a_group_is_normal_form_so_that_roller_tiles_what_was_priced() -> None:
    for policy in POLICIES:
        for binding in weld(branches(), policy).kernel_calls:
            assert isinstance(binding.expr, KernelCall)
            assert normalise(binding.expr.kernel) == binding.expr.kernel


def test_a_tile_that_has_no_room_says_how_much_would_fit() -> None:
    """Rows of a softmax that no private cache holds, after a product."""
    wide = 1 << 20
    sketch = Sketch((8, 4))
    product = sketch.op("MatMul", sketch.params[0], sketch.weights(4, wide), shape=(8, wide))
    soft = sketch.op("Softmax", product, shape=(8, wide), attrs=(("axis", -1),))
    graph = graph_of(weld(kernels_of(sketch.program((soft,))), "two_step"))
    found = [s.why for g in graph.groups for s in g.steps if s.why is not None]
    (why,) = (w for w in found if w.condition == "capacity")
    assert why.value > why.limit == DEVICE.level("L2").capacity_bytes
    assert why.change.endswith("of the rows would fit")
    assert why.words == f"{why.text}: {why.change}"


@pytest.mark.parametrize("name", ["v100", "ipu"])
@pytest.mark.parametrize("policy", POLICIES)
def test_values_are_handed_over_in_memories_that_the_device_has(policy: str, name: str) -> None:
    device = data_sheet(name)
    known = {m.name for m in memories(device)} | {m.name for m in device.levels if m.shared}
    for before in (branches(), product_and_softmax(96)):
        assert {e.level for e in graph_of(weld(before, policy, device)).edges} <= known


def test_a_value_is_put_in_shared_memory_by_hand() -> None:
    before = product_and_softmax(96)
    connect = ((before.kernel_calls[0].var.name, "shared"),)
    (group,) = graph_of(weld(before, "gain", V100, connect=connect)).groups
    assert len(group.members) == len(before.kernel_calls)
    with pytest.raises(BadOption, match="v100 has no such level"):
        weld(before, "gain", V100, connect=((before.kernel_calls[0].var.name, "L9"),))


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("value", ["nosuch", "", "V1", "x"])
def test_a_value_that_no_kernel_makes_cannot_be_connected(value: str, enabled: bool) -> None:
    with pytest.raises(BadOption, match=f"no kernel makes a value named '{value}'"):
        weld(branches(), "gain", enabled=enabled, connect=((value, "L2"),))
