"""Workers shared by threads, idle at no cost, gone at exit, fresh after a fork."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.allowance import cores
from explorer.process.counters import counters
from explorer.rammer import Options
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.device_program.instructions import BARRIER, END, JUMP, RUN, WAIT
from explorer.runtime.executable import Executable
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, rows_of
from explorer.runtime.workers.workers import Team, teams
from tests.runtime.hand_kernels import add_tasks
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.runtime.test_executable import same

STOP = (END, 0, 0, 0, 0)
SPIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


def halves(x, y, units=2):
    """A launch that writes y = x + task, each unit its share; and what it needs to stay alive."""
    cuts = [len(x) * u // units for u in range(units + 1)]
    args = np.array([address_of(x), address_of(y)], np.int64)
    rows = [rows_of([(RUN, 0, cuts[u], cuts[u + 1], 0), STOP]) for u in range(units)]
    launch = Launch(rows, 1, 0)
    launch.code[:, :, 0], launch.code[:, :, 1] = add_tasks.address, address_of(args)
    return launch, args


def test_launches_from_many_threads_all_come_out_right():
    wrong = []

    def many(seed):
        x, y = np.arange(500) * seed, np.zeros(500, np.int64)
        launch, keep = halves(x, y, units=1 + seed % 3)
        for _ in range(200):
            y[:] = 0
            launch.run(teams())
            wrong.extend([seed] * int((y != x + np.arange(500)).any()))
        assert keep.size

    threads = [threading.Thread(target=many, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_number_of_units_changes_from_launch_to_launch():
    x, y = np.arange(64), np.zeros(64, np.int64)
    for units in (2, 1, 4, 2, 3):
        y[:] = 0
        launch, keep = halves(x, y, units)
        launch.run(teams())
        assert (y == 2 * x).all() and keep.size


def test_there_are_no_more_workers_than_asked_for_and_they_carry_every_unit():
    x, y = np.arange(64), np.zeros(64, np.int64)
    for workers, units in ((1, 4), (2, 5), (3, 2), (4, 4)):
        own = Team(workers)
        launch, keep = halves(x, y, units)
        for _ in range(20):
            y[:] = 0
            launch.run(own)
            assert (y == 2 * x).all() and keep.size
        assert own.workers == min(workers, units) - 1
        own.stop()
    launch, keep = halves(x, y, 2 + cores())
    before = teams().workers  # of what ran side by side in this process
    launch.run(teams())
    assert teams().workers <= max(before, 3, cores() - 1) and keep.size


def test_a_thread_returns_to_its_own_unit_as_soon_as_that_can_go_on():
    """One thread carries two units that meet after each step. Where it went on with the second one
    after they met, the second one's worker found its unit taken when it woke up, and slept again:
    steps of some milliseconds then ran one after the other on two threads.
    """
    steps, own = 9, Team(workers=1)
    x, y = np.arange(2), np.zeros(2, np.int64)
    args = np.array([address_of(x), address_of(y)], np.int64)
    each = [[(RUN, 0, u, u + 1, 0), (BARRIER, 0, 0, 0, 0)] * steps + [STOP] for u in range(2)]
    launch = Launch([rows_of(rows) for rows in each], 1, 0)
    launch.code[:, :, 0], launch.code[:, :, 1] = add_tasks.address, address_of(args)
    first, second = (unit[:, 1] for unit in launch.trace(own, steps).units)
    assert len(first) == len(second) == steps and args.size
    assert (first < second).all() and (second[:-1] < first[1:]).all()
    own.stop()


def spin(units):
    """Rows that never end: unit 0 waits for the others, which go round and round."""
    endless = rows_of([(JUMP, 0, 0, 0, 0), STOP])
    waits = rows_of([(WAIT, units - 1, 1, 0, 0), STOP]) if units > 1 else endless
    return Launch([waits, *[endless] * (units - 1)], 1, 0)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.parametrize("units", [1, 2, 3])
def test_an_exception_of_a_signal_ends_a_run_and_the_next_one_is_right(units):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    own, endless = Team(workers=2), spin(units)
    x, y = np.arange(64), np.zeros(64, np.int64)
    launch, keep = halves(x, y, 2)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                endless.run(own)
            y[:] = 0
            launch.run(own)
            assert (y == 2 * x).all() and keep.size
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        own.stop()
    assert own.workers == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_a_run_in_a_handler_of_the_same_threads_run_is_refused():
    own, endless, said = Team(workers=2), spin(2), []
    launch, keep = halves(np.arange(64), np.zeros(64, np.int64))

    def handler(number, frame):
        with pytest.raises(BadOption, match="inside another one") as refused:
            launch.run(own)
        said.append(refused.value.sentence)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            endless.run(own)
        launch.run(own)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        own.stop()
    assert len(said) == 1 and keep.size


def test_where_no_thread_can_start_the_caller_carries_every_unit(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    own, (x, y) = Team(workers=3), (np.arange(100), np.zeros(100, np.int64))
    launch, keep = halves(x, y, units=3)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    launch.run(own)
    assert own.workers == 0 and keep.size
    np.testing.assert_array_equal(y, 2 * x)
    own.stop()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or cores() < 2, reason="needs two cores")
def test_a_core_that_others_take_between_runs_is_no_reason_to_stay_away():
    """A process that runs while none of ours does: the others' turns of a race."""
    away = []
    for _ in range(5):  # what else runs here may disturb the runs themselves
        own, (x, y) = Team(workers=2), (np.arange(1000), np.zeros(1000, np.int64))
        launch, keep = halves(x, y)
        mailbox = isa.LINE_WORDS * (isa.TEAM_LINES + 2)
        for _ in range(50):
            launch.run(own)
        core = (os.sched_getaffinity(own.thread_ids[0]) - {own._callers_core}).pop()
        other = subprocess.Popen([sys.executable, "-c", SPIN, str(core)])
        time.sleep(0.1)
        for _ in range(10):
            other.send_signal(signal.SIGSTOP)
            for _ in range(30):
                launch.run(own)
            other.send_signal(signal.SIGCONT)
            time.sleep(0.01)
        other.kill()
        other.wait()
        away.append(int(own._words[mailbox + isa.M_BACKOFF]))
        own.stop()
        if not away[-1]:
            break
    assert min(away) == 0 and keep.size


def test_threads_are_changed_from_run_to_run_without_a_compilation():
    model = Model()
    program = model.program((Var("x", vector(32)),), lambda b, x: [b.mix(b.flip(x), x)])
    inputs = inputs_of(program, 32)
    wanted = evaluate(program, inputs)
    made = {}
    with counters.delta() as did:
        for threads in (1, 2, 3, 1, 2, 3):
            decided = Decisions(rammer=Options(threads=threads, brick_tasks=1))
            again = Program(program.functions, program.constants, decisions=decided)
            executable = made.setdefault(threads, Executable(again, model.codes, DEVICE))
            same(executable.run(inputs), wanted)
    assert did.kernel_compiles == 0 and did.runs == 6


def test_threads_run_the_same_and_different_programs_at_once():
    built = []
    for extent in (8, 32, 100):
        model = Model()
        program = model.program((Var("x", vector(extent)),), lambda b, x: [b.mix(b.flip(x), x)])
        executable = Executable(program, model.codes, DEVICE)
        built.append((executable, inputs_of(program, extent), program))
    wanted = [evaluate(program, inputs) for _, inputs, program in built]
    wrong, start = [], threading.Barrier(4)

    def many(seed):
        start.wait()
        for n in range(60):
            at = (seed + n) % len(built)
            found = built[at][0].run(built[at][1])
            wrong.extend(k for k, a in wanted[at].items() if not np.array_equal(found[k], a))

    threads = [threading.Thread(target=many, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_idle_workers_use_no_processor_time():
    x, y = np.arange(64), np.zeros(64, np.int64)
    launch, keep = halves(x, y)
    launch.run(teams())
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.1 and keep.size


def test_a_stopped_team_starts_again():
    own = Team(workers=3)
    x, y = np.arange(64), np.zeros(64, np.int64)
    launch, keep = halves(x, y, 3)
    for _ in range(3):
        y[:] = 0
        launch.run(own)
        assert (y == 2 * x).all() and own.workers == 2 and keep.size
        own.stop()
        assert own.workers == 0


def test_an_impossible_number_of_units_is_refused():
    own = Team(workers=2)
    for team in (own, teams()):
        with pytest.raises(BadOption, match="1 to 256 units, found 0"):
            team.launch(0, 0)
    own.stop()
    with pytest.raises(BadOption, match="1 to 256 units, found 0"):  # as the first launch again
        own.launch(0, 0)


SCRIPT = """
import os, sys
import numpy as np
from explorer.process.counters import counters
from tests.runtime.test_workers import halves, teams
x, y = np.arange(64), np.zeros(64, np.int64)
launch, keep = halves(x, y)
launch.run(teams())
"""
CHILD = """
child = os.fork()
y[:] = 0
launch.run(teams())
assert (y == 2 * x).all()
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(status)
"""


BUSY_CHILD = """
import threading
def many():
    for _ in range(500): launch.run(teams())
threads = [threading.Thread(target=many) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(5):
    child = os.fork()
    if not child:
        for _ in range(3): launch.run(teams())
        counters.add("runs")
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]): sys.exit(1)
for thread in threads: thread.join()
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("rest", ["", "sys.exit(0)", "import time; time.sleep(0.2)"])
def test_the_process_ends_by_itself(rest):
    subprocess.run([sys.executable, "-c", SCRIPT + rest], check=True, timeout=60)


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_workers_of_its_own():
    script = SCRIPT + CHILD + BUSY_CHILD
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)
