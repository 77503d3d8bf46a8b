"""Whether a step of the pipeline did anything."""

from __future__ import annotations

from typing import Protocol

from explorer.ir.program import Program


class Taken(Protocol):
    """A step that was taken."""

    @property
    def before(self) -> Program: ...
    @property
    def after(self) -> Program: ...


def did(step: Taken) -> bool:
    """Whether a step changed the program, took something away, or decided something of it."""
    return step.before.decisions is not step.after.decisions or _other(step.before, step.after)


def _other(before: Program, after: Program) -> bool:
    """Whether a binding is new, gone or another one."""
    if before.functions is after.functions:
        return False
    old, new = ({b.vars: b for _, b in p.bindings()} for p in (before, after))
    return old != new
