"""Bytes by position: what a plan takes lies between what is needed and what nobody shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan, StoragePlacement
from explorer.ir.dims import ShapeEnv
from explorer.ir.types import Tensor
from explorer.memory.plan import Options
from explorer.memory.rows import memory_curve
from explorer.memory.storages import Allocation, ProgramPosition, plan_storages
from tests.memory.storage_programs import chain, kernels_of, planner


def row(name, size, offset, first, last, **more):
    return BufferPlacement(name, size, offset, first, last, **more)


def test_the_curve_of_an_arena_is_its_highest_address_so_far():
    rows = (row("a", 64, 0, 0, 1), row("b", 10, 64, 1, 2), row("c", 64, 0, 2, 3))
    view = row("v", 32, 0, 0, 1, alias_of="a")
    curve = memory_curve(MemoryPlan((*rows, view), 128, 192))
    assert curve.naive == (64, 74, 138, 138)
    assert curve.planned == (64, 74, 74, 74)
    assert curve.live == (64, 74, 74, 64)
    assert curve.peaks == (138, 74, 74)


def test_storages_are_taken_whole_when_they_are_first_needed():
    rows = (
        row("a", 32, 0, 0, 1, storage="s0"),
        row("b", 8, 64, 1, 2, storage="s1"),
        row("c", 40, 0, 2, 3, storage="s0"),
        row("d", 40, 0, 3, 4, storage="s0", taken="in place"),
    )
    storages = (
        StoragePlacement("s0", 40, 0, "40", True, "float32", ("a", "c", "d")),
        StoragePlacement("s1", 8, 64, "8", True, "float32", ("b",)),
    )
    curve = memory_curve(MemoryPlan(rows, 128, 120, "storages", storages))
    assert curve.planned == (40, 48, 48, 48, 48)
    assert curve.naive == (32, 40, 80, 120, 120) and curve.live == (32, 40, 48, 40, 40)


def test_nothing_at_all_has_an_empty_curve():
    assert memory_curve(MemoryPlan((), 0, 0)).peaks == (0, 0, 0)


@pytest.mark.parametrize("policy", ["arena", "storages"])
def test_the_curve_of_a_real_plan_ends_at_its_sums(tmp_path, policy):
    program = kernels_of(chain(tmp_path, (2, "n")))
    made = planner(program, policy=policy)
    found = made.plan({"n": 100})
    curve = memory_curve(found.memory)
    assert curve.naive[-1] == 4 * (3 * 200) + 4 * 202
    assert all(a <= b for a, b in zip(curve.live, curve.planned))
    assert max(curve.planned) <= found.memory.planned_bytes <= found.memory.naive_bytes


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=10))
def test_live_is_at_most_planned_and_planned_at_most_naive(values):
    given = [Allocation(f"a{n}", Tensor((size,), "int8")) for n, (size, _) in enumerate(values)]
    ends = [max(n, n + more) for n, (_, more) in enumerate(values)]
    steps = [
        ProgramPosition(tuple(a.name for n, a in enumerate(given) if n <= position <= ends[n]))
        for position in range(max(ends) + 1)
    ]
    plan = plan_storages(given, steps, ShapeEnv(), Options(policy="storages"))
    rows = tuple(
        row(t.name, t.bytes, 0, t.first, t.last, storage=s.name, taken=t.taken)
        for s in plan.storages
        for t in s.tokens
    )
    storages = tuple(
        StoragePlacement(s.name, s.bytes, 0, "", True, "int8", ()) for s in plan.storages
    )
    curve = memory_curve(MemoryPlan(rows, plan.planned, plan.naive, "storages", storages))
    assert curve.naive[-1] == plan.naive and curve.planned[-1] == plan.planned
    assert all(a <= b for a, b in zip(curve.live, curve.planned))
    assert curve.peaks[2] <= plan.planned <= plan.naive
