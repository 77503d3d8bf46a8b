"""Memory under every policy: sums, curves, storages with their proofs, bounds."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import explorer
from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan, StoragePlacement
from explorer.relax.memory.curve import memory_curve
from tests.widgets import made_by_hand as hand
from widgets.charts import peaks
from widgets.draw.table import size_text
from widgets.memory import memory_picture, memory_plan, memory_policies, peaks_picture
from widgets.memory.memory_policies import PolicyRows

DATA = Path(__file__).parents[1] / "data"
SIZES = {"batch": 2, "seq": 24}


@pytest.fixture(scope="module")
def compiled() -> explorer.Compilation:
    model = explorer.load(DATA / "tiny_llama.onnx", bounds={"seq": (1, 64)})
    return explorer.compile(model, until="planned")


@pytest.fixture(scope="module")
def rows(compiled: explorer.Compilation) -> PolicyRows:
    return memory_policies.data(compiled, SIZES, compiled.memory(SIZES))


@pytest.mark.exhaustive
def test_every_policy_says_what_its_own_plan_says(
    compiled: explorer.Compilation, rows: PolicyRows
) -> None:
    found = {p.name: p for p in rows.policies}
    assert list(found) == ["no sharing", "packed", "reuse by size", "worst case"]
    for name, bounds in (("reuse by size", False), ("worst case", True)):
        options = replace(compiled.options.memory, policy="storages", bounds=bounds)
        plan = compiled.with_options(memory=options).memory(SIZES)
        assert (found[name].bytes, found[name].formula) == (
            plan.planned_bytes,
            plan.planned_formula,
        )
        assert found[name].curve == memory_curve(plan).planned
    arena = compiled.memory(SIZES)
    assert found["packed"].bytes == arena.planned_bytes and found["packed"].note.startswith(
        "in use"
    )
    assert found["no sharing"].bytes == arena.naive_bytes > found["reuse by size"].bytes


def test_bounds_that_were_used_and_that_are_lacking_are_named(rows: PolicyRows) -> None:
    assert rows.used == ("seq <= 64",) and rows.lacking == ("batch",)
    bounded = rows.policies[-1]
    assert "seq" not in bounded.formula and "batch has no bound" in bounded.note


def test_each_value_that_takes_a_turn_has_its_proof(rows: PolicyRows) -> None:
    again = [t for s in rows.storages for t in s.turns if t.taken == "reused"]
    assert again and all("in every binding" in t.reason or "fit" in t.reason for t in again)
    for storage in rows.storages:
        ends = [(t.first, t.last) for t in storage.turns]
        assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_each_policy_is_told_with_its_formula_and_each_storage_with_its_proof(
    compiled: explorer.Compilation, rows: PolicyRows
) -> None:
    arena = memory_plan.data(compiled.memory(SIZES), {})
    figure = peaks_picture.figure(rows, ("batch", "seq"))
    said = "".join(ElementTree.fromstring(figure.text("light")).itertext())
    words = peaks_picture.table(rows).text(limit=1000)
    for policy in rows.policies:
        assert f">{policy.name}</text>" in figure.body and f"{policy.bytes:,}" in words
        assert policy.note in said and policy.formula in said
    assert 'data-sym="batch"' in figure.body and "seq <= 64" in said
    shared = next(t for s in rows.storages for t in s.turns if t.taken == "reused")
    drawn = memory_picture.figure(arena, rows, ("batch", "seq"), shared.ops[0])
    assert shared.name in drawn.body and 'data-sym="batch"' in drawn.body
    assert shared.reason in memory_picture.table(arena, rows).text(limit=1000)


def test_no_policy_takes_less_than_what_lives_at_once(
    compiled: explorer.Compilation, rows: PolicyRows
) -> None:
    at = dict.fromkeys(range(1000), 0)
    for b in compiled.memory(SIZES).buffers:
        for call in range(b.first, b.last + 1):
            at[call] += 0 if b.alias_of else b.bytes
    assert rows.least == max(at.values()) > 0
    live = memory_plan.data(compiled.memory(SIZES), {}).live
    assert live == tuple(at[n] for n in range(len(live)))
    assert all(p.bytes is None or p.bytes >= rows.least for p in rows.policies)
    used = next(p for p in rows.policies if p.used)
    said = peaks_picture.caption(rows)
    assert said.startswith(f"{size_text(rows.least)} live at once; {used.name} is in use")


def test_where_no_symbol_is_bounded_it_says_whose_bound_is_lacking() -> None:
    storages = MemoryPlan((), 64, 64, "storages", planned_formula="4*n", unbounded=("n",))
    found = memory_policies.of_plans(MemoryPlan((), 64, 64), None, storages, storages)
    bounded = found.policies[-1]
    assert bounded.bytes is None and bounded.note == "no upper bound is known of n"
    assert "not possible: no upper bound is known of n" in peaks_picture.figure(found).body
    assert peaks.chart(found, "", "light").data[1].text[-1] == " not possible"


def test_a_storage_with_one_owner_says_why() -> None:
    row = BufferPlacement("state", 4, 0, 0, 3, "4", storage="s0", taken="kept", reason="a loop's")
    storage = StoragePlacement("s0", 4, 0, "4", True, "bool", ("state",), kept="a loop's")
    plan = MemoryPlan((row,), 64, 64, "storages", (storage,), "4", "4", 64, bounds=("n <= 4",))
    found = memory_policies.of_plans(plan, None, plan, plan)
    assert found.storages[0].kept == "a loop's"
    assert [p.note.startswith("in use") for p in found.policies] == [False, False, True]
    body = memory_picture.figure(memory_plan.data(plan, {}), found).body
    assert "kept: a loop" in body and "the same in every binding" in body
    assert "the same in every binding" in peaks_picture.figure(found).body


def test_a_compilation_without_a_choice_of_policies_shows_its_own() -> None:
    c = hand.HandMade()
    rows = memory_policies.data(c, {"batch": 2}, c.memory({"batch": 2}))
    assert [p.name for p in rows.policies] == ["no sharing", "packed"] and not rows.storages
