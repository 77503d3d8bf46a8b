"""User-defined rewrites: a rule for a single binding, applied until nothing changes.

With a rule for products by one:

    t = x * 1; y = t * 1   ->   t = x; y = t
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from explorer.errors import BadOption
from explorer.ir.calls import Expr
from explorer.ir.program import Binding, Program
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import record_match

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
