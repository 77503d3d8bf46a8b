"""A way's time against its trips, where one overtakes another, and the clock's word on both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.errors import BadOption, Cancelled
from explorer.grinder import Options as Grinder
from explorer.ir.decisions.control import ControlSchedule
from explorer.rammer import Options as Rammer
from explorer.runtime.planning.control_costs import AssumedCosts, Time
from explorer.runtime.planning.control_decisions import MOST_TIME_SHARE
from explorer.runtime.planning.schedule_times import SAME_US, ScheduleTime
from tests.examples import examples

tensor = explorer.tensor
FAR = 1200


@explorer.trace
def powers(a: tensor("float32", 8, 8), k: tensor("int64")) -> Any:
    for _ in range(k):
        a = xp.tanh(a @ a)
    return a


@explorer.trace
def rows(x: tensor("float32", "n", 16)) -> Any:
    h = x[0]
    for row in x:
        h = xp.tanh(h + row)
    return h


@explorer.trace
def nested(x: tensor("float32", "n", 4), k: tensor("int64")) -> Any:
    a = x[0]
    for row in x:
        for _ in range(k):
            a = xp.tanh(a) + row
    return a


@pytest.fixture(scope="module")
def found() -> dict[str, Compilation]:
    models = {"powers": powers, "rows": rows, "nested": nested}
    return {name: explorer.compile(model) for name, model in models.items()}


whole = st.integers(0, 12).map(float)
ways = st.builds(
    lambda entry, turn, one, count, counted: ScheduleTime(
        "", ControlSchedule("device", count), Time(entry), Time(turn),
        Time(one if count > 1 else turn), counted,
    ),
    whole, whole, whole, st.sampled_from((1, 2, 4, 8)), st.booleans(),
)  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(ways, ways)
def test_a_way_overtakes_another_where_counting_every_trip_says_so(
    a: ScheduleTime, b: ScheduleTime
) -> None:
    behind = [n for n in range(FAR) if b.at(n).us - a.at(n).us <= SAME_US]
    expected = behind[-1] + 1 if behind else 0
    assert a.overtakes(b) == (None if behind[-8:] and behind[-1] > FAR - 100 else expected)


def test_the_costs_of_the_decision_are_those_of_a_trip(found: dict[str, Compilation]) -> None:
    for c in found.values():
        decided = {d.binding: d for d in c.program.decisions.control}
        for x in c.crossings():
            costs = {w.value: w for w in decided[x.loop].candidates}
            ways = {w.schedule for w in x.schedules}
            others = [costs[w] for w in set(costs) - ways]  # on other units than it runs on
            assert ways <= set(costs) and x.chosen == decided[x.loop].chosen
            assert all(w.label.endswith(("all units", "one unit")) for w in others)
            for way in x.schedules:
                assert way.refused == costs[way.schedule].refused
                assert way.refused or way.each(x.trips).us == pytest.approx(
                    costs[way.schedule].cost_us
                )


def test_the_least_of_many_trips_is_what_was_chosen_and_no_trip_takes_the_host_no_time(
    found: dict[str, Compilation],
) -> None:
    x = found["powers"].crossing()
    (chosen,) = (w for w in x.open if w.schedule == x.chosen)
    assert x.trips is None and x.symbol == ""
    assert chosen.each(None).us * MOST_TIME_SHARE <= x.least(10**6).each(None).us
    assert x.find("on the host").at(0).us == 0 and x.least(0).label == "on the host"
    for a, b, n in x.overtaking():
        assert a.at(n).us < b.at(n).us and (n == 0 or b.at(n - 1).us - a.at(n - 1).us <= SAME_US)


def test_a_dear_barrier_and_a_cheap_launch_leave_the_loop_to_the_host(
    found: dict[str, Compilation],
) -> None:
    c = found["powers"].with_options(grinder=Grinder(alone="all"))
    (dear,) = c.crossings(supposed=AssumedCosts(launch_us=0.1, barrier_us=50.0))
    (cheap,) = c.crossings(supposed=AssumedCosts(launch_us=50.0, barrier_us=0.1))
    assert (dear.constants.launch_us, dear.constants.barrier_us) == (0.1, 50.0)
    assert dear.least(1000).label == "on the host" != cheap.least(1000).label
    assert cheap.find("in the program").overtakes(cheap.find("on the host")) == 1


def test_a_dear_barrier_leaves_the_loop_to_one_unit(found: dict[str, Compilation]) -> None:
    c = found["powers"].with_options(rammer=Rammer(threads=2))
    (dear,) = c.crossings(supposed=AssumedCosts(launch_us=1.0, barrier_us=50.0))
    assert dear.least(1000).label.endswith(", one unit")


def test_a_loop_over_rows_says_whose_number_its_trips_are(found: dict[str, Compilation]) -> None:
    x = found["rows"].crossing(sizes={"n": 37})
    assert (x.trips, x.symbol) == (37, "n")


def test_a_loop_that_there_is_not_is_refused(found: dict[str, Compilation]) -> None:
    with pytest.raises(BadOption, match="no loop is named 'other'"):
        found["powers"].crossing("other")
    with pytest.raises(BadOption, match="has no schedule 'sideways'"):
        found["powers"].crossing().find("sideways")


@pytest.mark.parametrize("name", ["powers", "rows"])
def test_every_way_is_timed_with_fewer_trips_and_with_all(
    found: dict[str, Compilation], name: str
) -> None:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"a": rng.standard_normal((8, 8), "f4"), "k": np.int64(23)}
    if name == "rows":
        given = {"x": rng.standard_normal((23, 16), "f4")}
    c = found[name]
    x = c.crossing()
    told: list[int] = []
    timed = c.timed_crossing(given, x, progress=lambda what, done, of: told.append(of)).timed
    assert {(t.label, t.trips) for t in timed} == {
        (w.label, n) for w in x.open for n in (1, 10, 23)
    }
    assert all(0 <= t.low_us <= t.median_us <= t.high_us and t.n >= 8 for t in timed)
    assert told == [3, 3, 3]


def test_what_cannot_be_timed_says_why(found: dict[str, Compilation]) -> None:
    given = {"x": np.zeros((3, 4), "f4"), "k": np.int64(2)}
    c = found["nested"]
    inner, outer = c.crossings()
    with pytest.raises(BadOption, match="stands inside of another loop"):
        c.timed_crossing(given, inner)
    with pytest.raises(Cancelled):
        c.timed_crossing(given, outer, cancelled=lambda: True)
    nothing = {"a": np.zeros((8, 8), "f4"), "k": np.int64(0)}
    with pytest.raises(BadOption, match="makes no iteration"):
        found["powers"].timed_crossing(nothing, found["powers"].crossing())
