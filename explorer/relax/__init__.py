"""Relax (Lai et al., ASPLOS 2025): symbolic shapes deduced forward, operators made loop nests.

The paper's nouns here: annotation deduction (`deduce`), first-class symbolic shape, `match_cast`,
cross-level call, partial lowering (`legalize`), library dispatch.
"""

from __future__ import annotations

from explorer.relax.deduction import deduce
from explorer.relax.legalization import legalize
from explorer.relax.memory_plan import PlanMemory

__all__ = ["PlanMemory", "deduce", "legalize"]
