"""Live buffers never share bytes, for any schedule that Rammer makes."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.memory import plan as memory_plan
from explorer.memory.plan import (
    ALIGNMENT,
    Buffer,
    Buffers,
    PlanMemory,
    Timeline,
    place,
    rows,
    tightest_gap,
)
from explorer.memory.plan import Options as MemoryOptions
from explorer.rammer import POLICIES, Options, schedule
from tests.rammer.walls import facts, happens_before, position

POLICY = st.sampled_from(sorted(POLICIES))


def buffers_of(facts):
    """One for each operator: it writes it, and whoever reads the operator uses it."""
    readers = [[n] for n in range(len(facts.operators))]
    for n, operator in enumerate(facts.operators):
        for read in operator.reads:
            readers[read].append(n)
    return [Buffer(o.name, (n,), tuple(readers[n])) for n, o in enumerate(facts.operators)]


def plan(buffers, sizes, timeline, share=True):
    return rows(buffers, sizes, *place(buffers, sizes, timeline, share))


def planned(facts, policy, sizes, share=True):
    found = schedule(facts, Options(policy=policy))
    timeline = Timeline(found.order.program, found.order.last, found.order.ended)
    buffers = buffers_of(facts)
    return found, buffers, plan(Buffers(buffers), sizes[: len(buffers)], timeline, share)


SIZES = st.lists(st.sampled_from([0, 1, 64, 65, 640, 4096]), min_size=14, max_size=14)


@given(facts(), POLICY, SIZES)
def test_two_buffers_share_bytes_only_if_the_waits_order_their_uses(facts, policy, sizes):
    found, buffers, memory = planned(facts, policy, sizes)
    nodes, reach, launch = {}, {}, {}
    for number, program in enumerate(found.programs):
        graph = happens_before(program)
        for node, data in graph.nodes.items():
            operator = position(facts, program, data["run"])
            nodes.setdefault(operator, []).append((number, node))
            reach[number, node] = {(number, d) for d in nx.descendants(graph, node)}
            launch[operator] = number

    def over_before(a, b):
        return launch[a] < launch[b] or all(y in reach[x] for x in nodes[a] for y in nodes[b])

    def dead_before(a, b):
        return all(over_before(use, write) for use in a.uses for write in b.writes)

    found = memory.buffers
    for n, a in enumerate(found):
        for m, b in enumerate(found[:n]):
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert (
                apart or dead_before(buffers[n], buffers[m]) or dead_before(buffers[m], buffers[n])
            )


@given(facts(), POLICY, SIZES)
def test_the_arena_is_aligned_and_never_larger_than_all_buffers_together(facts, policy, sizes):
    _, buffers, memory = planned(facts, policy, sizes)
    assert memory.planned_bytes <= memory.naive_bytes
    assert memory.naive_bytes == sum(-(-r.bytes // ALIGNMENT) * ALIGNMENT for r in memory.buffers)
    assert [r.bytes for r in memory.buffers] == sizes[: len(buffers)]
    assert all(r.offset % ALIGNMENT == 0 for r in memory.buffers)
    assert all(r.offset + r.bytes <= memory.planned_bytes for r in memory.buffers)
    assert all(
        (r.first, r.last) == (min(b.uses), max(b.uses)) for r, b in zip(memory.buffers, buffers)
    )


@given(facts(), POLICY, SIZES)
def test_without_sharing_every_buffer_has_bytes_of_its_own(facts, policy, sizes):
    memory = planned(facts, policy, sizes, share=False)[2]
    assert memory.planned_bytes == memory.naive_bytes


@given(facts(), POLICY, SIZES)
def test_pairs_are_judged_alike_at_once_and_one_by_one(facts, policy, sizes):
    found, buffers, _ = planned(facts, policy, sizes)
    timeline = Timeline(found.order.program, found.order.last, found.order.ended)
    at_once = Buffers(buffers).conflicts(timeline)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_plan, "TABLE_BUFFERS", 0)
        one_by_one = Buffers(buffers).conflicts(timeline)
    for n in range(len(buffers)):
        assert np.array_equal(at_once(n), one_by_one(n)) and one_by_one(n)[n]


def in_turn(count):
    """A timeline in which one position follows the other."""
    return Timeline(np.arange(count), np.ones((count, 1), int), np.zeros((count, 1), int))


def test_a_chain_needs_two_buffers():
    chain = Buffers([Buffer(f"b{n}", (n,), (n, n + 1)) for n in range(9)])
    memory = plan(chain, [1000] * 9, in_turn(10))
    assert (memory.planned_bytes, memory.naive_bytes) == (2 * 1024, 9 * 1024)


def test_the_tightest_gap_is_taken():
    starts, ends = np.array([100, 0, 60, 300]), np.array([200, 10, 70, 310])
    assert tightest_gap(starts, ends, 30) == 70
    assert tightest_gap(starts, ends, 45) == 10
    assert tightest_gap(starts, ends, 90) == 200
    assert tightest_gap(starts, ends, 101) == 310
    assert tightest_gap(starts[:0], ends[:0], 5) == 0


def test_no_buffers_need_no_bytes():
    assert plan(Buffers([]), [], in_turn(0)).planned_bytes == 0


def test_the_pass_leaves_its_options_in_the_program():
    from explorer.ir.program import Function, Program
    from explorer.ir.stage import Stage

    after = PlanMemory(MemoryOptions(share=False))(Program((Function("main", (), (), ()),)))
    assert after.stage is Stage.PLANNED and after.decisions.memory == MemoryOptions(share=False)


def test_two_thousand_buffers_are_planned_in_a_moment():
    import time

    buffers = Buffers([Buffer(f"b{n}", (n,), (n, n + 1 + n % 7)) for n in range(2000)])
    begin = time.process_time()
    memory = plan(buffers, [64 * (1 + n % 50) for n in range(2000)], in_turn(2010))
    assert time.process_time() - begin < 2.0  # 0.1 on the machine that this was written on
    assert memory.planned_bytes < memory.naive_bytes / 50
