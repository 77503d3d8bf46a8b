"""Random Python with control flow, compiled under every schedule, means what it means on NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings

import explorer
from explorer.grinder import Options as Grinder
from explorer.rammer import Options as Rammer
from tests.examples import examples
from tests.frontends.python.test_control_flow import floats
from tests.strategies.python_flow import BOUNDS, block, written

SCHEDULES = (
    Grinder(),
    Grinder("device"),
    Grinder("host"),
    Grinder("unrolled", unroll=2),
    Grinder("unrolled", unroll=5),
    Grinder("unrolled", unroll=2, alone="one"),
    Grinder("device", alone="all"),
)
PARTS = 10  # of the exhaustive test
TRIALS = ((2, 0, 1.0), (2, 1, -1.0), (3, 2, 0.3), (5, 4, -0.2), (7, 9, 2.0))  # n, k, scale
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def agrees(folder: Path, lines: list[str]) -> None:
    """What is compiled gives what Python gives: no trip and several, either side of a branch."""
    run = written(folder, lines)
    compiled = explorer.compile(explorer.load(run, BOUNDS))
    trials = []
    for n, k, scale in TRIALS:
        inputs = {"x": floats(n, 4, seed=n) * np.float32(scale), "k": np.int64(k)}
        trials.append((inputs, run(**inputs)))
    for schedule in SCHEDULES:
        for threads in (1, 2):
            c = compiled.with_options(grinder=schedule, rammer=Rammer(threads=threads))
            for inputs, wanted in trials:
                for value, right in zip(c.run(inputs).values(), wanted, strict=True):
                    np.testing.assert_allclose(value, right, rtol=1e-4, atol=1e-5)


@settings(max_examples=examples(3, few=1), **QUIET)
@given(lines=block(2, False))
def test_random_programs_give_the_same_under_every_schedule(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    agrees(tmp_path_factory.mktemp("random"), lines)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_five_hundred_random_programs_give_the_same_under_every_schedule(
    part: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A tenth of them."""

    @seed(part)
    @settings(max_examples=500 // PARTS, database=None, **QUIET)
    @given(lines=block(2, False))
    def some(lines: list[str]) -> None:
        agrees(tmp_path_factory.mktemp("random"), lines)

    some()
