"""Content digests of values and functions: code, and everything that the code refers to.

A function is its bytecode with constants, defaults, closure and attributes, and, recursively, the
current values of its global names: numbers, dicts, arrays, objects, classes and other functions,
cycles included. Code of this package, of the standard library and of installed packages does not
change while a process runs, and is identified by name, except the functions and classes that it
makes then; user code, in cells, files and editable packages, is identified by content.
"""

from __future__ import annotations

import builtins
import functools
import operator
import re
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from hashlib import blake2b
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from explorer.cached_property import cached_property
from explorer.devices.model import Device, text_of_device
from explorer.ir.dims import is_symbolic
from explorer.ir.program import Constant
from explorer.passes.code_origin import (
    class_kind,
    field_names,
    is_impure,
    is_public,
    is_python,
    is_user_code,
    kind_of,
    module_of,
    references,
    words,
)

# Builtins that resolve names at run time or read the outside world.
DYNAMIC = words(
    """
    eval exec compile globals locals vars open input __import__ getattr setattr delattr id dir
    breakpoint
    """
)
DYNAMIC_ATTRIBUTES = words(
    """
    __globals__ __builtins__ __dict__ __code__ __closure__ __subclasses__ __getattribute__
    f_globals f_locals f_back f_builtins
    """
)
DESCRIPTORS = (
    MethodDescriptorType,
    WrapperDescriptorType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
)
NOT_CONTENT = words(  # attributes of classes and modules that derive from others
    """
    __dict__ __weakref__ __annotations__ __dataclass_fields__ __dataclass_params__ _abc_impl
    __orig_bases__ __parameters__ __firstlineno__ __annotate_func__ __annotations_cache__
    __annotate__ __abstractmethods__ __slotnames__ __static_attributes__ __builtins__ __cached__
    __loader__ __spec__
    """
)
BASES = (tuple, list, dict, set, frozenset, str, bytes, int, float)  # that classes may extend

# parts of well-known types: values with equal parts are equal
PARTS: dict[type, Callable[[Any], object]] = {
    list: tuple,
    bytearray: bytes,
    complex: lambda c: (c.real, c.imag),
    deque: lambda d: (tuple(d), d.maxlen),
    dict: lambda d: tuple(dict.items(d)),
    OrderedDict: lambda d: tuple(OrderedDict.items(d)),
    defaultdict: lambda d: (d.default_factory, tuple(dict.items(d))),
    MappingProxyType: lambda d: tuple(d.items()),
    partial: lambda p: (p.func, p.args, tuple(p.keywords.items()), tuple(vars(p).items())),
    slice: lambda s: (s.start, s.stop, s.step),
    range: lambda r: (r.start, r.stop, r.step),
    property: lambda p: (p.fget, p.fset, p.fdel),
    staticmethod: lambda m: m.__func__,
    classmethod: lambda m: m.__func__,
    functools.cached_property: lambda p: p.func,
    cached_property: lambda p: p.func,
    MethodType: lambda m: (m.__func__, m.__self__),
    Fraction: lambda f: (f.numerator, f.denominator),
    re.Pattern: lambda p: (p.pattern, p.flags),
    GenericAlias: lambda a: (a.__origin__, a.__args__),
    UnionType: lambda a: a.__args__,
    type(lru_cache(len)): lambda f: f.__wrapped__,
    Constant: lambda c: c.digest,
    Device: text_of_device,
    **dict.fromkeys((type(...), type(NotImplemented)), repr),
    **dict.fromkeys(
        (
            operator.itemgetter,
            operator.attrgetter,
            operator.methodcaller,
            type(vars(namedtuple("Point", "x"))["x"]),
        ),
        lambda getter: getter.__reduce__(),
    ),
}


class Unhashable(Exception):
    """A value or function whose behaviour its content does not determine; the message says why."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of values: a key, and whether all of their code is of this package.

    Contents with equal keys are of values that are equal, with everything that they refer to.
    """

    key: str
    is_ours: bool


def content_of(*values: object) -> Content:
    """Return the content of values, and of everything that they refer to.

    Raises:
        Unhashable: content does not determine what a value will do: files, iterators, locks, random
            numbers, clocks; names resolved at run time, as by `globals()`, `getattr` or `eval`.
    """
    walk = _Walk()
    try:
        walk.write(values)
    except RuntimeError as problem:  # too deep, or it changed meanwhile
        raise Unhashable(str(problem)) from None
    if walk.packages and walk.impure:  # which attributes are read of the package is not known
        raise Unhashable(f"{min(walk.impure)}, perhaps of {min(walk.packages)}")
    return Content(walk.digest().hex(), walk.origins <= {"ours", "pure"})


def content_key(*values: object) -> str:
    """Return the key of `content_of`."""
    return content_of(*values).key


class Writer:
    """Text of values, unique to them: a word and a semicolon, or a length and so much text.

    `fields_of` returns the attributes that determine the objects of a class, if some do; `other`
    writes what is neither such an object nor plain data.
    """

    def __init__(self, fields_of: Callable[[type], tuple[str, ...]]) -> None:
        """Create an empty text."""
        self.fields_of = fields_of
        self.texts: list[str] = []
        self.out = self.texts.append

    def digest(self) -> bytes:
        """Return the digest of the text."""
        text = "".join(self.texts)
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=24).digest()

    def write(self, value: Any) -> None:
        """Add a value to the text."""
        kind = type(value)
        if kind is str:
            self.out(f"{len(value)}'{value}")
        elif kind is tuple:
            self.out(f"({len(value)};")
            for item in value:
                self.write(item)
        elif kind is int or kind is bool or value is None:
            self.out(f"{value!r};" if kind is not int else f"{value:x};")
        elif kind is float:
            self.out(f"{value.hex()};")
        elif kind is bytes:
            self.out(f"bytes {value.hex()};")
        elif names := self.fields_of(kind):
            self.out(f"{kind.__module__} {kind.__qualname__};")
            for name in names:
                self.write(getattr(value, name))
        elif is_symbolic(value):
            self.out(dim_text(value))
        else:
            self.other(value, kind)

    def tag(self, name: str, *parts: object) -> None:
        """Add the parts of a value that is no tuple."""
        self.out(f"{name} {len(parts)}:")
        for part in parts:
            self.write(part)

    def other(self, value: Any, kind: type) -> None:
        """Add any other value."""
        raise NotImplementedError


@lru_cache(maxsize=65536, typed=True)
def dim_text(dim: Any) -> str:
    """Return the text of a symbolic dimension."""
    return f"dim {dim};"


@lru_cache(maxsize=1024)
def _fields_of(kind: type) -> tuple[str, ...]:
    return () if kind in PARTS else field_names(kind)


class _Walk(Writer):
    """A traversal of values; each object that may change or refer to itself is written once.

    `origins` are those of all code. `packages` are installed ones that are used as values, and
    `impure` the names in user code that may be of an impure function of theirs.
    """

    def __init__(self) -> None:
        """Create a walk that has seen nothing."""
        super().__init__(_fields_of)
        self.seen: dict[int, tuple[int, object]] = {}
        self.origins: set[str] = set()
        self.packages: set[str] = set()
        self.impure: set[str] = set()

    def other(self, value: Any, kind: type) -> None:
        """Add a value, unless it was seen."""
        seen = self.seen.get(id(value))
        if seen is not None:
            self.out(f"again {seen[0]};")
            return
        self.seen[id(value)] = (len(self.seen), value)
        match value:
            case _ if kind in PARTS:
                self.tag(kind.__name__, PARTS[kind](value))
            case set() | frozenset() if kind in (set, frozenset):
                self._set(kind.__name__, value)
            case FunctionType():
                self._function(value)
            case type():
                self._class(value)
            case CodeType():
                self._code(value)
            case ModuleType():
                self._module(value)
            case CellType():
                self._cell(value)
            case BuiltinFunctionType() | MethodWrapperType():
                self._builtin(value)
            case np.ndarray() if kind is np.ndarray:
                self._array(value)
            case np.generic():
                self.tag("scalar", str(value.dtype), value.tobytes().hex())
            case np.dtype():
                self.tag("dtype", repr(value))
            case np.ufunc() if _is_exported(value):
                self.tag("ufunc", value.__name__)
            case _ if isinstance(value, DESCRIPTORS):
                self.tag(kind.__name__, value.__objclass__, value.__name__)
            case _ if kind.__module__ == "typing":
                self.tag("typing", repr(value))
            case _ if is_public(value):
                self.tag("public", value.__module__, value.__qualname__)
            case _:
                self._instance(value, kind)

    def _set(self, kind: str, value: Iterable[object]) -> None:
        """Write members in the order of their digests; shared members are written again."""
        digests = []
        for item in value:
            member = _Walk()
            member.write(item)
            digests.append(member.digest().hex())
            self.origins |= member.origins
            self.packages |= member.packages
            self.impure |= member.impure
        self.tag(kind, *sorted(digests))

    def _array(self, array: np.ndarray) -> None:
        self.tag("array", str(array.dtype), array.shape)
        if array.dtype.hasobject:
            self.write(array.tolist())
        else:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            self.write(blake2b(data, digest_size=24).hexdigest())

    def _code(self, code: CodeType) -> None:
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        parts = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        content = (code.co_code, code.co_exceptiontable, code.co_consts)
        self.tag("code", code.co_name, counts, parts, content)

    def _cell(self, cell: CellType) -> None:
        try:
            self.tag("cell", cell.cell_contents)
        except ValueError:
            self.out("empty;")

    def _function(self, function: FunctionType) -> None:
        kind = self._origin(module_of(function), function.__name__)
        self.tag("function", module_of(function), function.__qualname__)
        if kind != "written" and is_public(function):
            return
        self.write(function.__code__)
        if kind == "written":
            self._references(function)
        closed = (function.__closure__ or (), function.__defaults__, function.__kwdefaults__)
        self.write((closed, tuple(function.__dict__.items())))

    def _origin(self, module: str, *path: str) -> str:
        """Return the origin of code.

        Raises Unhashable if it is identified by name, and may read files, clocks, random numbers or
        what it is not given.
        """
        kind = kind_of(module)
        is_dynamic = module == "builtins" and not DYNAMIC.isdisjoint(path)
        if kind == "installed":
            is_dynamic = is_impure((*module.split("."), *path))
        if kind == "impure" or is_dynamic:
            raise Unhashable(".".join((module, *path)))
        self.origins.add(kind)
        return kind

    def _references(self, function: FunctionType) -> None:
        used, scope = references(function.__code__), function.__globals__
        if refused := used.names & DYNAMIC_ATTRIBUTES:
            raise Unhashable(f"{function.__qualname__} asks for {min(refused)}")
        self.impure.update(name for name in used.names if is_impure((name,)))
        for module, level in used.imports:
            if level or module not in sys.modules:
                raise Unhashable(f"{function.__qualname__} imports {module}")
            self.write(sys.modules[module])
        for chain in used.chains:
            self.tag("global", chain)
            name = chain[0]
            if name in scope or hasattr(builtins, name):
                value = scope[name] if name in scope else getattr(builtins, name)
                self._global_chain(value, chain[1:])

    def _global_chain(self, value: object, attributes: tuple[str, ...]) -> None:
        """Write the value of a global name; of a module, write only the attribute that is read."""
        for n, attribute in enumerate(attributes):
            if not isinstance(value, ModuleType):
                break
            kind = self._origin(value.__name__, *attributes[n:])
            members = vars(value)
            if attribute not in members:
                if "__getattr__" in members and kind == "written":
                    raise Unhashable(f"{value.__name__}.{attribute}")
                return
            if kind == "installed" and not is_user_code(members[attribute]):
                return
            value = members[attribute]
        self.write(value)

    def _module(self, module: ModuleType) -> None:
        """Write a module that is used as a value: all of its members."""
        kind = self._origin(module.__name__)
        self.tag("module", module.__name__)
        if kind == "installed":
            self.packages.add(module.__name__)
        if kind == "written":
            members = sorted(vars(module).items())
            self.write(tuple(item for item in members if item[0] not in NOT_CONTENT))

    def _class(self, cls: type) -> None:
        kind = class_kind(cls)
        if kind == "written":
            self.origins.add(kind)
        else:
            self._origin(cls.__module__, cls.__qualname__)
        self.tag("class", cls.__module__, cls.__qualname__)
        if kind != "written" and (is_public(cls) or not is_python(cls)):
            return
        if not is_python(cls):
            raise Unhashable(f"the class {cls.__qualname__}")
        notes = tuple(f.metadata for f in vars(cls).get("__dataclass_fields__", {}).values())
        self.write((type(cls), cls.__bases__, notes))
        self.write(tuple(item for item in sorted(vars(cls).items()) if item[0] not in NOT_CONTENT))

    def _builtin(self, function: Any) -> None:
        """Write a function in C: of a module, or bound to a value."""
        owner = function.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            self.tag("bound", function.__name__, owner)
        elif self._origin(str(function.__module__), function.__name__) == "written":
            raise Unhashable(f"the function {function.__name__} in C")
        else:
            self.tag("builtin", function.__module__, function.__name__)

    def _instance(self, value: Any, kind: type) -> None:
        base = next((b for b in kind.__mro__ if not is_python(b)), object)
        if base is not object and base not in BASES:
            raise Unhashable(f"a {kind.__module__}.{kind.__qualname__}")
        self.tag("instance", kind)
        if base is not object:
            self._base(value, base)
        for slot in _slots(kind):
            with suppress(AttributeError):  # it has no value
                self.write((slot.__name__, slot.__get__(value)))
        self.write(tuple(sorted(getattr(value, "__dict__", {}).items())))

    def _base(self, value: Any, base: type) -> None:
        """Write the elements of an object whose class extends a container or a number."""
        if issubclass(base, dict):
            self.write(tuple(dict.items(value)))
        elif issubclass(base, set | frozenset):
            self._set(base.__name__, base.__iter__(value))
        elif issubclass(base, tuple | list):
            self.write(tuple(base.__iter__(value)))
        else:
            self.tag(base.__name__, base.__repr__(value))


@lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[MemberDescriptorType, ...]:
    members = (m for owner in kind.__mro__ for _, m in sorted(vars(owner).items()))
    return tuple(m for m in members if isinstance(m, MemberDescriptorType))


def _is_exported(function: np.ufunc) -> bool:
    """Return True if a ufunc is one of NumPy or SciPy, and not made of a function."""
    modules = (np, sys.modules.get("scipy.special"))
    return any(getattr(m, function.__name__, None) is function for m in modules)
