"""Workers shared by threads, idle at no cost, gone at exit, fresh after a fork."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.runtime.arena import address_of
from explorer.runtime.instructions import END, RUN
from explorer.runtime.launch import Launch, rows_of
from explorer.runtime.workers import Team, team
from tests.runtime.hand_kernels import add_tasks

STOP = (END, 0, 0, 0, 0)


def halves(x, y, units=2):
    """A launch that writes y = x + task, each unit its share; and what it needs to stay alive."""
    cuts = [len(x) * u // units for u in range(units + 1)]
    args = np.array([address_of(x), address_of(y)], np.int64)
    rows = [rows_of([(RUN, 0, cuts[u], cuts[u + 1], 0), STOP]) for u in range(units)]
    launch = Launch(rows, 1, 0)
    launch.code[:, :, 0], launch.code[:, :, 1] = add_tasks.address, address_of(args)
    return launch, args


def test_launches_from_many_threads_queue_and_all_come_out_right():
    wrong = []

    def many(seed):
        x, y = np.arange(500) * seed, np.zeros(500, np.int64)
        launch, keep = halves(x, y, units=1 + seed % 3)
        for _ in range(200):
            y[:] = 0
            launch.run(team())
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
        launch.run(team())
        assert (y == 2 * x).all() and keep.size


def test_idle_workers_use_no_processor_time():
    x, y = np.arange(64), np.zeros(64, np.int64)
    launch, keep = halves(x, y)
    launch.run(team())
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.1 and keep.size


def test_a_stopped_team_starts_again():
    own = Team()
    x, y = np.arange(64), np.zeros(64, np.int64)
    launch, keep = halves(x, y, 3)
    for _ in range(3):
        y[:] = 0
        launch.run(own)
        assert (y == 2 * x).all() and own.workers == 2 and keep.size
        own.stop()
        assert own.workers == 0


def test_an_impossible_number_of_units_is_refused():
    with pytest.raises(BadOption, match="1 to 256 units, found 0"):
        team().launch(0, 0)


SCRIPT = """
import os, sys
import numpy as np
from tests.runtime.test_workers import halves, team
x, y = np.arange(64), np.zeros(64, np.int64)
launch, keep = halves(x, y)
launch.run(team())
"""
CHILD = """
child = os.fork()
y[:] = 0
launch.run(team())
assert (y == 2 * x).all()
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(status)
"""


@pytest.mark.parametrize("rest", ["", "sys.exit(0)", "import time; time.sleep(0.2)"])
def test_the_process_ends_by_itself(rest):
    subprocess.run([sys.executable, "-c", SCRIPT + rest], check=True, timeout=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_has_workers_of_its_own():
    subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT + CHILD], check=True, timeout=60)
