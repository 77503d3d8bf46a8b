"""Rammer on hardware that is not here: resident blocks, times beside others, walls, by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.compiler.pipeline import compile as compile_model
from explorer.cost.thread_blocks import ThreadBlocks
from explorer.devices.catalogue import device
from explorer.ir.kernels.normal import normalise
from explorer.rammer import POLICIES, Facts, Options, ROperator, VDevice, schedule, simulate
from explorer.rammer.device_sheet_kernels import (
    GridOperator,
    choose_pair,
    device_facts,
    virtual_devices,
)
from explorer.rammer.fast_simulate import fast_simulate, is_plain
from explorer.rammer.wall_statistics import wall_statistics
from explorer.roller.blocks.gpu_candidates import grids
from explorer.tuning.compare import compare_policies
from explorer.welder import Options as WelderOptions
from tests.examples import examples
from tests.rammer.walls import facts as random_facts
from tests.roller.operators import matmul
from tests.tuning.models import mlp

V100 = device("v100")
PAPERS = replace(V100, phase_ns=0.0)  # kernels written by hand: what ours take between phases
MOST_UNITS = 1216 * 6  # every thread of an IPU
ANY_POLICY = st.sampled_from(sorted(POLICIES))


def blocks(grid=16, threads=64, registers=2048, shared=1024, alone=2.0, compute=0.5, memory=0.0):
    return ThreadBlocks("", grid, threads, registers, shared, alone, compute, memory)


@pytest.mark.parametrize(
    "block, held",
    [
        (blocks(threads=256, registers=256 * 64, shared=8192), 4),  # 65,536 registers
        (blocks(threads=1024, registers=1024, shared=1024), 2),  # 2,048 threads
        (blocks(threads=64, registers=2048, shared=40_000), 2),  # 98,304 bytes
        (blocks(threads=32, registers=32, shared=0), 32),  # resident blocks
        (blocks(threads=512, registers=512 * 200, shared=0), 1),  # too many: one at a time
    ],
)
def test_the_scarcest_resource_of_a_multiprocessor_counts_its_blocks(block, held):
    assert block.resident(V100) == held


def test_a_block_waits_alone_and_shares_with_others():
    block = blocks(alone=2.0, compute=0.5, memory=0.01)
    assert block.task_us(beside=1, flying=80) == 2.0
    assert block.task_us(beside=8, flying=80) == 4.0
    assert block.task_us(beside=8, flying=640) == pytest.approx(6.4)
    assert dict(block.terms(8, 640)) == pytest.approx(
        {"alone": 2, "compute": 4, "memory": 6.4, "dispatch": 0}
    )
    late = replace(block, dispatch_us=0.5)
    assert late.task_us(beside=32, flying=80) == 16.0


def test_blocks_spread_over_multiprocessors_before_they_share_one():
    block = blocks()
    assert block.beside(V100, 16, most=4) == (1, 16)
    assert block.beside(V100, 81, most=4) == (2, 81)
    assert block.beside(V100, 10_000, most=4) == (4, 320)


def test_the_papers_product_of_one_row_takes_what_it_measured(monkeypatch):
    """LSTM, h256: 16 rTasks take 7.46 us, the fastest rKernel 4.28 us (Rammer, section 5.3); its
    kernels are Roller's, of which no threads share a sum.
    """
    monkeypatch.setattr(
        "explorer.roller.blocks.gpu_candidates._BlockSearch._share_sums", lambda *_: None
    )
    pair = choose_pair(grids(normalise(matmul(1, 1024, 256)), PAPERS), PAPERS)
    assert pair.efficient.grid == 16
    assert pair.efficient.whole_us(PAPERS) == pytest.approx(7.46, rel=0.2)
    assert pair.fastest.whole_us(PAPERS) == pytest.approx(4.28, rel=0.2)
    assert pair.fastest.area_us(PAPERS) > pair.efficient.area_us(PAPERS)


def test_units_are_multiprocessors_by_what_the_most_demanding_grid_leaves_room_for():
    run = [
        GridOperator("a", (blocks(grid=800, shared=1024),)),
        GridOperator("b", (blocks(grid=8, shared=30_000),)),
    ]
    found = virtual_devices([run], V100)[0]
    assert (found.units, found.per_core) == (240, 3)
    assert (found.barrier_us, found.launch_us) == (V100.barrier_us, V100.launch_us)


def test_no_grid_is_offered_that_leaves_all_others_fewer_places():
    """The efficient grid of "b" takes the registers of a whole multiprocessor."""
    lone = blocks(grid=4, registers=60_000, alone=20.0)
    run = [
        GridOperator("a", (blocks(grid=800, registers=16_384),)),
        GridOperator("b", (blocks(grid=400, registers=16_384, alone=1.0), lone)),
    ]
    found = virtual_devices([run], V100)[0]
    assert choose_pair(run[1].grids, V100).efficient == lone
    assert (found.units, found.per_core) == (320, 4)
    assert [len(o.kernels) for o in device_facts(run, V100, found).operators] == [1, 1]
    alone = virtual_devices([run], V100, units=V100.units)[0]
    assert [len(o.kernels) for o in device_facts(run, V100, alone).operators] == [1, 2]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    ["tiny_resnet18", pytest.param("tiny_mobilenetv2", marks=pytest.mark.exhaustive)],
)
def test_faster_cores_gain_more_by_welding(name):
    """An H100 has 3.4 times the arithmetic of an A100 and 2.2 times the memory: the model takes
    less time there, and memory that is left alone is worth more.
    """
    model = explorer.load(Path(__file__).parent.parent / "data" / f"{name}.onnx")
    times = {}
    for gpu in ("a100", "h100"):
        for enabled in (False, True):
            options = explorer.Options(welder=WelderOptions(enabled=enabled))
            c = compile_model(model, gpu, options, until="planned")
            times[gpu, enabled] = c.planned_wall().total_us
    assert times["h100", False] < times["a100", False]
    assert times["h100", True] < times["a100", True]
    gain = {gpu: times[gpu, False] / times[gpu, True] for gpu in ("a100", "h100")}
    assert gain["h100"] > gain["a100"] > 1.0


def test_there_are_no_more_units_than_the_widest_wave_fills():
    narrow = [GridOperator("a", (blocks(grid=16),)), GridOperator("b", (blocks(grid=16),), (0,))]
    wide = [replace(o, reads=()) for o in (*narrow, *narrow, *narrow)]
    assert virtual_devices([narrow], V100)[0].units == 80
    assert virtual_devices([wide], V100)[0].units == 160


def test_operators_of_one_wave_share_what_one_alone_has_to_itself():
    grid = blocks(grid=80, alone=1.0, compute=1.0)
    run = [GridOperator(name, (grid,)) for name in "ab"]
    units = virtual_devices([run], V100)[0]
    assert units.per_core == 2
    assert [o.task_us for o in device_facts(run, V100, units).operators] == [2.0, 2.0]
    assert [o.task_us for o in device_facts(run, V100, units, alone=True).operators] == [1.0, 1.0]


def test_an_operator_without_elements_has_no_tasks():
    run = [GridOperator("empty", ()), GridOperator("b", (blocks(grid=2),), (0,))]
    units = virtual_devices([run], V100)[0]
    facts = device_facts(run, V100, units)
    assert facts.operators[0].tasks == 0
    assert schedule(facts, Options()).wall.total_us > 0


def test_two_layers_leave_units_idle_that_one_schedule_fills():
    """A(2 x 3), B(4 x 1) on 4 units: op-by-op 3 + 1, 10 of 16 filled; together 10 of 12."""
    facts = Facts((ROperator("A", 2, 3.0), ROperator("B", 4, 1.0)), VDevice(4, per_core=2))
    apart = wall_statistics(schedule(facts, Options(policy="op-by-op")).wall, 2)
    assert (apart.total_us, apart.launches, apart.cores) == (4.0, 2, 2)
    assert apart.busy == pytest.approx(10 / 16)
    assert apart.core_busy == pytest.approx(1.0)  # two bricks at a time on two cores of two
    together = wall_statistics(schedule(facts, Options()).wall, 2)
    assert (together.total_us, together.launches) == (3.0, 1)
    assert together.busy == pytest.approx(10 / 12)


def test_time_between_kernels_is_launches_and_the_rest_is_kernels():
    chain = (ROperator("A", 2, 3.0), ROperator("B", 1, 1.0, (0,)))
    facts = Facts(chain, VDevice(2, barrier_us=0.5, launch_us=1.0))
    found = wall_statistics(schedule(facts, Options(policy="op-by-op")).wall)
    assert found.overhead_us == pytest.approx(2.0)
    assert found.kernel_us == pytest.approx(found.total_us - 2.0)
    filled = found.busy * found.units * found.total_us
    assert filled + sum(us for _, us in found.idle) == pytest.approx(2 * found.total_us)


@given(random_facts(units=st.integers(1, 9)), ANY_POLICY, st.integers(0, 2))
def test_a_wall_laid_share_by_share_is_the_one_of_its_instructions(facts, policy, tasks):
    assert is_plain(facts)
    found = schedule(facts, Options(policy=policy, brick_tasks=tasks))
    names = ("planned", policy)
    instructed = simulate(found.programs, facts.operators, facts.device, *names)
    laid = fast_simulate(facts, found.placement, found.bricks, *names)
    assert laid.total_us == pytest.approx(instructed.total_us)
    assert laid.cuts_us == pytest.approx(instructed.cuts_us)
    for ours, theirs in ((laid.bricks, instructed.bricks), (laid.gaps, instructed.gaps)):
        assert rows(ours) == rows(theirs)


def rows(parts):
    """Bricks or gaps by unit and time, rounded; of two that end at once either was waited for."""
    return sorted(
        (
            p.unit,
            round(p.start_us, 6),
            round(p.end_us, 6),
            p.cause.replace("imbalance", "dependency"),
        )
        if hasattr(p, "cause")
        else (p.unit, round(p.start_us, 6), round(p.end_us, 6), p.call, p.first, p.last, p.program)
        for p in parts
    )


GRIDS = st.builds(
    blocks,
    grid=st.integers(1, 200),
    threads=st.sampled_from([32, 256, 512]),
    registers=st.sampled_from([1024, 16384, 40_000]),
    shared=st.sampled_from([0, 8192, 48_000]),
    alone=st.sampled_from([0.5, 2.0, 20.0]),
    compute=st.sampled_from([0.0, 0.4, 5.0]),
    memory=st.sampled_from([0.0, 0.01]),
)


@st.composite
def runs(draw):
    """A few operators, each with one or two grids, that read some before them."""
    found = []
    for n in range(draw(st.integers(1, 6))):
        reads = draw(st.sets(st.integers(0, n - 1), max_size=2)) if n else set()
        found.append(
            GridOperator(
                f"op{n}", tuple(draw(st.lists(GRIDS, min_size=1, max_size=2))), tuple(sorted(reads))
            )
        )
    return found


@given(runs(), st.sampled_from(["v100", "mi50", "ipu", "h100"]), ANY_POLICY)
def test_bricks_and_gaps_fill_the_wall_of_any_sheet(run, name, policy):
    sheet, alone = device(name), policy == "op-by-op"
    facts = device_facts(run, sheet, virtual_devices([run], sheet, alone)[0], alone)
    found = wall_statistics(schedule(facts, Options(policy=policy)).wall, facts.device.per_core)
    area = found.units * found.total_us
    idle = sum(us for _, us in found.idle)
    assert found.busy * area + idle == pytest.approx(area, rel=1e-6)
    assert 0.0 < found.busy <= found.core_busy + 1e-9 <= 1.0 + 2e-9


@given(runs())
def test_one_unit_takes_all_tasks_after_each_other(run):
    facts = device_facts(run, V100, virtual_devices([run], V100, units=1)[0])
    assert facts.device.units == facts.device.per_core == 1
    for policy in ("wavefront", "critical-path"):
        found = schedule(facts, Options(policy=policy))
        work = sum(b.end_us - b.start_us for b in found.wall.bricks)
        launches = len(found.programs) * V100.launch_us
        assert found.wall.total_us == pytest.approx(work + launches)


@given(runs())
def test_units_without_end_take_the_longest_way(run):
    free = replace(V100, barrier_us=0.0, launch_us=0.0)
    single = [replace(o, grids=(replace(o.grids[0], grid=min(20, o.grids[0].grid)),)) for o in run]
    facts = device_facts(single, free, virtual_devices([single], free, units=1000)[0])
    way = [0.0] * len(run)
    for n, o in enumerate(facts.operators):
        way[n] = o.task_us + max((way[r] for r in o.reads), default=0.0)
    for policy in ("wavefront", "critical-path"):
        assert schedule(facts, Options(policy=policy)).wall.total_us == pytest.approx(max(way))


@settings(max_examples=examples(25))
@given(st.one_of(st.integers(1, 200), st.sampled_from([320, 1216, MOST_UNITS])), ANY_POLICY)
def test_any_number_of_units_has_a_wall(units, policy):
    operators = (
        ROperator("a", 97, 3.0),
        ROperator("b", 3000, 0.5),
        ROperator("c", 5, 2.0, (0, 1)),
    )
    facts = Facts(operators, VDevice(units, 0.5, 1.0))
    found = wall_statistics(schedule(facts, Options(policy=policy, bricks=1)).wall)
    assert found.units == units and found.busy <= 1.0 + 1e-9
    assert found.busy * units * found.total_us == pytest.approx(sum(o.work_us for o in operators))


@pytest.mark.parametrize("name", ["v100", "ipu"])
def test_a_model_is_simulated_on_a_sheet_under_every_policy(name, tmp_path):
    c = compile_model(mlp(tmp_path), target=name, until="planned")
    sides = compare_policies(c)
    assert [s.policy for s in sides] == list(POLICIES)
    base = next(s for s in sides if s.policy == "op-by-op")
    for s in sides:
        assert s.wall.kind == "simulated" and s.wall.device == name
        assert s.statistics.units % device(name).units == 0
        assert s.statistics.total_us <= base.statistics.total_us * (1 + 1e-9)
        assert s.statistics.launches <= base.statistics.launches
    few = c.with_options(rammer=Options(threads=100)).planned_wall()
    assert few.units == 100 and few.total_us >= c.planned_wall().total_us * (1 - 1e-9)
    rammed = next(s for s in sides if s.policy == "wavefront")
    assert rammed.weighed and rammed.statistics.overhead_us <= base.statistics.overhead_us
