"""A tile by hand: fields, rules, the clock, and work that goes on beside."""

import time
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

import explorer
import explorer.np as enp
from explorer.errors import BadOption, Cancelled
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Micro, Tiling
from tests.widgets import made_by_hand as hand
from widgets.session import bench
from widgets.session.bench import Subject
from widgets.session.jobs import Job, Jobs
from widgets.session.session import Session

FC = 4


@explorer.trace
def product(a: explorer.tensor("float32", 48, 32), b: explorer.tensor("float32", 32, 64)):  # type: ignore[no-untyped-def]
    return enp.matmul(a, b)


def subject() -> Subject:
    c = explorer.compile(explorer.load(product))
    binding = c.program.kernel_calls[0]
    assert isinstance(binding.expr, KernelCall)
    chosen = c.program.decisions.tiling(binding.var.name)
    assert chosen is not None
    kernel = binding.expr.kernel
    name = binding.var.name
    return Subject(name, name, kernel, chosen.chosen, c.device, c.program.env, {}, 1)


@pytest.fixture(scope="module")
def small() -> Subject:
    return subject()


def test_fields_make_the_tiling_that_they_came_from(small: Subject) -> None:
    for tiling in (
        small.tiling,
        Tiling((("i", 16),), Micro(4, 1, small.device.lanes), pack=True),
        Tiling((), Micro(2, 2, small.device.lanes), depth_block=16),
    ):
        assert bench.tiling_of(bench.fields_of(tiling, small), small) == tiling


def test_what_a_form_leaves_out_is_as_in_the_tiling_in_use(small: Subject) -> None:
    used = replace(small.tiling, pack=True, depth_block=16)
    found = bench.tiling_of({"tile": {"i": 16}}, replace(small, tiling=used))
    assert found == replace(used, tile=(("i", 16),))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tile": {"i": 0}}, "i is a whole number from 1"),
        ({"tile": {"z": 4}}, "no axis 'z' to cut: it has i, j"),
        ({"tile": {"i": "4; import os"}}, "i is a whole number"),
        ({"tile": [4]}, "given by axis"),
        ({"rows": True}, "rows is a whole number"),
        ({"rows": 2**40}, "rows is a whole number"),
        ({"pack": 1}, "pack must be true or false"),
        ({"color": 1}, "no field 'color'"),
    ],
)
def test_a_field_that_is_none_of_its_numbers_is_refused(
    small: Subject, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadOption, match=said):
        bench.tiling_of(fields, small)


def test_an_illegal_tile_names_its_rule_with_the_number(small: Subject) -> None:
    fields = {**bench.fields_of(small.tiling, small), "rows": 60, "vectors": 2}
    why = bench.judge_tiling(bench.tiling_of(fields, small), small).refused
    assert f"needs {60 * 2 + 2 + 1} vector registers" in why and str(small.device.registers) in why
    with pytest.raises(BadOption, match="is not legal"):
        bench.timed(small, bench.tiling_of(fields, small), Job(20))


def test_a_legal_tile_is_timed_in_turns_with_the_one_in_use(small: Subject) -> None:
    tiling = replace(small.tiling, tile=(("i", 24),))  # one that is far behind has fewer turns
    told: list[int] = []

    class Listening(Job):
        def report(self, done: int) -> None:
            told.append(done)
            super().report(done)

    found = bench.timed(small, tiling, Listening(20))
    assert found.n == 20 and found.low <= found.ratio <= found.high
    assert 0 < found.first.median_us < 1e4 and 0 < found.second.median_us < 1e4
    assert told == sorted(told) and told[-1] == 20 and len(set(told)) > 10


def test_a_timing_that_is_not_wanted_any_more_ends(small: Subject) -> None:
    job = Job(20)
    job.stop.set()
    with pytest.raises(Cancelled):
        bench.timed(small, small.tiling, job)


def test_one_timing_at_a_time() -> None:
    jobs, go = Jobs(), Event()
    first = jobs.start(3, lambda job: go.wait(5))
    with pytest.raises(BadOption, match="another timing is under way"):
        jobs.start(3, lambda job: None)
    go.set()
    assert jobs.wait(first)["data"] is True
    assert jobs.wait(jobs.start(1, lambda job: 7))["data"] == 7
    with pytest.raises(BadOption, match="no timing number 99"):
        jobs.progress(99)


def test_a_job_tells_how_far_it_is_and_can_be_cancelled() -> None:
    jobs = Jobs()

    def work(job: Job) -> None:
        for n in range(1000):
            job.report(n)
            time.sleep(0.002)

    job = jobs.start(60, work)
    while not jobs.progress(job)["n"]:
        time.sleep(0.001)
    jobs.cancel(job)
    ended = jobs.wait(job)
    assert ended["over"] and "cancelled" in ended["error"]["sentence"] and ended["n"] <= 60


def test_a_fault_of_a_job_does_not_leave_the_page_waiting() -> None:
    jobs = Jobs()
    job = jobs.start(1, lambda job: 1 // 0)
    assert "ZeroDivisionError" in jobs.wait(job)["error"]["sentence"]


@pytest.fixture
def session() -> Session:
    return Session(
        hand.HandMade(),
        compare=hand.compare,
        timer=lambda s, t, job: hand.compare(
            hand.HandMade(), hand.HandMade(options=hand.Options(hand.Rammer(threads=1))), {}
        ),
    )


def test_a_timed_tile_keeps_its_verdict_and_its_time(session: Session) -> None:
    form = session.answer("tuning", {"op": FC})
    assert form["kernel"] == "fc" and form["refusal"] == ""
    fields = {**form["fields"], "tile": {**form["fields"]["tile"], "n": 2}}
    judged = session.answer("judge", {"op": FC, "fields": fields})
    assert judged["refused"] == "" and "against the one in use" in judged["said"]
    job = session.answer("time_tile", {"op": FC, "fields": fields})["job"]
    assert session.bench.jobs.wait(job)["data"]["big"] == "0.50× the present tile's time"
    known = session.times("fc_out")
    assert {t.size("n") for t in known} == {1, 2}
    offered = session.answer("tuning", {"op": FC})["candidates"]
    assert offered[-1]["said"]["n"] == 30 and offered[-1]["fields"] == fields


def test_a_tile_by_hand_is_taken_and_can_be_undone(session: Session) -> None:
    fields = session.answer("tuning", {"op": FC})["fields"]
    assert session.answer("take", {"op": FC, "fields": {**fields, "depth_block": 64}})["measure"]
    assert session.now.compiled.options.roller.pinned[0][1].depth_block == 64
    session.undo()
    assert session.now.compiled.options.roller.pinned == ()


def test_an_operator_without_a_tile_says_so(session: Session) -> None:
    with pytest.raises(BadOption, match="shape has no tile of its own"):
        session.answer("tuning", {"op": 3})
    with pytest.raises(BadOption, match="no operator is selected"):
        session.answer("tuning", {"op": -1})


def test_a_data_sheet_cannot_be_timed() -> None:
    from explorer.devices.catalogue import device

    there = hand.HandMade(device=device("v100"))
    session = Session(there, compare=hand.compare)
    form = session.answer("tuning", {"op": FC})
    assert "v100 is a data sheet" in form["refusal"]
    with pytest.raises(BadOption, match="data sheet"):
        session.answer("time_tile", {"op": FC, "fields": form["fields"]})
