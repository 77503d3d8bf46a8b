"""The interpreter as machine code, loaded without a compile or Numba; its clock and overheads."""

import subprocess
import sys
import time

from explorer.runtime.workers import clock
from explorer.runtime.workers.overheads import overheads

SCRIPT = """
import sys
from explorer.runtime.device_program.native import native
assert native().call(0, 0, 0) > 0
print("numba" in sys.modules)
"""


def test_the_second_process_does_not_import_numba(tmp_path):
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            check=True,
            timeout=120,
            capture_output=True,
            text=True,
            env={
                "PATH": "",
                "XDG_CACHE_HOME": str(tmp_path),
                "HOME": str(tmp_path),
                "PYTHONPATH": ":".join(sys.path),
            },
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]


def test_the_two_clocks_agree_on_a_pause():
    first = clock.now()
    time.sleep(0.05)
    last = clock.now()
    by_cycles = (last.cycles - first.cycles) / clock.cycles_per_us()
    assert abs(by_cycles / ((last.ns - first.ns) / 1000) - 1) < 0.01


def test_the_counter_rises():
    counts = [clock.now().cycles for _ in range(50)]
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_every_cost_is_a_time():
    found = overheads()
    assert 0 < found.task_ns < 100_000
    assert 0 <= found.barrier_us < 10_000
    assert 0 < found.launch_us < 100_000
