"""The rates of the course's checks: intervals, checks without a seed, and one short run."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.course.exercise import Check
from explorer.course.exercises import EXERCISES
from tests.benchmarks import exercise_rates
from tests.benchmarks.exercise_rates import Case, reads_seed, tallies, upper_end


@pytest.mark.parametrize(
    ("faults", "runs", "end"),
    [(0, 2000, 0.001497), (0, 3000, 0.000998), (1, 2000, 0.002370), (2, 2, 1.0), (0, 0, 1.0)],
)
def test_the_interval_is_that_of_clopper_and_pearson(faults: int, runs: int, end: float) -> None:
    assert upper_end(faults, runs) == pytest.approx(end, abs=1e-6)


def test_a_check_reads_its_seed_unless_its_code_never_names_it() -> None:
    def nested(answer: object, seed: int) -> None:
        (lambda: seed)()

    assert reads_seed(Check("uses it", 1, lambda answer, seed: answer(seed)))
    assert reads_seed(Check("uses it inside", 1, nested))
    assert not reads_seed(Check("does not", 1, lambda answer, seed: answer()))
    (by_hand, *_) = EXERCISES["bits"].checks
    assert not reads_seed(by_hand)
    assert all(reads_seed(c) for c in EXERCISES["measuring"].checks)


@pytest.mark.parametrize(
    ("is_right", "text", "seeds", "faults"),
    [
        (True, EXERCISES["bits"].solution, 3, 0),
        (False, EXERCISES["bits"].solution, 3, 3),
        (True, EXERCISES["bits"].stub, 1, 1),
        (False, EXERCISES["bits"].stub, 1, 0),
    ],
)
def test_an_answer_is_judged_at_each_seed_until_a_check_without_one_decides(
    is_right: bool, text: str, seeds: int, faults: int, tmp_path: Path
) -> None:
    *_, last = tallies(Case("bits", is_right, "it", text), 3, 60.0, tmp_path)
    assert (last.seeds, last.faults) == (seeds, faults)
    assert last.is_fixed == (seeds == 1)


def test_a_run_prints_a_table_of_answers_and_of_exercises(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--exercise", "bits", "--answer", "budget", "--seeds", "2"]
    assert exercise_rates.main(flags) == 0
    text = capsys.readouterr().out
    assert "a tenth over the budget" in text and "accepted" in text
