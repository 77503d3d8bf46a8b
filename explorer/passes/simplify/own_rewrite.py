"""A rewrite of one's own: a rule for a single binding, applied until nothing changes.

t = x * 1; y = t * 1   ->   t = x; y = t      with a rule for products by one
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from explorer.errors import BadOption
from explorer.ir.calls import Expr
from explorer.ir.program import Binding, Program
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched

Rule = Callable[[Binding, Program], Expr | None]
MOST_ROUNDS = 100  # before a rule is told that it never ends; chosen


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A pass: every binding of every function for which `rule` gives an expression has that one
    instead, round after round, until it gives none. BadOption where it still does after so many.
    """

    rule: Rule

    def __call__(self, program: Program) -> Program:
        for _ in range(MOST_ROUNDS):
            after = self._once(program)
            if after is program:
                return program
            program = after
        raise BadOption(
            f"it still changed the program after {MOST_ROUNDS} rounds: a rule gives None where "
            "nothing is left to do"
        )

    def _once(self, program: Program) -> Program:
        functions = tuple(
            replace(f, body=tuple(self._changed(b, program) for b in f.body))
            for f in program.functions
        )
        return program if functions == program.functions else replace(program, functions=functions)

    def _changed(self, binding: Binding, program: Program) -> Binding:
        found = self.rule(binding, program)
        if found is None or found == binding.expr:
            return binding
        if not isinstance(found, get_args(Expr)):
            raise BadOption(
                f"the rule gave {type(found).__name__}, and gives an expression or None"
            )
        after = replace(binding, expr=found)
        matched(self.rule, (binding,), (after,))
        return after


def rewrite(name: str, after: str, **limits: Any) -> Callable[[Rule], Rule]:
    """Register a rule of one binding as a pass: `rule(binding, program)` gives the expression that
    takes the place of the binding's own, or None. It stands `after` a step, under its name;
    registered again it takes the place of the first. `limits` as of `compiler_pass`.

    Raises BadOption as `compiler_pass` does.
    """

    def register(rule: Rule) -> Rule:
        made = Rewrite(rule)
        compiler_pass(name, after=after, **limits)(made)
        return rule

    return register
