"""Gradients in the reference interpreter: it runs the program that differentiation makes.

Importing this module registers that. It loads nothing that traces Python.
"""

from __future__ import annotations

from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ops.interpreter.evaluate import register_differentiation
from explorer.relax import deduce, legalize
from explorer.transforms.autodiff import Differentiate


@register_differentiation
def spelled_out(program: Program) -> Program:
    """Return a program without gradients for the interpreter to run."""
    typed = program if program.stage >= Stage.TYPED else deduce(program)
    return Differentiate(legalize)(typed)
