"""Whose code it is: what may change while the process runs, and what may ask the world outside."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any


def words(text: str) -> frozenset[str]:
    """A set of words, written in lines."""
    return frozenset(text.split())


OURS = "explorer"
PURE = words(  # of the standard library: what these hold depends on its arguments alone
    """
    __future__ _abc _bisect _collections _collections_abc _functools _heapq _operator _statistics
    _struct _typing abc bisect builtins cmath collections contextlib copy dataclasses enum fractions
    functools graphlib heapq itertools keyword math numbers operator re string statistics struct
    textwrap types typing
    """
)
ASKED = words(  # what installed packages call that which finds out more: random numbers, files
    """
    random rand randn randint default_rng seed load loadtxt genfromtxt fromfile fromregex memmap
    open open_memmap DataSource environ getenv
    """
)
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def kind_of(module: str) -> str:
    """ "ours", "pure", "impure", "installed" or "written": by people, and so what may change.

    "pure" and "impure" are of the standard library; cells, and a module that nobody can find, are
    "written".
    """
    top = module.partition(".")[0]
    if top == "__main__":
        return "written"
    if top == OURS:
        return "ours"
    if top in sys.stdlib_module_names:
        return "pure" if top in PURE else "impure"
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None) if isinstance(found, ModuleType) else None
    return "installed" if isinstance(file, str) and _is_installed(file) else "written"


@lru_cache(maxsize=1024)
def _is_installed(file: str) -> bool:
    return any(file.startswith(folder) for folder in _folders())


@lru_cache(maxsize=1)
def _folders() -> tuple[str, ...]:
    found = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return tuple({f"{f}/" for f in found if f})


def module_of(function: FunctionType) -> str:
    """The module whose globals a function reads, whatever it says of itself."""
    return str(function.__globals__.get("__name__"))


def is_written(value: object) -> bool:
    """Whether somebody put a function, a class or a module of their own into those of others."""
    if isinstance(value, FunctionType):
        return kind_of(module_of(value)) == "written"
    if isinstance(value, ModuleType):
        return True
    return isinstance(value, type) and kind_of(value.__module__) == "written"


def is_public(value: Any) -> bool:
    """Whether a module that nobody writes holds it under its own name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)):
        return False
    found = sys.modules.get(module)
    if found is None or vars(found).get(name) is not value or {*module.split("."), name} & ASKED:
        return False
    return kind_of(module) in ("ours", "pure", "installed")


def is_python(kind: type) -> bool:
    """Whether a class was made by a class statement: its objects hold nothing that nobody sees."""
    new = vars(kind).get("__new__")
    in_c = isinstance(new, BuiltinFunctionType) and new.__self__ is kind
    return bool(kind.__flags__ & HEAP_TYPE) and not in_c


@lru_cache(maxsize=1024)
def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a frozen value of this package: what else it has follows from them."""
    ours = is_dataclass(kind) and kind_of(kind.__module__) == "ours"
    return tuple(f.name for f in fields(kind)) if ours else ()
