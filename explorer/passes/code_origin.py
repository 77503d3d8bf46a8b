"""Code objects: their origin, and the global names that they refer to.

The origin says whether code may change while the process runs, or may have side inputs.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any


def words(text: str) -> frozenset[str]:
    """Return the set of words in a text."""
    return frozenset(text.split())


OURS = "explorer"
PURE = words(  # standard library modules whose functions depend on their arguments only
    """
    __future__ _abc _bisect _collections _collections_abc _functools _heapq _operator _statistics
    _struct _typing abc bisect builtins cmath collections contextlib copy dataclasses enum fractions
    functools graphlib heapq itertools keyword math numbers operator re string statistics struct
    textwrap types typing
    """
)
IMPURE_NAMES = (
    words(  # names that installed packages give to impure functions: random numbers, files
        """
    random rand randn randint default_rng seed load loadtxt genfromtxt fromfile fromregex memmap
    open open_memmap DataSource environ getenv
    """
    )
)
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
BETWEEN = ("EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL")  # these keep the loaded value
Chain = tuple[str, ...]


def kind_of(module: str) -> str:
    """Return the origin of a module: "ours", "pure", "impure", "installed" or "written".

    "pure" and "impure" are of the standard library. User code is "written" and may change: cells,
    and modules without a file in an installed package.
    """
    top = module.partition(".")[0]
    if top == "__main__":
        return "written"
    if top == OURS:
        return "ours"
    if top in sys.stdlib_module_names:
        return "pure" if top in PURE else "impure"
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None) if isinstance(loaded, ModuleType) else None
    return "installed" if isinstance(file, str) and _is_installed(file) else "written"


@lru_cache(maxsize=1024)
def _is_installed(file: str) -> bool:
    return any(file.startswith(folder) for folder in _install_folders())


@lru_cache(maxsize=1)
def _install_folders() -> tuple[str, ...]:
    folders = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return tuple({f"{f}/" for f in folders if f})


def module_of(function: FunctionType) -> str:
    """Return the module whose globals a function reads, whatever its `__module__`."""
    return str(function.__globals__.get("__name__"))


def class_kind(cls: type) -> str:
    """Return the origin of a class, as `kind_of`: "written" if its module does not hold it.

    A class that `type` makes with a metaclass states the metaclass's module: `abc` for a target.
    What is of an impure module has no key either way.
    """
    kind = kind_of(cls.__module__)
    if kind in ("written", "impure") or not is_python(cls):
        return kind
    value: object = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        value = getattr(value, "__dict__", {}).get(name)
    return kind if value is cls else "written"


def is_user_code(value: object) -> bool:
    """Return True if a value is a function, class or module of user code."""
    if isinstance(value, FunctionType):
        return kind_of(module_of(value)) == "written"
    if isinstance(value, ModuleType):
        return True
    return isinstance(value, type) and class_kind(value) == "written"


def is_public(value: Any) -> bool:
    """Return True if a module other than user code exports a value under its own name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)):
        return False
    loaded = sys.modules.get(module)
    if (
        loaded is None
        or vars(loaded).get(name) is not value
        or {*module.split("."), name} & IMPURE_NAMES
    ):
        return False
    return kind_of(module) in ("ours", "pure", "installed")


def is_python(kind: type) -> bool:
    """Return True if a class statement made the class, so that its objects have no hidden state."""
    new = vars(kind).get("__new__")
    in_c = isinstance(new, BuiltinFunctionType) and new.__self__ is kind
    return bool(kind.__flags__ & HEAP_TYPE) and not in_c


@lru_cache(maxsize=1024)
def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a frozen value of this package, which determine its other attributes."""
    ours = is_dataclass(kind) and kind_of(kind.__module__) == "ours"
    return tuple(f.name for f in fields(kind)) if ours else ()


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
