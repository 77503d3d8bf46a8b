"""Parse Python source while other threads do."""

from __future__ import annotations

import ast

ATTEMPTS = 20


def parse(source: str) -> ast.Module:
    """Return the syntax tree of Python source.

    CPython 3.11 counts the recursion depth of `ast.parse` for all threads together, so one that
    parses meanwhile makes it raise SystemError (python/cpython issue 106905). It is tried again.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
