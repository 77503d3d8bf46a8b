"""Checks an answer by what it does, in a helper process: what is visible, or for a grade all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from explorer.course.exercise import Check, Exercise, Wrong
from explorer.course.exercises import EXERCISES
from explorer.course.log import note, noted
from explorer.errors import BadOption, IronworksError
from explorer.passes.policies import registered
from explorer.sandbox.helper import Ended, in_helper, is_helper
from explorer.sandbox.line import at_line

VISIBLE_SEED = 0
LONGEST_CHARACTERS = 400  # of what an answer's error says; chosen
Outcome = Literal["passed", "wrong", "not attempted", "not run"]


@dataclass(frozen=True, slots=True)
class Result:
    """One check: what is checked, what it came to, and the sentence that says why."""

    words: str
    outcome: Outcome
    points: int
    of: int
    said: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks of an exercise came to. `whole`: hidden ones were among them. `entered`: what
    the answer is in this process from now on.
    """

    exercise: str
    results: tuple[Result, ...]
    whole: bool = False
    entered: str = ""

    @property
    def outcome(self) -> Outcome:
        """That of the first check that did not pass."""
        return next((r.outcome for r in self.results if r.outcome != "passed"), "passed")

    @property
    def points(self) -> int:
        """How many were reached."""
        return sum(r.points for r in self.results)

    @property
    def of(self) -> int:
        """How many could be reached."""
        return sum(r.of for r in self.results)

    def as_json(self) -> dict[str, Any]:
        """The verdict as numbers and words."""
        rows = [asdict(r) for r in self.results]
        head = {"exercise": self.exercise, "outcome": self.outcome}
        return {**head, "points": self.points, "of": self.of, "whole": self.whole, "checks": rows}

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Verdict:
        """What `as_json` told."""
        results = tuple(Result(**row) for row in told["checks"])
        return cls(told["exercise"], results, told["whole"])

    def __str__(self) -> str:
        if self.outcome == "not attempted":
            return f"{self.exercise}: not attempted yet."
        right = sum(r.outcome == "passed" for r in self.results)
        kind = "checks" if self.whole else "visible checks"
        lines = [f"{self.exercise}: {right} of {len(self.results)} {kind} passed."]
        marks = {"passed": "  ok   ", "not run": "  --   "}
        lines += [
            f"{marks.get(r.outcome, '  no   ')}{r.words}" + (f": {r.said}" if r.said else "")
            for r in self.results
        ]
        if not self.whole and right == len(self.results):
            lines.append("These are not all: grading has others, on what you have not seen.")
        if self.entered:
            lines.append(self.entered)
        return "\n".join(lines)

    __repr__ = __str__


def exercise(name: str) -> Exercise:
    """The exercise of a name; BadOption names those that there are."""
    if name not in EXERCISES:
        known = ", ".join(EXERCISES)
        raise BadOption(f"there is no exercise {name!r}", where=name, expected=known)
    return EXERCISES[name]


def check(name: str, answer: Any) -> Verdict:
    """The visible checks of an answer. A policy that passes them enters the compiler by name."""
    asked = exercise(name)
    found = _judged(asked, answer, [c for c in asked.checks if not c.hidden], VISIBLE_SEED, False)
    note("checked", name, outcome=found.outcome, points=found.points)
    if found.outcome != "passed" or not asked.policy_of:
        return found
    registered.register(asked.policy_of, asked.policy_name, asked.as_policy(answer))
    option = f"{asked.policy_of}.policy"
    return replace(
        found,
        entered=f"It is {asked.policy_name!r} among the choices of {option} now, in "
        "explorers and in options.",
    )


def grade(name: str, answer: Any, seed: int) -> Verdict:
    """All checks of an answer, on what `seed` draws: whoever grades keeps it to himself."""
    asked = exercise(name)
    return _judged(asked, answer, asked.checks, seed, True)


def unmade(name: str, why: str = "") -> Verdict:
    """The verdict of a cell that makes no answer: not attempted, unless it says why it fails."""
    outcome: Outcome = "wrong" if why else "not attempted"
    rest: Outcome = "not run" if why else "not attempted"
    results = tuple(
        Result(c.words, rest if n else outcome, 0, c.points, "" if n else why)
        for n, c in enumerate(exercise(name).checks)
    )
    return Verdict(name, results, True)


def expect(name: str, answer: Any, number: int, seed: int = VISIBLE_SEED) -> None:
    """Raises AssertionError unless an answer passes one check: what other graders run."""
    asked = exercise(name)
    (found,) = _judged(asked, answer, [asked.checks[number]], seed, True).results
    if found.outcome != "passed":
        raise AssertionError(f"{found.words}: {found.said or found.outcome}")


def hint(name: str) -> str:
    """The next hint; after the last one, the last one again. Each is noted."""
    hints = exercise(name).hints
    n = min(len(noted("hint", name)), len(hints) - 1)
    note("hint", name, number=n + 1)
    return f"Hint {n + 1} of {len(hints)}: {hints[n]}"


def solution(name: str) -> str:
    """A worked solution, as the text of a cell. That it was looked at is noted."""
    note("solution", name)
    return exercise(name).solution


def _judged(
    asked: Exercise, answer: Any, checks: Sequence[Check], seed: int, whole: bool
) -> Verdict:
    def tell_all(tell: Callable[[str], None]) -> None:
        for one in checks:
            outcome, said = _one(one, answer, seed)
            tell(json.dumps((outcome, said)))
            if outcome == "not attempted":
                return

    told: list[tuple[Outcome, str]]
    if is_helper():
        texts: list[str] = []
        tell_all(texts.append)
        told = [_pair(text) for text in texts]
    else:
        try:
            told = [_pair(text) for text in in_helper(tell_all, asked.limits)]
        except Ended as ended:
            told = [*map(_pair, ended.reported), ("wrong", f"it {ended.why}")]
    if told and told[-1][0] == "not attempted":
        told = [("not attempted", "")] * len(checks)
    told += [("not run", "")] * (len(checks) - len(told))
    results = tuple(
        Result(c.words, outcome, c.points if outcome == "passed" else 0, c.points, said)
        for c, (outcome, said) in zip(checks, told)
    )
    return Verdict(asked.name, results, whole)


def _pair(text: str) -> tuple[Outcome, str]:
    outcome, said = json.loads(text)
    return outcome, said


def _one(check: Check, answer: Any, seed: int) -> tuple[Outcome, str]:
    try:
        check.judge(answer, seed)
    except NotImplementedError:
        return "not attempted", ""
    except Wrong as wrong:
        return "wrong", str(wrong)
    except MemoryError:
        raise
    except (Exception, SystemExit) as problem:  # an answer may raise anything
        if isinstance(problem.__cause__, NotImplementedError):  # told as a pass's or a policy's own
            return "not attempted", ""
        sentence = (
            problem.sentence
            if isinstance(problem, IronworksError)
            else f"{type(problem).__name__}: {problem}{at_line(problem)}"
        )
        return "wrong", " ".join(sentence.split())[:LONGEST_CHARACTERS]
    return "passed", ""
