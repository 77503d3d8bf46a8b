"""The exercise: a stub, a worked solution, hints, and checks of an answer's behaviour."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from explorer.errors import BadOption
from explorer.extend.policies import SYSTEMS
from explorer.process.sandbox import Limits
from explorer.process.user_code import shown

Judge = Callable[[Any, int], None]  # (an `Answer`, the seed); raises Wrong
Activity = Literal["fill in", "predict", "find the fault", "write"]


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

    def __post_init__(self) -> None:
        """Check the points; BadOption unless they are a whole number above 0."""
        if not isinstance(self.points, int) or isinstance(self.points, bool) or self.points < 1:
            raise BadOption(
                f"the check {self.words!r} has {shown(self.points)} points",
                where=self.words,
                expected="a whole number of 1 or more",
            )


def _identity(answer: Any) -> Any:
    return answer


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise.

    `stub` and `solution` are self-contained cells that define `answer`. The stub raises
    NotImplementedError, has `...` in its blanks, or is the code with the fault to find. `minutes`
    is about how long it takes. A warm-up, which stands inside a chapter before its large exercise,
    has no exit question. An answer that passes the
    visible checks becomes a policy of the system `policy_of`, if one is named. `own_answers` are
    functions of the library, "module:name", that would be an answer: graded work cannot call them.
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
    exit_question: str = ""
    activity: Activity = "write"
    minutes: int = 60
    limits: Limits = Limits(seconds=20.0, wall_seconds=40.0)
    policy_of: str = ""
    as_policy: Callable[[Any], Any] = _identity
    own_answers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the parts; BadOption if one is missing or names what does not exist."""
        for part in ("stub", "solution"):
            if not re.search(rf"^(def |class )?{self.answer}\b", getattr(self, part), re.M):
                raise self._wrong(f"its {part} defines no {self.answer!r}", "its answer's name")
        if not self.checks or not self.hints:
            raise self._wrong("it needs checks and hints", "one of each, or more")
        if self.policy_of and self.policy_of not in SYSTEMS:
            raise self._wrong(f"there is no system {self.policy_of!r}", ", ".join(SYSTEMS))

    def _wrong(self, words: str, expected: str) -> BadOption:
        return BadOption(f"the exercise {self.name!r}: {words}", where=self.name, expected=expected)

    @property
    def is_function(self) -> bool:
        """True if the stub defines the answer as a plain function."""
        lines = ["", *self.stub.splitlines()]
        head = f"def {self.answer}("
        return any(x.startswith(head) and above[:1] != "@" for above, x in pairwise(lines))

    @property
    def is_warm_up(self) -> bool:
        """True for a small exercise before the large one of its chapter."""
        return not self.exit_question

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
