"""The pass that differentiates: it loads reverse mode when a program has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.ir.calls import Gradient
from explorer.ir.program import Program
from explorer.passes.registry import compiler_pass


@compiler_pass(
    "differentiate", paper="Griewank and Walther 2008, Evaluating Derivatives, chapter 3"
)
@dataclass(frozen=True, slots=True)
class Differentiate:
    """Gradients as explicit bindings; `legalise` lowers an operator to loop nests."""

    legalise: Callable[[Program], Program]

    def __call__(self, program: Program) -> Program:
        """Replace every gradient.

        After: no gradient is left. The differentiated function is inlined with its operators,
        followed by kernels that compute the derivatives.
        """
        if not any(isinstance(b.expr, Gradient) for _, b in program.bindings()):
            return program
        # most programs have no gradient, and reverse mode is ten modules
        from explorer.transforms.autodiff.transform import differentiated

        return differentiated(program, self.legalise)
