"""How many cases and random examples a run tries: few by `make test`, all by `make test-all`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Literal

import pytest
from hypothesis import settings

QUICK, FEW, ALL = 3, 20, 100  # of a property that states no number of its own

_profile: Literal["quick", "few", "all"] = "all"


def load_profile(config: pytest.Config) -> None:
    """Choose the profile of this run by its options; continuous integration draws no new seeds."""
    global _profile
    if "not exhaustive" in config.getoption("markexpr"):
        _profile = "quick" if config.getoption("quick") else "few"
    settings.register_profile(
        "ironworks",
        deadline=None,
        print_blob=True,
        derandomize=bool(os.environ.get("CI")),
        max_examples=examples(ALL),
    )
    settings.load_profile("ironworks")


def examples(count: int, few: int = FEW) -> int:
    """Return `count`, or at most `few` of them in a run without the exhaustive tests."""
    return count if _profile == "all" else min(count, few, QUICK if _profile == "quick" else few)


def mark_cases(items: Iterable[pytest.Item], most: int | None = None) -> None:
    """Mark all cases of a test as exhaustive but those that its marker `few(count)` allows.

    Which ones is drawn by the name of the test, so that cases of every kind are among them, and
    always the same. `most` is a bound for tests without the marker too.
    """
    cases = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("exhaustive"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, same in cases.items():
        marker = same[0].get_closest_marker("few")
        counts = [n for n in (marker and marker.args[0], most) if n is not None]
        if counts and len(same) > min(counts):
            for item in Random(name).sample(same, len(same) - min(counts)):
                item.add_marker(pytest.mark.exhaustive)
