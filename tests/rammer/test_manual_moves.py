"""Bricks moved by hand: a legal move changes nothing but its place, an illegal one names the
dependency that it would break.
"""

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.decisions.candidate import Refusal
from explorer.rammer import Facts, Options, Placement, ROperator, Share, VDevice, schedule
from explorer.rammer.manual_moves import BrokenDependency, Move, PolicyWithMoves, apply_move
from explorer.rammer.policy import POLICIES
from tests.examples import examples
from tests.rammer.walls import facts, replay


def diamond(units=2):
    """conv → left, right → join, two tasks each."""
    names = (("conv", ()), ("left", (0,)), ("right", (0,)), ("join", (1, 2)))
    return Facts(tuple(ROperator(n, 2, 4.0, r) for n, r in names), VDevice(units, 1.0, 2.0))


PLACED = Placement(
    (tuple(Share(o, u, first, first + 1) for o in range(4) for u, first in ((0, 0), (1, 1))),)
)


def lanes(placement, launch=0):
    """Each unit's tasks in order, as (operator, task)."""
    units = sorted({s.unit for s in placement.programs[launch]})
    return {
        u: [(s.operator, t) for s in placement.programs[launch] if s.unit == u
            for t in range(s.first, s.last)]
        for u in units
    }  # fmt: skip


def test_a_brick_goes_behind_another_one_on_another_unit():
    found = apply_move(diamond(), PLACED, Move("left", 1, 2, 0, after=("right", 1)))
    assert isinstance(found, Placement)
    assert lanes(found) == {
        0: [(0, 0), (1, 0), (2, 0), (1, 1), (3, 0)],
        1: [(0, 1), (2, 1), (3, 1)],
    }


def test_a_brick_that_would_stand_before_what_it_reads_bounces():
    found = apply_move(diamond(), PLACED, Move("join", 0, 1, 0, after=("conv", 1)))
    assert isinstance(found, BrokenDependency)
    assert (found.writer, found.reader) == ("left", "join")
    assert found.words == "join reads left, and left would stand after join on unit 0"


def test_a_brick_that_would_stand_behind_its_reader_bounces():
    found = apply_move(diamond(), PLACED, Move("conv", 1, 2, 0, after=("left", 1)))
    assert isinstance(found, BrokenDependency) and (found.writer, found.reader) == ("conv", "left")
    assert "left reads conv" in found.text and "before conv on unit 0" in found.text


def test_units_that_would_wait_for_each_other_are_named():
    """b's unit runs c behind it; a stands before what reads c: neither reads the other."""
    f = Facts(
        tuple(ROperator(n, 1, 1.0, r) for n, r in (("a", ()), ("b", ()), ("c", (0,)), ("d", (2,)))),
        VDevice(2),
    )
    placed = Placement(
        ((Share(0, 0, 0, 1), Share(2, 1, 0, 1), Share(1, 1, 0, 1), Share(3, 0, 0, 1)),)
    )
    found = apply_move(f, placed, Move("a", 0, 1, 1, after=("b", 1)))
    assert isinstance(found, BrokenDependency) and (found.writer, found.reader) == ("a", "c")
    assert found.words == "c reads a, and b, which waits for c, would stand before a on unit 1"


def test_what_is_read_must_be_launched_before():
    placed = POLICIES["op-by-op"](diamond())
    one = Facts(tuple(ROperator(n, 1, 1.0, r) for n, r in (("a", ()), ("b", (0,)))), VDevice(2))
    found = apply_move(diamond(), placed, Move("conv", 0, 1, 0, launch=2))
    assert isinstance(found, Refusal) and found.condition == "launch"
    apart = Placement(((Share(0, 0, 0, 1),), (Share(1, 0, 0, 1),)))
    assert isinstance(apply_move(one, apart, Move("b", 0, 1, 1, launch=0)), Placement)
    broken = apply_move(one, apart, Move("a", 0, 1, 1, launch=1, after=("b", 1)))
    assert isinstance(broken, Refusal)


def test_a_move_that_does_not_fit_says_why():
    for move, word in (
        (Move("pool", 0, 1, 0), "no operator"),
        (Move("conv", 0, 1, 9), "2 units"),
        (Move("conv", 0, 1, 0, launch=4), "1 launches"),
        (Move("conv", 0, 7, 0), "no such task"),
        (Move("conv", 0, 1, 0, after=("pool", 1)), "no task that ends there"),
    ):
        found = apply_move(diamond(), PLACED, move)
        assert isinstance(found, Refusal) and word in found.text


def cyclic(f, placed, move):
    """Whether the units would wait for each other for ever, by a graph over single tasks."""
    graph = nx.DiGraph()
    order = {u: [] for u in range(f.device.units)}
    for s in placed.programs[0]:
        order[s.unit] += [(s.operator, t) for t in range(s.first, s.last)]
    me = next(n for n, o in enumerate(f.operators) if o.name == move.operator)
    mine = [(me, t) for t in range(move.first, move.last)]
    for tasks in order.values():
        tasks[:] = [t for t in tasks if t not in mine]
    at = 0
    if move.after:
        name, last = move.after
        other = next(n for n, o in enumerate(f.operators) if o.name == name)
        at = order[move.unit].index((other, last - 1)) + 1
    order[move.unit][at:at] = mine
    for tasks in order.values():
        nx.add_path(graph, tasks)
    for n, o in enumerate(f.operators):
        for read in o.reads:
            graph.add_edges_from(
                ((read, a), (n, b)) for a in range(f.operators[read].tasks) for b in range(o.tasks)
            )
    return not nx.is_directed_acyclic_graph(graph)


@settings(max_examples=examples(100), deadline=None)
@given(facts(units=st.integers(1, 4), most=8), st.data())
def test_a_move_is_legal_exactly_where_no_unit_waits_for_ever(f, data):
    placed = POLICIES["critical-path"](f)
    shares = placed.programs[0]
    s = data.draw(st.sampled_from(shares))
    first = data.draw(st.integers(s.first, s.last - 1))
    last = data.draw(st.integers(first + 1, s.last))
    unit = data.draw(st.integers(0, f.device.units - 1))
    ends = [
        (f.operators[o.operator].name, o.last)
        for o in shares
        if o.unit == unit and not (o.operator == s.operator and o.first < last and first < o.last)
    ]
    after = data.draw(st.sampled_from([None, *ends]))
    move = Move(f.operators[s.operator].name, first, last, unit, 0, after)
    found = apply_move(f, placed, move)
    assert isinstance(found, Refusal) == cyclic(f, placed, move)
    if isinstance(found, BrokenDependency):
        names = [o.name for o in f.operators]
        assert names.index(found.writer) in f.operators[names.index(found.reader)].reads
    if isinstance(found, Placement):
        by_hand = PolicyWithMoves("critical-path", (move,))
        made = schedule(f, Options(policy=by_hand))
        assert made.placement.weighed[-1].refused == ""
        ran = sorted((b.call, t) for b in made.wall.bricks for t in range(b.first, b.last))
        assert ran == sorted((o.name, t) for o in f.operators for t in range(o.tasks))
        assert all(replay(p, seed) is not None for p in made.programs for seed in range(3))
        there = {
            t for b in made.wall.bricks for t in range(b.first, b.last)
            if b.unit == unit and b.call == move.operator
        }  # fmt: skip
        assert there >= set(range(first, last))


def test_a_move_for_other_sizes_is_left_out_and_said_so():
    policy = PolicyWithMoves("wavefront", (Move("conv", 5, 9, 0),))
    placed = policy(diamond())
    assert placed.programs == POLICIES["wavefront"](diamond()).programs
    assert "no such task" in placed.weighed[-1].refused
    assert Options(policy=policy).policy_name == "wavefront, 1 by hand"


def test_a_policy_by_hand_is_a_value():
    one, two = (PolicyWithMoves("gang").with_move(Move("conv", 0, 1, 1)) for _ in range(2))
    assert one == two and hash(one) == hash(two)
