"""Small walls worked out by hand: the paper's Algorithm 1, and the gangs of its published code."""

from explorer.ir.decisions.wall import Run, Wait
from explorer.rammer import Facts, Options, Placement, ROperator, Share, VDevice, schedule
from explorer.rammer.published_gangs import gang


def placed(wall):
    return sorted((b.call, b.unit, b.start_us, b.end_us) for b in wall.bricks)


def test_two_pairs_side_by_side_then_four():
    operators = (ROperator("A", 2, 3.0), ROperator("B", 2, 3.0), ROperator("C", 4, 1.0, (0, 1)))
    found = schedule(Facts(operators, VDevice(4)), Options())
    assert placed(found.wall) == [
        ("A", 0, 0.0, 3.0),
        ("A", 1, 0.0, 3.0),
        ("B", 2, 0.0, 3.0),
        ("B", 3, 0.0, 3.0),
        ("C", 0, 3.0, 4.0),
        ("C", 1, 3.0, 4.0),
        ("C", 2, 3.0, 4.0),
        ("C", 3, 3.0, 4.0),
    ]
    assert found.wall.total_us == 4.0 and len(found.programs) == 1


def test_three_and_two_then_four_share_the_units_and_a_tie_is_accepted():
    operators = (ROperator("A", 3, 2.0), ROperator("B", 2, 3.0), ROperator("C", 4, 1.0, (0, 1)))
    found = schedule(Facts(operators, VDevice(4)), Options())
    assert [p for p in placed(found.wall) if p[0] == "B"] == [
        ("B", 0, 2.0, 5.0),
        ("B", 3, 0.0, 3.0),
    ]
    assert found.wall.total_us == 6.0 and len(found.programs) == 1
    assert dict(found.placement.weighed[1].terms) == {"joined": 6.0, "apart": 6.0}


def test_the_papers_figure_9():
    """vEU 0: MatMul r0, r1; vEU 1: Relu r0..r3; Conv r0 | r1, each after the other's last."""
    operators = (
        ROperator("MatMul", 2, 2.0),
        ROperator("Relu", 4, 1.0),
        ROperator("Conv", 2, 1.0, (0, 1)),
    )

    def by_hand(facts: Facts) -> Placement:
        return Placement(
            ((Share(0, 0, 0, 2), Share(1, 1, 0, 4), Share(2, 0, 0, 1), Share(2, 1, 1, 2)),)
        )

    options = Options(policy=by_hand, brick_tasks=1)
    program = schedule(Facts(operators, VDevice(2)), options).programs[0]
    assert program.units == (
        (Run(0, 0, 1), Run(0, 1, 2), Wait(1, 4), Run(2, 0, 1)),
        (Run(1, 0, 1), Run(1, 1, 2), Run(1, 2, 3), Run(1, 3, 4), Wait(0, 2), Run(2, 1, 2)),
    )


def test_gangs_start_together_and_are_fused_where_that_is_shorter():
    operators = (ROperator("A", 2, 3.0), ROperator("B", 2, 3.0), ROperator("C", 4, 1.0, (0, 1)))
    placement = gang(Facts(operators, VDevice(4, barrier_us=1.0, launch_us=2.0)))
    assert [(w.label, dict(w.terms), w.refused) for w in placement.weighed] == [
        ("wave 0 with wave 1", {"joined": 7.0, "apart": 8.0}, ""),
        ("waves 0 to 1", {"joined": 5.0, "apart": 7.0}, ""),
    ]
    (program,) = placement.programs
    assert [(s.operator, s.unit) for s in program] == [
        (0, 0),
        (0, 1),
        (1, 2),
        (1, 3),
        (2, 0),
        (2, 1),
        (2, 2),
        (2, 3),
    ]


def test_gangs_that_wait_too_long_for_units_are_refused():
    operators = (ROperator("A", 3, 2.0), ROperator("B", 2, 3.0), ROperator("C", 4, 1.0, (0, 1)))
    placement = gang(Facts(operators, VDevice(4, barrier_us=1.0, launch_us=2.0)))
    merged, group = placement.weighed
    assert not merged.refused and dict(merged.terms) == {"joined": 9.0, "apart": 10.0}
    assert dict(group.terms) == {"joined": 7.0, "apart": 6.0}
    assert group.refused and group.why.condition == "gain" and len(placement.programs) == 3
