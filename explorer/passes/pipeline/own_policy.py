"""A policy of the user's own: what it raises, and what it gives that breaks a rule, is one sentence
that names the policy, what it was asked about, and the rule.
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
from explorer.ops.reference.cancellation import while_wanted
from explorer.ops.reference.verify import verify
from explorer.passes.pipeline.own_pass import said
from explorer.passes.policies.registered import name_of
from explorer.sandbox.line import at_line

LONGEST_CHARACTERS = 200  # of what somebody else's value looks like; chosen


def policy_name(policy: object) -> str:
    """What pictures and sentences call a policy: the name that it is registered under, its own, or
    that of its type.
    """
    if isinstance(policy, str):
        return policy
    return name_of(policy) or str(getattr(policy, "__name__", type(policy).__name__))


def a(value: object) -> str:
    """What a value is, with its article: "an int", "None"."""
    name = type(value).__name__
    if value is None:
        return "None"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def shown(value: object) -> str:
    """A value in a few characters, whatever its own text does."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's code may raise anything
        text = type(value).__name__
    return text if len(text) <= LONGEST_CHARACTERS else f"{text[:LONGEST_CHARACTERS]}…"


@dataclass(frozen=True, slots=True)
class Asked:
    """A policy that is asked about something: `room` is Welder, Roller, Rammer or another; `about`
    a kernel, a function or a wall.
    """

    room: str
    policy: object
    about: str = ""

    def refused(
        self, rule: str, expected: object = "", found: object = "", try_: object = ""
    ) -> BadPolicy:
        """The sentence about an answer: `rule` says what was given, and what it must be."""
        asked = f", asked about {self.about}," if self.about else ""
        return BadPolicy(
            f"{self.room}'s policy {policy_name(self.policy)!r}{asked} {rule}",
            where=self.about or policy_name(self.policy),
            expected=expected,
            found=found,
            try_=try_,
        )

    @contextmanager
    def answering(self) -> Iterator[None]:
        """What the policy raises is told as its own; Ctrl-C and Cancelled pass."""
        try:
            with while_wanted(f"{self.room}'s policy {policy_name(self.policy)!r}"):
                yield
        except Cancelled:
            raise
        except BadPolicy as problem:  # a rule that a room checks while the policy runs
            broken = f"broke a rule: {problem.sentence}"
            told = self.refused(broken, problem.expected, problem.found, problem.try_)
            told.where = problem.where or told.where
            raise told from problem
        except (Exception, SystemExit) as problem:  # a user's code may raise anything
            raise self.refused(f"failed: {said(problem)}{at_line(problem)}") from problem

    def taken(self, ask: Callable[[], object], most: int, what: str) -> tuple[object, ...]:
        """What the policy gives one by one, at most so many; BadPolicy where it is no iterable."""
        with self.answering():
            answer = ask()
            if isinstance(answer, Iterable) and not isinstance(answer, (str, bytes, dict)):
                return tuple(islice(answer, most))
        raise self.refused(
            f"gave {a(answer)}, and must give {what} one by one", what, shown(answer)
        )

    def sound(self, check: Callable[[], None], what: str) -> None:
        """BadPolicy where what was given is not well formed."""
        try:
            check()
        except VerifyError as problem:
            raise self.refused(f"gave {what}: {problem.sentence}") from problem

    def sound_kernel(self, kernel: Kernel, name: str) -> None:
        """BadPolicy unless a kernel is well formed."""
        self.sound(lambda: verify_kernel(kernel, f"the kernel of {name}"), "a kernel that is none")

    def sound_program(self, program: Program) -> None:
        """BadPolicy unless what was made of the answers is a program."""
        self.sound(lambda: verify(program), "what makes no program")
