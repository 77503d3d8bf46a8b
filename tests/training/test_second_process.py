"""A run that another process has compiled: no pass runs, no kernel compiles, the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import json
from tests.training.test_fit import *
before = explorer.counters.snapshot()
found = explorer.fit(with_noise, params(), shuffled, Adam(0.05), epochs=2, seed=3)
did = explorer.counters.snapshot() - before
print(json.dumps([found.losses, did.pass_runs, did.kernel_compiles, did.program_hits]))
"""


def started(cache: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"IRONWORKS_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True, env=environment
    )


def ended(process: subprocess.Popen[str]) -> tuple[list[float], int, int, int]:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    losses, passes, kernels, hits = json.loads(out)
    return losses, passes, kernels, hits


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    losses, passes, kernels, hits = ended(started(tmp_path / "cache"))
    assert passes > 0 and kernels > 0 and hits == 0
    again = ended(started(tmp_path / "cache"))
    assert again == (losses, 0, 0, 2)  # one for each size of batch


@pytest.mark.exhaustive
def test_eight_processes_at_once_learn_the_same(tmp_path: Path) -> None:
    found = [ended(p) for p in [started(tmp_path / "cache") for _ in range(8)]]
    assert all(losses == found[0][0] for losses, *_ in found)
    assert ended(started(tmp_path / "cache")) == (found[0][0], 0, 0, 2)
