"""What a rewritten function's control flow means when it runs: Python's own where Python knows the
values, else a branch or a loop of the program that is traced. A rewritten function calls these.
"""

from __future__ import annotations

from explorer.frontends.syntax.changes import changed, renewed
from explorer.frontends.syntax.choice import either, if_
from explorer.frontends.syntax.repeat import for_, while_
from explorer.frontends.syntax.rows import rows
from explorer.frontends.syntax.truth import and_, chain, not_, or_, plain, plain_rows
from explorer.frontends.syntax.values import MISSING, read

slice_ = slice

__all__ = [
    "MISSING",
    "and_",
    "chain",
    "changed",
    "either",
    "for_",
    "if_",
    "not_",
    "or_",
    "plain",
    "plain_rows",
    "read",
    "renewed",
    "rows",
    "slice_",
    "while_",
]
