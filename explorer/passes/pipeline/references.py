"""Global names that a code object refers to, with the attributes read from them."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
BETWEEN = ("EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL")  # these keep the loaded value

Chain = tuple[str, ...]


@lru_cache(maxsize=1024)
def references(code: CodeType) -> tuple[Chain, ...]:
    """Return each global name that the code loads, with the attributes read from it at once.

    An entry is a chain such as ("math", "pi"), in program order. Nested functions are included.
    """
    chains: list[list[str]] = []
    chain: list[str] | None = None
    for step in dis.get_instructions(code):
        if step.opname in LOADS:
            chain = [str(step.argval)]
            chains.append(chain)
        elif step.opname in ATTRIBUTES and chain is not None:
            chain.append(str(step.argval))
        elif step.opname not in BETWEEN:
            chain = None
    own = dict.fromkeys(tuple(c) for c in chains)
    return tuple(dict.fromkeys((*own, *(c for inner in nested(code) for c in references(inner)))))


@lru_cache(maxsize=1024)
def imports(code: CodeType) -> tuple[tuple[str, int], ...]:
    """Return the modules that the code imports at run time, with their relative import levels."""
    modules: list[tuple[str, int]] = []
    loaded: list[object] = []
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            level = loaded[-2] if len(loaded) > 1 else 0
            modules.append((str(step.argval), level if isinstance(level, int) else 0))
        elif step.opname not in BETWEEN:
            loaded.append(step.argval)
    return (*modules, *(m for inner in nested(code) for m in imports(inner)))


@lru_cache(maxsize=1024)
def names(code: CodeType) -> frozenset[str]:
    """Return every name that the code loads, stores or reads as an attribute."""
    return frozenset(code.co_names).union(*(names(inner) for inner in nested(code)))


def nested(code: CodeType) -> Iterator[CodeType]:
    """Return the code objects of nested functions and classes."""
    return (c for c in code.co_consts if isinstance(c, CodeType))
