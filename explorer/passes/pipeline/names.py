"""Fresh names."""

from __future__ import annotations

from collections.abc import Container
from itertools import count


def fresh(wish: str, taken: Container[str]) -> str:
    """Return the wished name, or the first of `wish2`, `wish3`, ... that is not taken."""
    if wish not in taken:
        return wish
    return next(name for n in count(2) if (name := f"{wish}{n}") not in taken)
