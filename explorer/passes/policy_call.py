"""Calls of user-defined policies, with one-sentence errors, and the policies that have names.

An error names the policy, the kernel, function or wall that it was called for, and the broken rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from explorer.errors import BadPolicy, Cancelled, VerifyError
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.ops.interpreter.verify import verify
from explorer.ops.verify_kernel import verify_kernel
from explorer.process.cancellation import cancelling_user_code
from explorer.process.sandbox import at_line
from explorer.process.user_code import Registry, a, describe_error, shown


def policy_name(policy: object) -> str:
    """Return the name of a policy: the registered one, its own, or that of its type."""
    if isinstance(policy, str):
        return policy
    return name_of(policy) or str(getattr(policy, "__name__", type(policy).__name__))


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


Value = TypeVar("Value")
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class ShippedPolicies(Mapping[str, Any]):
    """The policies that come with a system, by name: one is loaded when it is first asked for.

    `homes` are their dotted names.
    """

    homes: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        """Return the policy of a name."""
        module, _, attribute = self.homes[name].rpartition(".")
        return getattr(import_module(module), attribute)

    def __contains__(self, name: object) -> bool:
        """Return True if there is a policy of that name, without loading it."""
        return name in self.homes

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.homes)

    def __len__(self) -> int:
        """Return the number of policies."""
        return len(self.homes)


_registered = Registry[Mapping[str, Function]]()  # policies by name, by system


def register(system: str, name: str, policy: Function) -> None:
    """Register a policy under a name; a later one replaces it."""
    _registered[system] = {**_registered.get(system, {}), name: policy}


def forget(system: str, name: str) -> None:
    """Remove a name; KeyError if it is not registered."""
    others = dict(_registered.get(system, {}))
    del others[name]
    _registered[system] = others


def by_system(system: str) -> Mapping[str, Function]:
    """Return the user-defined policies of a system, by name."""
    return dict(_registered.get(system, {}))


def all_policies() -> tuple[Function, ...]:
    """Return the user-defined policies of all systems."""
    return tuple(function for names in _registered.values() for function in names.values())


def resolve(system: str, policy: Value) -> Value | Function:
    """Return the policy registered under a name; return anything else unchanged."""
    return _registered.get(system, {}).get(policy, policy) if isinstance(policy, str) else policy


def name_of(policy: object) -> str:
    """Return the name that a function is registered under, "" if none."""
    every = (pair for names in _registered.values() for pair in names.items())
    return next((name for name, function in every if function is policy), "")
