"""How much a test tries of what is endless: a few by `make test`, the whole by `make test-all`."""

from __future__ import annotations

import pytest

_few = False


def choose(config: pytest.Config) -> None:
    """After: a run that leaves the exhaustive tests out tries a few."""
    global _few
    _few = "not exhaustive" in config.getoption("markexpr")


def examples(few: int, all_of_them: int) -> int:
    """How many to try in this run."""
    return few if _few else all_of_them
