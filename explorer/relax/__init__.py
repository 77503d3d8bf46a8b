"""Relax (Lai et al., ASPLOS 2025): deduction of symbolic shapes, and lowering to loop nests.

The paper's nouns here: annotation deduction (`deduce`), first-class symbolic shape, `match_cast`,
cross-level call, partial lowering (`legalize`), library dispatch (`Dispatch`), analysis feedback
(`kinds`), operator fusion (`FuseOps`). Dynamic memory planning is in `explorer.memory`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from explorer.relax.deduction.deduction import deduce
from explorer.relax.legalization import Legalize, legalize
from explorer.relax.options import Options
from explorer.relax.pattern_kinds import kinds

if TYPE_CHECKING:
    from explorer.relax.dispatch import Dispatch
    from explorer.relax.fusion import FuseOps

__all__ = [
    "Dispatch",
    "FuseOps",
    "Legalize",
    "Options",
    "deduce",
    "kinds",
    "legalize",
]

ASKED_FOR = {"Dispatch": "explorer.relax.dispatch", "FuseOps": "explorer.relax.fusion"}


def __getattr__(name: str) -> Any:
    """Load the passes that only an option asks for when they are first used."""
    if name in ASKED_FOR:
        return getattr(import_module(ASKED_FOR[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
