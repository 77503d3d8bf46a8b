"""Relax (Lai et al., ASPLOS 2025): deduction of symbolic shapes, and lowering to loop nests.

The paper's nouns here: annotation deduction (`deduce`), first-class symbolic shape, `match_cast`,
cross-level call, partial lowering (`legalize`), library dispatch (`Dispatch`), analysis feedback
(`kinds`), operator fusion (`FuseOps`), dynamic memory planning (`plan_storages`).
"""

from __future__ import annotations

from explorer.relax.deduction.deduction import deduce
from explorer.relax.dispatch import Dispatch
from explorer.relax.fusion import FuseOps
from explorer.relax.legalization import Legalize, legalize
from explorer.relax.memory.plan import Options as MemoryOptions
from explorer.relax.memory.plan import PlanMemory
from explorer.relax.memory.storages import plan_storages
from explorer.relax.options import Options
from explorer.relax.pattern_kinds import kinds

__all__ = [
    "Dispatch",
    "FuseOps",
    "Legalize",
    "MemoryOptions",
    "Options",
    "PlanMemory",
    "deduce",
    "kinds",
    "legalize",
    "plan_storages",
]
