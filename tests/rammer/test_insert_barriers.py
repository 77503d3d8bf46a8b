"""Where an operator would wait for many units, all meet before it; what runs stays the same."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.decisions.wall import Wait
from explorer.rammer import POLICIES, Facts, Options, ROperator, VDevice, schedule
from tests.examples import examples
from tests.rammer.walls import answers, kernel_of, rich_facts, run_in_some_order


@settings(max_examples=examples(60))
@given(rich_facts(), st.sampled_from(sorted(POLICIES)), st.integers(1, 5), st.integers(0, 99))
def test_no_operator_waits_for_more_units_than_it_may(found, policy, most, seed):  # type: ignore[no-untyped-def]
    plain = schedule(found, Options(policy=policy))
    made = schedule(found, Options(policy=policy, meet=most))
    for program in made.programs:
        for unit in program.units:
            runs = (
                list(part) for waits, part in groupby(unit, lambda r: isinstance(r, Wait)) if waits
            )
            aligned = any(o.aligned for o in found.operators)
            assert aligned or all(len(waits) <= most for waits in runs)
    shares = [share for program in made.placement.programs for share in program]
    assert shares == [share for program in plain.placement.programs for share in program]
    assert run_in_some_order(found, made.programs, seed) == answers(found, kernel_of(found, made))


def test_all_meet_once_where_every_unit_waits_for_every_other() -> None:
    """Not where nothing is read, nor twice for two that read the same."""
    operators = (
        ROperator("a", 8, 1.0),
        ROperator("b", 8, 1.0, (0,)),
        ROperator("c", 8, 1.0, (0,)),
        ROperator("d", 1, 1.0, (1, 2)),
    )
    facts = Facts(operators, VDevice(4, barrier_us=1.0, launch_us=9.0, together=True))
    waiting = schedule(facts, Options(policy="wavefront"))
    assert any(isinstance(r, Wait) for p in waiting.programs for u in p.units for r in u)
    made = schedule(facts, Options(policy="wavefront", meet=2))
    assert len(made.programs) == 3
    assert not any(isinstance(r, Wait) for p in made.programs for u in p.units for r in u)
    # 2 of a, 4 of b and c, 1 of d, a barrier before each: nothing is launched between
    assert made.wall.total_us == 2 + 4 + 1 + 3
