"""Calls of user-defined policies, with one-sentence errors.

An error names the policy, the kernel, function or wall that it was called for, and the broken rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from explorer.errors import BadPolicy, Cancelled, VerifyError
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.ops.kernels.verify_kernel import verify_kernel
from explorer.ops.reference.cancellation import cancelling_user_code
from explorer.ops.reference.verify import verify
from explorer.passes.pipeline.user_pass import describe_error
from explorer.passes.policies.registered import name_of
from explorer.sandbox.line import at_line

LONGEST_CHARACTERS = 200  # of a user's value in a sentence; chosen


def policy_name(policy: object) -> str:
    """Return the name of a policy: the registered one, its own, or that of its type."""
    if isinstance(policy, str):
        return policy
    return name_of(policy) or str(getattr(policy, "__name__", type(policy).__name__))


def a(value: object) -> str:
    """Return the type name of a value with its article: "an int", "None"."""
    name = type(value).__name__
    if value is None:
        return "None"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def shown(value: object) -> str:
    """Return the text of a value in a few characters, even if its repr raises."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's code may raise anything
        text = type(value).__name__
    return text if len(text) <= LONGEST_CHARACTERS else f"{text[:LONGEST_CHARACTERS]}…"


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """A call of a policy of `room` (Welder, Roller, ...) about a kernel, a function or a wall."""

    room: str
    policy: object
    about: str = ""

    def refused(
        self, rule: str, expected: object = "", actual: object = "", try_: object = ""
    ) -> BadPolicy:
        """Return the error about an answer: `rule` says what was returned and what was expected."""
        context = f", called for {self.about}," if self.about else ""
        return BadPolicy(
            f"{self.room}'s policy {policy_name(self.policy)!r}{context} {rule}",
            where=self.about or policy_name(self.policy),
            expected=expected,
            actual=actual,
            try_=try_,
        )

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Attribute exceptions raised inside to the policy; Ctrl-C and Cancelled pass."""
        try:
            with cancelling_user_code(f"{self.room}'s policy {policy_name(self.policy)!r}"):
                yield
        except Cancelled:
            raise
        except BadPolicy as problem:  # a rule that a system checks while the policy runs
            broken = f"broke a rule: {problem.sentence}"
            refusal = self.refused(broken, problem.expected, problem.actual, problem.try_)
            refusal.where = problem.where or refusal.where
            raise refusal from problem
        except (Exception, SystemExit) as problem:  # a user's code may raise anything
            raise self.refused(f"failed: {describe_error(problem)}{at_line(problem)}") from problem

    def collect(self, ask: Callable[[], object], most: int, what: str) -> tuple[object, ...]:
        """Return at most `most` results of the policy; BadPolicy if it returns no iterable."""
        with self.guarding():
            answer = ask()
            if isinstance(answer, Iterable) and not isinstance(answer, (str, bytes, dict)):
                return tuple(islice(answer, most))
        raise self.refused(
            f"returned {a(answer)}, and must return {what} one by one", what, shown(answer)
        )

    def check_well_formed(self, check: Callable[[], None], what: str) -> None:
        """Raise BadPolicy if the policy's result is not well formed."""
        try:
            check()
        except VerifyError as problem:
            raise self.refused(f"returned {what}: {problem.sentence}") from problem

    def check_kernel(self, kernel: Kernel, name: str) -> None:
        """Raise BadPolicy unless a kernel is well formed."""
        self.check_well_formed(
            lambda: verify_kernel(kernel, f"the kernel of {name}"), "an invalid kernel"
        )

    def check_program(self, program: Program) -> None:
        """Raise BadPolicy unless the program built from the results is well formed."""
        self.check_well_formed(lambda: verify(program), "an invalid program")
