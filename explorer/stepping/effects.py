"""Detection of steps that changed nothing."""

from __future__ import annotations

from typing import Protocol

from explorer.ir.program import Program


class Taken(Protocol):
    """A step with the programs before and after it."""

    @property
    def before(self) -> Program:
        """The program before the step."""

    @property
    def after(self) -> Program:
        """The program after the step."""


def did(step: Taken) -> bool:
    """Return True if a step changed the program or a decision about it."""
    return step.before.decisions is not step.after.decisions or _other(step.before, step.after)


def _other(before: Program, after: Program) -> bool:
    """Return True if a binding is new, gone or different."""
    if before.functions is after.functions:
        return False
    old, new = ({b.vars: b for _, b in p.bindings()} for p in (before, after))
    return old != new
