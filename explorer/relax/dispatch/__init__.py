"""Library dispatch (Relax, section 4.6): graph patterns that a library takes, tried in order.

Operators without a match are lowered as usual, which is the paper's partial lowering.
"""

from explorer.relax.dispatch.pattern import Match, Op, number, op, wild
from explorer.relax.dispatch.policy import Moved, choose
from explorer.relax.dispatch.registry import LibraryPattern, library, patterns
from explorer.relax.dispatch.transform import Dispatch

__all__ = [
    "Dispatch",
    "LibraryPattern",
    "Match",
    "Moved",
    "Op",
    "choose",
    "library",
    "number",
    "op",
    "patterns",
    "wild",
]
