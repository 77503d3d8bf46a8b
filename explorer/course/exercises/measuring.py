"""Exercise: a verdict from times: faster, slower, or not distinguishable."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.course.exercise import Check, Exercise, require

TRIALS = 100
TURNS = 30
WORDS = ("faster", "slower", "not distinguishable")


def _times(rng: np.random.Generator, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of times in turns, in us, with drift, noise and rare outliers.

    Every magnitude is chosen.
    """
    drift = 100 * (1 + 0.2 * np.sin(np.linspace(0, rng.uniform(1, 6), TURNS)))
    pair = [drift * np.exp(rng.normal(0, 0.02, TURNS)) for _ in range(2)]
    for times in pair:
        times[rng.random(TURNS) < 0.05] *= 3
    return pair[0], pair[1] * ratio


def _check_verdicts(answer: Any, seed: int, ratio: float, want: str, least: int) -> None:
    rng = np.random.default_rng(seed)
    verdicts = [answer(*_times(rng, ratio)) for _ in range(TRIALS)]
    unknown = next((s for s in verdicts if s not in WORDS), None)
    require(unknown is None, f"{unknown!r} is none of {', '.join(WORDS)}")
    right = verdicts.count(want)
    require(
        right >= least,
        f"b takes {ratio:g} of a's time: {right} of {TRIALS} times it said {want!r}; wanted "
        f"{least}",
    )


EXERCISE = Exercise(
    name="measuring",
    chapter="08_measuring",
    title="Faster, slower, or not distinguishable",
    goal="Two programs were timed in turns: `a[i]` and `b[i]` were measured one after the other, "
    "on a machine that drifts and sometimes stops for a moment. Write `verdict(a, b)`. It "
    "returns 'faster' if b takes less time than a, 'slower' if b takes more, and 'not "
    "distinguishable' otherwise. For equal programs it may be wrong 5 times in 100. It must "
    "find a difference of one tenth 95 times in 100.",
    answer="verdict",
    stub='''\
import numpy as np


def verdict(a, b):
    """Return how b compares with a: "faster", "slower", or "not distinguishable"."""
    raise NotImplementedError
''',
    solution='''\
import numpy as np


def verdict(a, b):
    """Return how b compares with a: "faster", "slower", or "not distinguishable"."""
    ratios = np.sort(np.log(np.asarray(b) / np.asarray(a)))
    n = len(ratios)
    # The sign test: order statistics around the median hold it 99 times in 100.
    k = max(0, int(np.floor(n / 2 - 2.576 * np.sqrt(n) / 2)))
    low, high = ratios[k], ratios[n - 1 - k]
    return "faster" if high < 0 else "slower" if low > 0 else "not distinguishable"
''',
    hints=(
        "The drift is the same in a[i] and b[i]: look at their ratios, pair by pair.",
        "The hiccups change a mean, but not a median.",
        "Use an interval of the median: of n sorted ratios, those at n / 2 -+ 1.29 * sqrt(n) "
        "enclose it 99 times in 100. If 1 lies outside, the two programs differ.",
    ),
    checks=(
        Check("equal programs", 2, lambda a, s: _check_verdicts(a, s, 1.0, WORDS[2], 95)),
        Check("one tenth less", 1, lambda a, s: _check_verdicts(a, s, 0.9, WORDS[0], 95)),
        Check("one tenth more", 1, lambda a, s: _check_verdicts(a, s, 1.1, WORDS[1], 95)),
        Check(
            "equal programs, other days",
            1,
            lambda a, s: _check_verdicts(a, s + 1, 1, WORDS[2], 95),
            True,
        ),
    ),
    exit_question="How many turns would you need to find a difference of one hundredth?",
)
