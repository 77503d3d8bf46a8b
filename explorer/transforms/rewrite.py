"""Rewrite rules: user-defined ones for a single binding, and the record of the matches of all.

A user's rule is applied until nothing changes. With a rule for products by one:

    t = x * 1; y = t * 1   ->   t = x; y = t

A pass reports where its rule matched and what replaced it. Nothing records while a model is
compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, get_args

from explorer.errors import BadOption
from explorer.ir.calls import Expr
from explorer.ir.program import Binding, Program
from explorer.passes.registry import compiler_pass

Rule = Callable[[Binding, Program], Expr | None]
MOST_ROUNDS = 100  # before a rule is refused as endless; chosen


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A pass that applies a rule to every binding of every function until nothing changes.

    The rule returns the expression that replaces the binding's own, or None.
    """

    rule: Rule

    def __call__(self, program: Program) -> Program:
        """Apply the rule round after round.

        Raises:
            BadOption: the rule still changes the program after `MOST_ROUNDS` rounds.
        """
        for _ in range(MOST_ROUNDS):
            after = self._once(program)
            if after is program:
                return program
            program = after
        raise BadOption(
            f"it still changed the program after {MOST_ROUNDS} rounds: a rule must return None "
            "where nothing is left to do"
        )

    def _once(self, program: Program) -> Program:
        functions = tuple(
            replace(f, body=tuple(self._changed(b, program) for b in f.body))
            for f in program.functions
        )
        return program if functions == program.functions else replace(program, functions=functions)

    def _changed(self, binding: Binding, program: Program) -> Binding:
        replacement = self.rule(binding, program)
        if replacement is None or replacement == binding.expr:
            return binding
        if not isinstance(replacement, get_args(Expr)):
            raise BadOption(
                f"the rule returned {type(replacement).__name__}, and must return an expression "
                "or None"
            )
        after = replace(binding, expr=replacement)
        record_match(self.rule, (binding,), (after,))
        return after


def rewrite(name: str, after: str, **limits: Any) -> Callable[[Rule], Rule]:
    """Register a rule for one binding as a pass.

    `rule(binding, program)` returns the expression that replaces the binding's own, or None. The
    pass runs `after` the named step. Registering a name again replaces the earlier rule. `limits`
    and errors are those of `compiler_pass`.
    """

    def register(rule: Rule) -> Rule:
        rewrite_pass = Rewrite(rule)
        compiler_pass(name, after=after, **limits)(rewrite_pass)
        return rule

    return register


@dataclass(frozen=True, slots=True)
class Match:
    """A rule, the bindings where it matched, and the bindings that replaced them.

    A match shows the bindings as they were then: a rule may match the result of an earlier match.
    `title` is the name shown to readers; "" stands for the rule's own name.
    """

    rule: Callable[..., Any]
    before: tuple[Binding, ...]
    after: tuple[Binding, ...]
    title: str = ""


_listening: ContextVar[list[Match] | None] = ContextVar("matches", default=None)


@contextmanager
def recording() -> Iterator[list[Match]]:
    """Record the matches of all rules inside the context in a list."""
    matches: list[Match] = []
    token = _listening.set(matches)
    try:
        yield matches
    finally:
        _listening.reset(token)


def is_recorded() -> bool:
    """Return True if matches are recorded, so that data only for the record is worth computing."""
    return _listening.get() is not None


def record_match(
    rule: Callable[..., Any],
    before: tuple[Binding, ...],
    after: tuple[Binding, ...],
    title: str = "",
) -> None:
    """Record a match if a listener is active."""
    matches = _listening.get()
    if matches is not None:
        matches.append(Match(rule, before, after, title))
