"""What must hold of every wall, whatever the policy."""

import time
import tracemalloc

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.errors import BadOption, BadPolicy
from explorer.rammer import (
    POLICIES,
    Facts,
    Options,
    Placement,
    ROperator,
    Share,
    VDevice,
    schedule,
    simulate,
)
from tests.rammer.walls import facts, happens_before, position, rich_facts

OPTIONS = st.builds(
    Options,
    policy=st.sampled_from(sorted(POLICIES)),
    brick_tasks=st.sampled_from([0, 1, 2]),
    bricks=st.sampled_from([1, 8]),
)


@given(rich_facts(), OPTIONS)
def test_bricks_and_gaps_fill_the_wall(facts, options):
    wall = schedule(facts, options).wall
    for unit in range(wall.units):
        parts = [(p.start_us, p.end_us) for p in (*wall.bricks, *wall.gaps) if p.unit == unit]
        now = 0.0
        for start, end in sorted(parts):
            assert start == pytest.approx(now, abs=1e-9)
            now = end
        assert now == pytest.approx(wall.total_us)


@given(facts(), OPTIONS)
def test_the_waits_suffice_and_none_is_needless(facts, options):
    for program in schedule(facts, options).programs:
        graph = happens_before(program)
        assert nx.is_directed_acyclic_graph(graph)
        runs = {node: position(facts, program, data["run"]) for node, data in graph.nodes.items()}
        reach = {node: nx.descendants(graph, node) for node in graph}
        needed = {
            (a, b)
            for a, p in runs.items()
            for b, q in runs.items()
            if p in facts.operators[q].reads
        }
        assert all(b in reach[a] for a, b in needed)
        for a, b in [e for e in graph.edges if e[0][0] != e[1][0]]:
            less = graph.copy()
            less.remove_edge(a, b)
            assert b not in nx.descendants(less, a), "another wait implies this one"


@given(facts(), OPTIONS)
def test_the_order_that_is_promised_is_the_order_that_the_waits_make(facts, options):
    found = schedule(facts, options)
    graphs = [happens_before(p) for p in found.programs]
    home = {}
    for number, (program, graph) in enumerate(zip(found.programs, graphs)):
        for node, data in graph.nodes.items():
            home.setdefault(position(facts, program, data["run"]), (number, []))[1].append(node)
    for b in range(len(facts.operators)):
        promised = found.order.before(b)
        for a in range(len(facts.operators)):
            (pa, nodes_a), (pb, nodes_b) = home[a], home[b]
            real = pa < pb or (
                pa == pb
                and all(y in nx.descendants(graphs[pa], x) for x in nodes_a for y in nodes_b)
            )
            assert bool(promised[a]) == real


@given(facts())
def test_op_by_op_launches_once_for_each_operator(facts):
    assert len(schedule(facts, Options(policy="op-by-op")).programs) == len(facts.operators)


def test_an_odd_number_of_tasks_shows_as_imbalance():
    wall = schedule(Facts((ROperator("a", 3, 2.0),), VDevice(2)), Options()).wall
    assert [(g.unit, g.start_us, g.end_us, g.cause) for g in wall.gaps] == [
        (1, 2.0, 4.0, "imbalance")
    ]


def test_both_units_finish_together_though_they_start_apart():
    facts = Facts((ROperator("a", 1, 4.0), ROperator("b", 10, 1.0)), VDevice(2))
    wall = schedule(facts, Options(bricks=1)).wall
    assert wall.total_us == 7.0 and not wall.gaps


def test_a_chain_of_single_tasks_stays_on_one_unit_and_waits_for_nobody():
    operators = tuple(ROperator(f"op{n}", 1, 1.0, (n - 1,) if n else ()) for n in range(20))
    found = schedule(Facts(operators, VDevice(4, barrier_us=0.5)), Options())
    assert found.wall.total_us == 20.0 and len({b.unit for b in found.wall.bricks}) == 1


def test_a_policy_may_be_any_function():
    def backwards(facts: Facts) -> Placement:
        last = facts.device.units - 1
        return Placement(
            (tuple(Share(n, last, 0, o.tasks) for n, o in enumerate(facts.operators)),)
        )

    facts = Facts((ROperator("a", 2, 1.0), ROperator("b", 2, 1.0, (0,))), VDevice(2))
    wall = schedule(facts, Options(policy=backwards)).wall
    assert {b.unit for b in wall.bricks} == {1} and wall.policy == "backwards"


A, B = ROperator("a", 2, 1.0), ROperator("b", 1, 1.0, (0,))


@pytest.mark.parametrize(
    "shares, sentence",
    [
        ([(0, 0, 0, 1), (1, 0, 0, 1)], "placed b before a, which it reads"),
        ([(1, 0, 0, 1), (0, 0, 0, 2)], "placed b before a, which it reads"),
        ([(0, 0, 0, 2)], "placed 0 of the 1 tasks of b"),
        ([(0, 0, 0, 2), (0, 1, 1, 2), (1, 0, 0, 1)], "each task placed once"),
        ([(0, 0, 0, 3)], "impossible share"),
        ([(0, 7, 0, 2)], "impossible share"),
    ],
)
def test_a_policy_that_breaks_a_rule_is_told_which(shares, sentence):
    def policy(facts: Facts) -> Placement:
        return Placement((tuple(Share(*s) for s in shares),))

    with pytest.raises(BadPolicy, match=sentence):
        schedule(Facts((A, B), VDevice(2)), Options(policy=policy))


def test_a_policy_that_returns_something_else_is_told_so():
    with pytest.raises(BadPolicy, match="must return a Placement"):
        schedule(Facts((A, B), VDevice(2)), Options(policy=lambda facts: [1]))


@pytest.mark.parametrize("bad", [{"policy": "best"}, {"threads": -1}, {"bricks": 0}])
def test_an_option_out_of_its_range_is_refused(bad):
    with pytest.raises(BadOption):
        Options(**bad)


def test_the_same_program_can_be_looked_at_on_another_device():
    facts = Facts(tuple(ROperator(f"op{n}", 8, 1.0) for n in range(4)), VDevice(8, 0.1))
    found = schedule(facts, Options())
    slow = simulate(found.programs, facts.operators, VDevice(8, 5.0, 10.0))
    assert slow.kind == "simulated" and slow.total_us >= found.wall.total_us + 10.0


def test_nothing_to_run_is_an_empty_wall():
    found = schedule(Facts((), VDevice(2, 1.0, 1.0)), Options())
    assert not found.programs and found.wall.total_us == 0.0 and found.wall.busy == 0.0


@pytest.mark.exhaustive
def test_time_to_schedule_grows_with_the_number_of_calls_and_not_with_its_square():
    def seconds(calls: int) -> float:
        operators = tuple(
            ROperator(f"op{n}", 1 + n % 40, 5.0, tuple({max(0, n - 1), n // 2}) if n else ())
            for n in range(calls)
        )
        begin = time.process_time()
        schedule(Facts(operators, VDevice(2, 0.3, 2.0)), Options())
        return time.process_time() - begin

    small = min(seconds(200) for _ in range(5))
    assert min(seconds(2000) for _ in range(3)) < 40 * small


def test_units_that_have_nothing_to_do_take_no_room():
    """What each unit knows of each other one is kept of those that run: a sheet may have 65,536."""
    few = Facts((ROperator("a", 8, 10.0), ROperator("b", 8, 10.0, (0,))), VDevice(4000))
    tracemalloc.start()
    found = schedule(few, Options())
    programs = found.programs
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(bool(row) for row in programs[0].units) <= 16
    assert most < 16 << 20  # bytes; of all with all they would be 128 MB
