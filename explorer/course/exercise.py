"""The exercise: a stub, a worked solution, hints, and checks of an answer's behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from explorer.process.sandbox import Limits

Judge = Callable[[Any, int], None]  # (answer, seed); raises Wrong


class Wrong(Exception):
    """A wrong answer, as a sentence with the numbers."""


@dataclass(frozen=True, slots=True)
class Check:
    """A property that an answer must have, and its points.

    A `hidden` check runs only when the work is graded. All checks draw their values from a seed,
    and grading uses another one.
    """

    words: str
    points: int
    judge: Judge
    hidden: bool = False


def _identity(answer: Any) -> Any:
    return answer


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise.

    `stub` and `solution` are self-contained cells that define `answer`. An answer that passes the
    visible checks becomes a policy of the system `policy_of`, if one is named.
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
    as_policy: Callable[[Any], Any] = _identity

    @property
    def points(self) -> int:
        """The points of all checks."""
        return sum(c.points for c in self.checks)

    @property
    def policy_name(self) -> str:
        """The name of the answer's policy in options and explorers."""
        return self.name.replace("_", " ")


def require(fact: bool, sentence: str) -> None:
    """Raise `Wrong` with the sentence unless the fact holds."""
    if not fact:
        raise Wrong(sentence)
