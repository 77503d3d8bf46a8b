"""What a code object refers to outside of itself: global names, with the attributes that follow."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
BETWEEN = ("EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL")  # these change nothing that was loaded

Chain = tuple[str, ...]


@lru_cache(maxsize=1024)
def references(code: CodeType) -> tuple[Chain, ...]:
    """Each global name that the code loads with the attributes that it asks of it at once, such as
    ("math", "pi"), in order; those of the functions that are made inside as well.
    """
    found: list[list[str]] = []
    chain: list[str] | None = None
    for step in dis.get_instructions(code):
        if step.opname in LOADS:
            chain = [str(step.argval)]
            found.append(chain)
        elif step.opname in ATTRIBUTES and chain is not None:
            chain.append(str(step.argval))
        elif step.opname not in BETWEEN:
            chain = None
    own = dict.fromkeys(tuple(c) for c in found)
    return tuple(dict.fromkeys((*own, *(c for inner in nested(code) for c in references(inner)))))


@lru_cache(maxsize=1024)
def imports(code: CodeType) -> tuple[tuple[str, int], ...]:
    """The modules that the code imports while it runs, each with its level of dots."""
    found: list[tuple[str, int]] = []
    loaded: list[object] = []
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            level = loaded[-2] if len(loaded) > 1 else 0
            found.append((str(step.argval), level if isinstance(level, int) else 0))
        elif step.opname not in BETWEEN:
            loaded.append(step.argval)
    return (*found, *(m for inner in nested(code) for m in imports(inner)))


@lru_cache(maxsize=1024)
def names(code: CodeType) -> frozenset[str]:
    """Every name that the code loads, stores or asks an attribute by."""
    return frozenset(code.co_names).union(*(names(inner) for inner in nested(code)))


def nested(code: CodeType) -> Iterator[CodeType]:
    """The code of the functions and classes that are made inside."""
    return (c for c in code.co_consts if isinstance(c, CodeType))
