"""Memory under every policy: sums, curves, storages with their proofs, bounds."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import explorer
from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan, StoragePlacement
from explorer.memory.rows import memory_curve
from explorer.views.memory import memory_rows
from tests.widgets import made_by_hand as hand
from tests.widgets.drawn_geometry import outside, problems
from widgets.draw.table import sentence_text, size_text
from widgets.memory import memory_plan, memory_policies
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
    arena = memory_rows(compiled.memory(SIZES), {})
    figure = memory_policies.figure(rows, ("batch", "seq"))
    said = "".join(ElementTree.fromstring(figure.text("light")).itertext())
    words = memory_policies.table(rows).text(limit=1000)
    for policy in rows.policies:
        assert f">{policy.name}</text>" in figure.body and f"{policy.bytes:,}" in words
        assert policy.note in said and policy.formula in said
    assert 'data-sym="batch"' in figure.body and "seq <= 64" in said
    shared = next(t for s in rows.storages for t in s.turns if t.taken == "reused")
    drawn = memory_plan.figure(arena, rows, (1012, 600), shared.ops[0], ("batch", "seq"))
    assert f"reuse by size: {shared.taken}" in drawn.body and 'data-sym="batch"' in drawn.body
    assert shared.reason in memory_plan.table(arena, rows).text(limit=1000)


def test_no_policy_takes_less_than_what_lives_at_once(
    compiled: explorer.Compilation, rows: PolicyRows
) -> None:
    at = dict.fromkeys(range(1000), 0)
    for b in compiled.memory(SIZES).buffers:
        for call in range(b.first, b.last + 1):
            at[call] += 0 if b.alias_of else b.bytes
    assert rows.least == max(at.values()) > 0
    live = memory_rows(compiled.memory(SIZES), {}).live
    assert live == tuple(at[n] for n in range(len(live)))
    assert all(p.bytes is None or p.bytes >= rows.least for p in rows.policies)
    used = next(p for p in rows.policies if p.used)
    said = memory_policies.caption(rows)
    assert said.startswith(f"{size_text(rows.least)} live at once; {used.name} is in use")


def test_where_no_symbol_is_bounded_it_says_whose_bound_is_lacking() -> None:
    storages = MemoryPlan((), 64, 64, "storages", planned_formula="4*n", unbounded=("n",))
    found = memory_policies.of_plans(MemoryPlan((), 64, 64), None, storages, storages)
    bounded = found.policies[-1]
    assert bounded.bytes is None and bounded.note == "no upper bound is known of n"
    assert "not possible: no upper bound is known of n" in memory_policies.figure(found).body
    assert memory_policies.chart(found, "", "light").data[1].text[-1] == " not possible"


def test_a_storage_with_one_owner_says_why() -> None:
    row = BufferPlacement("state", 4, 0, 0, 3, "4", storage="s0", taken="kept", reason="a loop's")
    storage = StoragePlacement(
        "s0", 4, 0, "4", True, "bool", ("state",), exclusive_reason="a loop's"
    )
    plan = MemoryPlan((row,), 64, 64, "storages", (storage,), "4", "4", 64, bounds=("n <= 4",))
    found = memory_policies.of_plans(plan, None, plan, plan)
    assert found.storages[0].exclusive_reason == "a loop's"
    assert [p.note.startswith("in use") for p in found.policies] == [False, False, True]
    state = replace(row, origin=frozenset({"state"}))
    plan = replace(plan, buffers=(state,))
    body = memory_plan.figure(memory_rows(plan, {}), found, (1012, 600), "state").body
    assert "kept s0; a loop" in body
    assert "the same in every binding" in memory_policies.figure(found).body


def test_a_compilation_without_a_choice_of_policies_shows_its_own() -> None:
    c = hand.HandMade()
    rows = memory_policies.data(c, {"batch": 2}, c.memory({"batch": 2}))
    assert [p.name for p in rows.policies] == ["no sharing", "packed"] and not rows.storages


def test_the_sentences_are_of_the_rows_and_each_box_lies_where_its_bytes_do(
    compiled: explorer.Compilation,
) -> None:
    rows = memory_rows(compiled.memory(SIZES), {})
    arena, peak, most = map(sentence_text, memory_plan.see(rows))
    assert f"{size_text(rows.planned_bytes)}, {rows.planned_bytes / rows.naive_bytes:.0%}" in arena
    alive = [b for b in rows.buffers if b.first <= rows.peak <= b.last]
    assert f"{len(alive)} values live, {size_text(sum(b.bytes for b in alive))}." in peak
    large = max(rows.buffers, key=lambda b: b.bytes)
    taken = range(large.offset, large.offset + large.bytes)
    low = [b for b in rows.buffers if b.offset in taken or large.offset in _bytes_of(b)]
    assert f"{size_text(large.bytes)}, and shares its bytes with {len(low) - 1} other" in most
    body = memory_plan.draw_map(rows, (), "", (1900, 1000)).body
    assert body.count('data-k="value alive') == len(alive)


def _bytes_of(b: BufferPlacement) -> range:
    return range(b.offset, b.offset + b.bytes)


def test_a_value_that_is_written_in_place_takes_its_bytes_once() -> None:
    old = BufferPlacement("x", 64, 0, 0, 1, "64", storage="s0", taken="fresh")
    new = BufferPlacement("y", 64, 0, 1, 2, "64", storage="s0", taken="in place")
    rows = memory_rows(MemoryPlan((old, new), 64, 128, "storages"), {})
    assert rows.live == (64, 64, 64) and [b.name for b in rows.alive(1)] == ["x"]


def test_an_empty_plan_and_thousands_of_values_are_drawn() -> None:
    empty = memory_rows(MemoryPlan((), 0, 0), {})
    assert not problems(memory_plan.draw_map(empty, (), "", (1012, 600)))
    many = tuple(BufferPlacement(f"v{n}", 64, 64 * (n % 50), n, n + 40) for n in range(2000))
    figure = memory_plan.draw_map(
        memory_rows(MemoryPlan(many, 3200, 128000), {}), (), "", (1012, 600)
    )
    assert not outside(figure) and len(figure.body) < 2_000_000
