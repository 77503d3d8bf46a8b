"""Code: where it comes from, and the names that it refers to.

The origin says whether code may change while the process runs, or may have side inputs.
"""

from __future__ import annotations

import dis
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, reduce
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
# How installed packages begin the names of impure functions: random numbers, files.
IMPURE = re.compile(
    "rand|default_rng|seed|load|read|open|from_?file|fromregex|genfromtxt|memmap|DataSource|environ"
    "|getenv"
)
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
BETWEEN = ("EXTENDED_ARG", "CACHE", "NOP", "PUSH_NULL")  # these keep the loaded value
Chain = tuple[str, ...]


def kind_of(module: str) -> str:
    """Return the origin of a module: "ours", "pure", "impure", "installed" or "written".

    "pure" and "impure" are of the standard library. User code is "written" and may change: cells,
    and modules without a file in an installed package, whatever their names.
    """
    top = module.partition(".")[0]
    if top == "__main__":
        return "written"
    if top == OURS:
        return "ours"
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None) if isinstance(loaded, ModuleType) else None
    kind = _kind_of_file(file) if isinstance(file, str) else ""
    if not kind and top in sys.stdlib_module_names:
        return "pure" if top in PURE else "impure"
    return kind or "written"


@lru_cache(maxsize=1024)
def _kind_of_file(file: str) -> str:
    """Return "installed", "written" for a file of Python outside of the libraries, else ""."""
    if any(file.startswith(f"{sysconfig.get_path(name)}/") for name in ("purelib", "platlib")):
        return "installed"
    is_standard = file.startswith(f"{os.path.dirname(os.__file__)}/")
    return "" if is_standard or not file.endswith(".py") else "written"


def is_impure(names: Iterable[str]) -> bool:
    """Return True if a function of an installed package with one of these names may be impure."""
    return any(map(IMPURE.match, names))


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
    """Return True if a value is a function or class of user code, or a module."""
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
    path = name.split(".")
    exported = reduce(lambda owner, part: getattr(owner, part, None), path, sys.modules.get(module))
    if exported is not value or is_impure((*module.split("."), *path)):
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


@dataclass(frozen=True, slots=True)
class References:
    """The names that code refers to, those of nested functions included.

    `chains`: each global name that it loads, with the attributes read from it at once, such as
    ("math", "pi"), in program order. `imports`: the modules that it imports when it runs, with
    their relative import levels. `names`: every name that it loads, stores or reads as an
    attribute.
    """

    chains: tuple[Chain, ...]
    imports: tuple[tuple[str, int], ...]
    names: frozenset[str]


@lru_cache(maxsize=1024)
def references(code: CodeType) -> References:
    """Return the names that the code refers to."""
    chains: list[list[str]] = []
    imports: list[tuple[str, int]] = []
    chain: list[str] | None = None
    before: list[Any] = [0, None]  # the last two arguments: of an import, the level and the names
    for step in dis.get_instructions(code):
        if step.opname in LOADS:
            chain = [str(step.argval)]
            if not chain[0].startswith("@"):  # an assertion that pytest has rewritten
                chains.append(chain)
        elif step.opname in ATTRIBUTES and chain is not None:
            chain.append(str(step.argval))
        elif step.opname not in BETWEEN:
            chain = None
        if step.opname == "IMPORT_NAME":
            level, only = before
            path = str(step.argval).split(".")  # `import a.b` gives access to `a`
            first = len(path) if only else 1
            level = level if isinstance(level, int) else 1
            imports += ((".".join(path[:n]), level) for n in range(first, len(path) + 1))
        elif step.opname not in BETWEEN:
            before = [before[1], step.argval]
    inner = [references(c) for c in code.co_consts if isinstance(c, CodeType)]
    own = [tuple(c) for c in chains]
    return References(
        tuple(dict.fromkeys((*own, *(c for i in inner for c in i.chains)))),
        (*imports, *(m for i in inner for m in i.imports)),
        frozenset(code.co_names).union(*(i.names for i in inner)),
    )
