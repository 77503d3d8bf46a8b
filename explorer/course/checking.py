"""Checks of an answer by its behaviour: visible ones, or all for a grade.

In a notebook a helper process runs the answer and its checks. Its student can change both, so
points count only if `grading` runs the notebook again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from explorer.course.answer import Answer, LocalAnswer, Outcome, outcome_of
from explorer.course.exercise import Check, Exercise
from explorer.course.exercises import EXERCISES
from explorer.course.prediction import log_event, logged_events
from explorer.errors import BadOption
from explorer.passes import policy_call
from explorer.process.sandbox import Ended, in_helper, is_helper
from explorer.process.user_code import shown

VISIBLE_SEED = 0


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check, with the sentence that explains it."""

    words: str
    outcome: Outcome
    points: int
    of: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The results of an exercise's checks.

    `includes_hidden`: hidden checks are among them. `entered`: a sentence that says how the answer
    can be used in this process.
    """

    exercise: str
    results: tuple[Result, ...]
    includes_hidden: bool = False
    entered: str = ""

    @property
    def outcome(self) -> Outcome:
        """The outcome of the first check that did not pass."""
        return next((r.outcome for r in self.results if r.outcome != "passed"), "passed")

    @property
    def points(self) -> int:
        """The points that were reached."""
        return sum(r.points for r in self.results)

    @property
    def of(self) -> int:
        """The points that could be reached."""
        return sum(r.of for r in self.results)

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as a JSON object."""
        rows = [asdict(r) for r in self.results]
        head = {"exercise": self.exercise, "outcome": self.outcome}
        return {
            **head,
            "points": self.points,
            "of": self.of,
            "includes_hidden": self.includes_hidden,
            "checks": rows,
        }

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a JSON object from `as_json`."""
        results = tuple(Result(**row) for row in data["checks"])
        return cls(data["exercise"], results, data["includes_hidden"])

    def __str__(self) -> str:
        """Return the verdict as lines of text."""
        if self.outcome == "not attempted":
            return f"{self.exercise}: not attempted yet."
        right = sum(r.outcome == "passed" for r in self.results)
        kind = "checks" if self.includes_hidden else "visible checks"
        lines = [f"{self.exercise}: {right} of {len(self.results)} {kind} passed."]
        marks = {"passed": "  ok   ", "not run": "  --   "}
        lines += [
            f"{marks.get(r.outcome, '  no   ')}{r.words}" + (f": {r.message}" if r.message else "")
            for r in self.results
        ]
        has_hidden = any(c.hidden for c in exercise(self.exercise).checks)
        if has_hidden and not self.includes_hidden and right == len(self.results):
            lines.append("These are not all: grading has others, on what you have not seen.")
        if self.entered:
            lines.append(self.entered)
        return "\n".join(lines)

    __repr__ = __str__


def exercise(name: str) -> Exercise:
    """Return the exercise of a name.

    Raises:
        BadOption: there is none; the error lists those that exist.
    """
    if name not in EXERCISES:
        names = ", ".join(EXERCISES)
        raise BadOption(f"there is no exercise {name!r}", where=name, expected=names)
    return EXERCISES[name]


def check(name: str, answer: Any) -> Verdict:
    """Run the visible checks of an answer; a policy that passes enters the compiler by name."""
    spec = exercise(name)
    verdict = _run_checks(
        spec, answer, [c for c in spec.checks if not c.hidden], VISIBLE_SEED, False
    )
    log_event("checked", name, outcome=verdict.outcome, points=verdict.points)
    if verdict.outcome != "passed" or not spec.policy_of:
        return verdict
    policy_call.register(spec.policy_of, spec.policy_name, spec.as_policy(answer))
    option = f"{spec.policy_of}.policy"
    return replace(
        verdict,
        entered=f"It is {spec.policy_name!r} among the choices of {option} now, in "
        "explorers and in options.",
    )


def grade(name: str, answer: Any, seed: int) -> Verdict:
    """Run all checks of an answer of this process on values drawn from `seed`.

    `grading.grade_notebook` grades the answers of others.
    """
    spec = exercise(name)
    return _run_checks(spec, answer, spec.checks, seed, True)


def verdict_without_answer(name: str, why: str = "") -> Verdict:
    """Return the verdict of a cell without an answer.

    It is "not attempted", unless `why` says how the cell fails.
    """
    outcome: Outcome = "wrong" if why else "not attempted"
    others: Outcome = "not run" if why else "not attempted"
    results = tuple(
        Result(c.words, others if n else outcome, 0, c.points, "" if n else why)
        for n, c in enumerate(exercise(name).checks)
    )
    return Verdict(name, results, True)


def expect(name: str, answer: Any, number: int, seed: int = VISIBLE_SEED) -> None:
    """Raise an AssertionError unless an answer passes one check; other graders call this."""
    spec = exercise(name)
    count = len(spec.checks)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        raise BadOption(
            f"the exercise {name!r} has the checks 0 to {count - 1}, and no {shown(number)}",
            where="number",
            expected=f"a whole number from 0 to {count - 1}",
        )
    (result,) = _run_checks(spec, answer, [spec.checks[number]], seed, True).results
    if result.outcome != "passed":
        raise AssertionError(f"{result.words}: {result.message or result.outcome}")


def hint(name: str) -> str:
    """Return the next hint, or the last one again; each is logged."""
    hints = exercise(name).hints
    n = min(len(logged_events("hint", name)), len(hints) - 1)
    log_event("hint", name, number=n + 1)
    return f"Hint {n + 1} of {len(hints)}: {hints[n]}"


def solution(name: str) -> str:
    """Return a worked solution as the text of a cell; the look at it is logged."""
    log_event("solution", name)
    return exercise(name).solution


def _run_checks(
    spec: Exercise, answer: Any, checks: Sequence[Check], seed: int, includes_hidden: bool
) -> Verdict:
    def report_all(report: Callable[[str], None]) -> None:
        if spec.is_function and not callable(answer):
            why = f"{spec.answer} is {shown(answer)}, and must be a function"
            report(json.dumps(("wrong", why)))
            return
        report_checks(LocalAnswer(answer), checks, seed, report)

    if is_helper():
        texts: list[str] = []
        report_all(texts.append)
        return verdict_of(spec, checks, texts, includes_hidden=includes_hidden)
    try:
        reported = in_helper(report_all, spec.limits)
    except Ended as ended:
        return verdict_of(spec, checks, ended.reported, f"it {ended.why}", includes_hidden)
    return verdict_of(spec, checks, reported, includes_hidden=includes_hidden)


def report_checks(
    answer: Answer, checks: Sequence[Check], seed: int, report: Callable[[str], None]
) -> None:
    """Report the outcome of each check as a line for `verdict_of`."""
    for item in checks:
        outcome, message = _run_check(item, answer, seed)
        report(json.dumps((outcome, message)))
        if outcome == "not attempted":
            return


def verdict_of(
    spec: Exercise,
    checks: Sequence[Check],
    reported: Sequence[str],
    why: str = "",
    includes_hidden: bool = True,
) -> Verdict:
    """Return the verdict of the reported lines; `why` is how the check after them ended."""
    outcomes: list[tuple[Outcome, str]] = [_read_outcome(text) for text in reported]
    if why:
        outcomes.append(("wrong", why))
    if outcomes and outcomes[-1][0] == "not attempted":
        outcomes = [("not attempted", "")] * len(checks)
    outcomes += [("not run", "")] * (len(checks) - len(outcomes))
    results = tuple(
        Result(c.words, outcome, c.points if outcome == "passed" else 0, c.points, message)
        for c, (outcome, message) in zip(checks, outcomes)
    )
    return Verdict(spec.name, results, includes_hidden)


def _read_outcome(text: str) -> tuple[Outcome, str]:
    outcome, message = json.loads(text)
    return outcome, message


def _run_check(check: Check, answer: Answer, seed: int) -> tuple[Outcome, str]:
    judge: Callable[[Any, int], object] = check.judge  # by its type it returns None
    try:
        returned = judge(answer, seed)
    except (MemoryError, Ended):
        raise
    except (Exception, SystemExit) as problem:  # an answer may raise anything
        return outcome_of(problem)
    if returned is not None:
        why = f"the check returned {shown(returned)}: checks raise Wrong, or return nothing"
        return "not run", f"{why}; this is a fault of the exercise"
    return "passed", ""
