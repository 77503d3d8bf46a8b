"""What a gradient means to the reference interpreter: the program that differentiating makes of it.

Importing it says so. It loads nothing that traces Python.
"""

from __future__ import annotations

from explorer.autodiff import Differentiate
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ops.reference.gradients import gradients_mean
from explorer.relax import deduce, legalize


@gradients_mean
def spelled_out(program: Program) -> Program:
    """A program without gradients, as the interpreter runs those that have some."""
    typed = program if program.stage >= Stage.TYPED else deduce(program)
    return Differentiate(legalize)(typed)
