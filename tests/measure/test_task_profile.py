"""Task times are measured once, kept, and then planned with."""

from dataclasses import replace

import numpy as np
import pytest

from explorer import cache as store
from explorer.errors import Cancelled
from explorer.grinder import Options as Grinder
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.dims import symbol
from explorer.ir.types import Tensor
from explorer.measure.task_times import task_profile
from explorer.process.counters import counters
from explorer.rammer import Options, TaskProfile, TaskTime
from explorer.runtime.device_program.native import native
from explorer.runtime.executable import Executable
from tests.runtime.programs import DEVICE, Model, inputs_of, vector

N = 64
VECTOR, COUNT, TRUTH = vector(symbol("n")), Tensor((), "int64"), Tensor((), "bool")


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    """Compiled into the cache of all tests, not into one test's own."""
    native()


def program_of(options=None, again=1):
    """A few kernels, and a library call between two of them."""
    model = Model()
    x = Var("x", VECTOR)

    def main(b, x):
        y = b.flip(b.flip(x))
        for _ in range(again):
            y = b.mix(y, b.library("Identity", y, type=VECTOR))
        return [y]

    decisions = None if options is None else Decisions(rammer=options)
    return model, model.program((x,), main, decisions)


def executable_of(options=None, again=1):
    model, program = program_of(options, again)
    return Executable(program, model.codes, DEVICE), inputs_of(program, N)


@pytest.mark.usefixtures("own_cache")
def test_every_call_is_measured_once_and_not_again():
    executable, inputs = executable_of()
    profile = task_profile(executable, inputs, runs=5)
    names = set(executable.planner.facts(executable.plan({"n": N})))
    assert {t.place for t in profile.times} == {*names, ""}
    assert all(t.us > 0 for t in profile.times) and hash(profile)
    assert {dict(t.sizes).get("n", N) for t in profile.times} == {N}
    with counters.delta() as did:
        again = task_profile(executable, inputs, runs=5)
    assert again == profile and not did.runs
    with counters.delta() as did:
        task_profile(executable, inputs, runs=5, fresh=True)
    assert did.runs > 5  # one of them to warm up
    with counters.delta() as did:
        task_profile(executable, {"x": np.arange(2 * N)}, runs=5)
    assert did.runs > 5  # another size is another question


@pytest.mark.usefixtures("own_cache")
def test_another_program_with_the_same_kernels_runs_nothing():
    first, inputs = executable_of()
    task_profile(first, inputs, runs=5)
    other, inputs = executable_of(again=3)
    with counters.delta() as did:
        profile = task_profile(other, inputs, runs=5)
    assert not did.runs and profile.overheads is None
    assert {t.place for t in profile.times} == {""}


@pytest.mark.usefixtures("own_cache")
def test_what_is_damaged_on_disk_is_measured_again():
    executable, inputs = executable_of()
    task_profile(executable, inputs, runs=5)
    for file in store.disk().folder.glob("*.entry"):
        file.write_bytes(file.read_bytes()[:-3] + b"???")
    with counters.delta() as did:
        task_profile(executable, inputs, runs=5)
    assert did.runs > 5


@pytest.mark.usefixtures("own_cache")
def test_a_profile_that_is_stopped_leaves_nothing():
    executable, inputs = executable_of()
    told = []
    with pytest.raises(Cancelled, match="stopped after 2 runs"):
        task_profile(
            executable,
            inputs,
            runs=5,
            progress=lambda *step: told.append(step),
            cancelled=lambda: len(told) == 1,
        )
    assert told == [("measure tasks", 1, 5)]
    with counters.delta() as did:
        task_profile(executable, inputs, runs=5)
    assert did.runs > 5


def timed(us, place="", kernel="flip", threads=2, **more):
    return TaskProfile("here", threads, (TaskTime(kernel, (("n", N),), place, us, **more),))


def test_a_plan_uses_measured_times_and_says_so():
    profile = timed(5.0)
    executable, _ = executable_of(Options(profile=profile))
    facts = executable.planner.facts(executable.plan({"n": N}))
    sources = {name: fact.source for name, fact in facts.items()}
    assert sorted(sources.values()) == ["measured", "measured", "modelled", "modelled"]
    wall = executable.planned_wall({"n": N})
    measured = [b for b in wall.bricks if sources[b.call] == "measured"]
    assert all(b.end_us - b.start_us == pytest.approx(5 * (b.last - b.first)) for b in measured)
    assert wall == executable_of(Options(profile=profile))[0].planned_wall({"n": N})


def test_a_place_of_its_own_comes_before_the_kernel_and_other_sizes_do_not_count():
    plain, _ = executable_of()
    first, second = [o.name for run in plain.planner.runs for o in run.operators][:2]
    one = timed(5.0)
    both = replace(one, times=(*one.times, *timed(9.0, second).times))
    executable, _ = executable_of(Options(profile=both))
    facts = executable.planner.facts(executable.plan({"n": N}))
    assert (facts[first].us, facts[second].us) == (5.0, 9.0)
    other = executable.planner.facts(executable.plan({"n": N + 1}))
    assert {fact.source for fact in other.values()} == {"modelled"}


@pytest.mark.parametrize(
    "profile", [timed(5.0, threads=3), timed(5.0, kernel="another")], ids=["threads", "kernel"]
)
def test_what_was_measured_otherwise_does_not_count(profile):
    executable, _ = executable_of(Options(profile=profile))
    facts = executable.planner.facts(executable.plan({"n": N}))
    assert {fact.source for fact in facts.values()} == {"modelled"}


def test_trips_that_an_input_counts_are_seen_in_a_run_and_planned():
    model = Model()
    given = [model.var(t) for t in (COUNT, TRUTH, VECTOR)]
    body = model.function("body", given, lambda b, i, going, s: [going, b.flip(s)])
    x, trip = Var("x", VECTOR), Var("trip", COUNT)
    program = model.program((x, trip), lambda b, x, t: [b.flip(b.loop(body, t, None, [x]))])
    every = Grinder(alone="all")  # what a profile says may be another reason to leave it to one
    program = replace(program, decisions=Decisions(grinder=every))
    executable = Executable(program, model.codes, DEVICE)
    inputs = {"x": np.arange(N), "trip": np.array(7)}
    profile = task_profile(executable, inputs, runs=5)
    ((_, count),) = profile.trips
    assert count == 7
    laid = Options(profile=profile)
    known = replace(program, decisions=Decisions(rammer=laid, grinder=every))
    planned = Executable(known, model.codes, DEVICE).planned_wall({"n": N})
    measured = executable.measured_wall(inputs)
    assert places(planned) == places(measured)


def places(wall):
    """Which bricks there are, but for how a share of a call is cut into them."""
    return {(b.unit, b.call, b.iteration) for b in wall.bricks}
