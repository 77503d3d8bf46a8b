"""Launches of several threads run side by side, with no more workers than there are cores."""

import signal
import threading

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.rammer import Options
from explorer.runtime.device_program.instructions import BRANCH, END, LOOK
from explorer.runtime.executable import Executable
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, rows_of
from explorer.runtime.workers.workers import Teams
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.runtime.test_workers import halves, spin

SECONDS = 20.0


class Held:
    """A launch of a thread of its own, whose units go round until they are let go."""

    def __init__(self, teams, units=1):
        rows = rows_of([(LOOK, 0, 0, 8, 0), (BRANCH, 0, 0, 0, 0), (END, 0, 0, 0, 0)])
        self.word = np.zeros(1, np.int64)
        self.launch = Launch([rows] * units, 1, 1)
        self.launch.slots[:, 0] = address_of(self.word)
        self.thread = threading.Thread(target=self.launch.run, args=(teams,), daemon=True)
        self.thread.start()

    def go(self):
        self.word[0] = 1
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


def until(condition):
    """Waits for what another thread does."""
    pause = threading.Event()
    for _ in range(int(SECONDS * 1000)):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it never came")


def running(teams):
    return sum(t.running for t in teams.teams)


def right(teams, units):
    x, y = np.arange(64), np.zeros(64, np.int64)
    launch, keep = halves(x, y, units)
    launch.run(teams)
    assert (y == 2 * x).all() and keep.size


@pytest.mark.parametrize("units", [1, 2, 5])
def test_a_launch_ends_while_another_one_runs(units):
    teams = Teams(most=2)
    held = Held(teams)
    until(lambda: running(teams) == 1)
    right(teams, units)
    assert held.thread.is_alive() and len(teams.teams) == 2
    assert teams.workers == 0  # the caller alone: no core is left for a worker
    held.go()
    right(teams, units)
    assert teams.workers == min(1, units - 1)
    teams.stop()


def test_groups_share_the_cores_and_what_finds_none_waits():
    teams = Teams(most=4)
    held = [Held(teams, units=2)]
    until(lambda: running(teams) == 2)
    held.append(Held(teams, units=8))
    until(lambda: running(teams) == 4)
    assert [t.running for t in teams.teams] == [2, 2]
    late = threading.Thread(target=right, args=(teams, 1), daemon=True)
    late.start()
    late.join(0.05)
    assert late.is_alive() and running(teams) == 4 and len(teams.teams) == 2
    for h in held:
        h.go()
    late.join(SECONDS)
    assert not late.is_alive() and running(teams) == 0
    teams.stop()


def test_one_core_runs_one_launch_at_a_time():
    teams = Teams(most=1)
    first = Held(teams, units=3)
    until(lambda: running(teams) == 1)
    second = Held(teams)
    second.thread.join(0.05)
    second.word[0] = 1
    second.thread.join(0.05)
    assert second.thread.is_alive() and len(teams.teams) == 1
    first.go()
    second.go()
    assert teams.workers == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_a_run_in_a_handler_of_the_same_threads_run_is_refused_whatever_team_is_free():
    teams, endless, said = Teams(most=4), spin(2), []

    def handler(number, frame):
        with pytest.raises(BadOption, match="inside another one") as refused:
            right(teams, 1)
        said.append(refused.value.sentence)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            endless.run(teams)
        assert said and running(teams) == 0
        right(teams, 2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        teams.stop()


def test_eight_threads_run_programs_of_any_number_of_units_at_once():
    built = []
    for extent, threads in ((8, 1), (32, 1), (100, 2), (33, 3), (1, 2)):
        model = Model()
        program = model.program((Var("x", vector(extent)),), lambda b, x: [b.mix(b.flip(x), x)])
        decided = Decisions(rammer=Options(threads=threads, brick_tasks=1))
        program = Program(program.functions, program.constants, decisions=decided)
        inputs = [{k: a + n for k, a in inputs_of(program, extent).items()} for n in range(3)]
        wanted = [evaluate(program, i) for i in inputs]
        built.append((Executable(program, model.codes, DEVICE), inputs, wanted))
    wrong, start = [], threading.Barrier(8)

    def many(seed):
        start.wait()
        for n in range(90):
            executable, inputs, wanted = built[(seed + n) % len(built)]
            found = executable.run(inputs[seed % 3])
            same = all(np.array_equal(found[k], a) for k, a in wanted[seed % 3].items())
            wrong.extend([] if same else [(seed, n)])

    threads = [threading.Thread(target=many, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not wrong and not any(t.is_alive() for t in threads)
