"""What an exercise is: a stub, a worked solution, hints, and checks of what an answer does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from explorer.sandbox.helper import Limits

Judge = Callable[[Any, int], None]  # of an answer and a seed; raises Wrong


class Wrong(Exception):
    """What an answer does wrong, as a sentence with the numbers."""


@dataclass(frozen=True, slots=True)
class Check:
    """A property that an answer must have, and what it is worth. A `hidden` one is looked at when
    the work is graded; all draw what they try from a seed, which grading sets to another.
    """

    words: str
    points: int
    judge: Judge
    hidden: bool = False


def _as_it_is(answer: Any) -> Any:
    return answer


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise. `stub` and `solution` are cells that stand alone, and both make `answer`. An
    answer that passes what is visible becomes a policy of the system `policy_of`, if that is told.
    """

    name: str
    chapter: str
    title: str
    goal: str
    answer: str
    stub: str
    solution: str
    hints: tuple[str, ...]
    checks: tuple[Check, ...]
    exit_question: str
    limits: Limits = Limits(seconds=60.0)
    policy_of: str = ""
    as_policy: Callable[[Any], Any] = _as_it_is

    @property
    def points(self) -> int:
        """What all checks are worth together."""
        return sum(c.points for c in self.checks)

    @property
    def policy_name(self) -> str:
        """What its policy is called among the choices of the house."""
        return self.name.replace("_", " ")


def require(fact: bool, sentence: str) -> None:
    """Raises Wrong with the sentence unless the fact holds."""
    if not fact:
        raise Wrong(sentence)
