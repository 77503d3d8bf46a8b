"""What each step is worth: the plan, and the clock, without it."""

from __future__ import annotations

import pytest

import explorer
import explorer.np as enp
from explorer import Stage
from explorer.ir.program import Program
from explorer.passes.arrangement import Options as StepOptions
from explorer.tuning.sensitivity import changed_something, cost_of, did, leave_one_out, without
from widgets.rooms import gallery
from widgets.session.handlers import time_shown
from widgets.session.session import Session
from widgets.timed import ablation as charts
from widgets.timed.ablation import AblationRows, caption, table


@pytest.mark.exhaustive
def test_each_step_is_left_out_alone_or_says_who_needs_it() -> None:
    c = explorer.compile("zoo:small_mobilevit", until=Stage.PLANNED)
    whole, found = cost_of(c), {x.step: x for x in leave_one_out(c)}
    assert tuple(found) == changed_something(c)
    assert (
        found["tile (Roller)"].cost is None
        and "'schedule (Rammer)' needs tiles" in found["tile (Roller)"].refused
    )
    slower = found["put channels last"].cost
    assert slower is not None and slower.us > whole.us and slower.kernels > whole.kernels
    apart = found["fuse (Welder)"].cost
    assert apart is not None and apart.kernels > whole.kernels
    again = cost_of(without(c, "put channels last"))
    assert again == slower and all(x.measured is None for x in found.values())


def test_a_step_is_left_out_beside_those_that_are_off() -> None:
    off = explorer.Options(steps=StepOptions(off=("put channels last",)))
    c = explorer.compile("zoo:tiny_skip", options=off, until=Stage.PLANNED)
    found = without(c, "fold constants")
    assert set(found.options.steps.off) == {"put channels last", "fold constants"}


@pytest.mark.exhaustive
def test_the_clock_is_asked_where_the_plan_is_another_one() -> None:
    c = explorer.compile("zoo:tiny_bert", until=Stage.PLANNED)
    found = AblationRows(cost_of(c), tuple(leave_one_out(c, inputs=c.random_inputs())))
    timed = {x.step for x in found.rows if x.measured is not None}
    assert timed == {x.step for x in found.effects} and "fuse (Welder)" in timed
    rows = table(found).rows
    assert rows[0][0] == "none" and len(rows) == len(found.rows) + 1
    assert "timed in turns with it" in caption(found)
    figure = charts.chart(found, "", "light")
    assert [t.name for t in figure.data] == ["predicted", "measured"]
    assert set(figure.data[1].y) == timed
    assert all(t.base == 1.0 for t in figure.data)


@pytest.mark.exhaustive
def test_the_picture_asks_its_clock() -> None:
    session = Session(explorer.compile("zoo:tiny_bert"))
    picture = gallery.find_picture("left_out")
    assert "not compiled yet" in gallery.picture("left_out", session)[1].caption
    time_shown(session, picture, "")
    assert "without fuse (Welder)" in gallery.picture("left_out", session)[1].caption


def test_a_step_that_only_takes_something_away_did_something() -> None:
    @explorer.trace
    def model(x: explorer.tensor("float32", 4, 4)):  # type: ignore[no-untyped-def,valid-type]
        enp.exp(x)  # nobody reads it
        return x + 1.0

    c = explorer.compile(model, until="planned")
    steps = {s.name: s for s in c.snapshots}
    gone = [n for n, s in steps.items() if names_of(s.after) < names_of(s.before)]
    assert gone and all(did(steps[n]) for n in gone)
    idle = [s for s in c.snapshots if s.before is s.after]
    assert idle and not any(map(did, idle))


def names_of(program: Program) -> set[str]:
    return {v.name for _, b in program.bindings() for v in b.vars}
