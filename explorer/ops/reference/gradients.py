"""What a gradient means: the function that the differentiating pass makes of it.

The pass stands above the operators and says so when it is loaded; the interpreter asks here.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.ir.calls import Gradient
from explorer.ir.program import Program

Meaning = Callable[[Program], Program]
_meaning: list[Meaning] = []


def gradients_mean(make: Meaning) -> Meaning:
    """Let this function make programs without gradients of those that have some."""
    _meaning[:] = [make]
    return make


def without_gradients(program: Program) -> Program:
    """The program, its gradients spelled out."""
    if not any(isinstance(b.expr, Gradient) for _, b in program.bindings()):
        return program
    return _meaning[0](program)
