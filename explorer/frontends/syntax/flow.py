"""Control flow of rewritten functions at tracing time; rewritten code calls these functions.

Known values run as Python; others become branches and loops of the traced program.
"""

from __future__ import annotations

from explorer.frontends.syntax.changes import assign_element, augment_element
from explorer.frontends.syntax.choice import either, if_
from explorer.frontends.syntax.repeat import for_, while_
from explorer.frontends.syntax.rows import rows
from explorer.frontends.syntax.truth import and_, chain, not_, or_, plain, plain_rows
from explorer.frontends.syntax.values import MISSING, read

slice_ = slice

__all__ = [
    "MISSING",
    "and_",
    "assign_element",
    "augment_element",
    "chain",
    "either",
    "for_",
    "if_",
    "not_",
    "or_",
    "plain",
    "plain_rows",
    "read",
    "rows",
    "slice_",
    "while_",
]
