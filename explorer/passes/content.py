"""Content digests of values and functions: code, and everything that the code refers to.

A function is its bytecode with constants, defaults, closure and attributes, and, recursively, the
current values of its global names: numbers, dicts, arrays, objects, classes and other functions,
cycles included. Code of this package, of the standard library and of installed packages does not
change while a process runs, and is identified by name; user code, in cells, files and editable
packages, by content.
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
from enum import Enum
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
    IMPURE_NAMES,
    class_kind,
    field_names,
    imports,
    is_public,
    is_python,
    is_user_code,
    kind_of,
    module_of,
    names,
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
NOT_CONTENT = words(  # attributes of classes that derive from others
    """
    __dict__ __weakref__ __annotations__ __dataclass_fields__ __dataclass_params__ _abc_impl
    __orig_bases__ __parameters__ __firstlineno__ __annotate_func__ __annotations_cache__
    __annotate__ __abstractmethods__ __slotnames__
    """
)
BASES = (
    tuple,
    list,
    dict,
    set,
    frozenset,
    str,
    bytes,
    int,
    float,
)  # builtin types that classes may extend

# parts of well-known types: values with equal parts are equal
PARTS: dict[type, Callable[[Any], object]] = {
    list: tuple,
    bytearray: bytes,
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
    np.dtype: repr,
    np.ufunc: lambda f: f.__name__,
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


def content_key(*values: object) -> str:
    """Return a digest that is equal if the values, and everything that they refer to, are equal.

    Raises:
        Unhashable: content does not determine what a value will do: files, iterators, locks, random
            numbers, clocks; names resolved at run time, as by `globals()`, `getattr` or `eval`.
    """
    walk = _Digester()
    try:
        walk.write(values)
    except RuntimeError as problem:  # too deep, or it changed meanwhile
        raise Unhashable(str(problem)) from None
    return walk.state.hexdigest()


class _Digester:
    """A traversal of values; each object that may change or refer to itself is written once."""

    def __init__(self) -> None:
        """Create an empty digest."""
        self.state = blake2b(digest_size=24)
        self.seen: dict[int, tuple[int, object]] = {}

    def token(self, kind: str, text: str | bytes = b"") -> None:
        """Add a tagged text to the digest."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        self.state.update(f"{kind} {len(data)}:".encode() + data)

    def write(self, value: Any) -> None:
        """Add a value to the digest."""
        kind = type(value)
        if kind is str:
            self.token("str", value)
        elif value is None or value is ... or value is NotImplemented or kind is bool:
            self.token("name", repr(value))
        elif kind is int:
            self.token("int", hex(value))
        elif kind is float:
            self.token("float", value.hex())
        elif kind is bytes:
            self.token("bytes", value)
        elif kind is complex:
            self.token("complex", f"{value.real.hex()} {value.imag.hex()}")
        elif kind is tuple:
            self.token("tuple", str(len(value)))
            for item in value:
                self.write(item)
        elif id(value) in self.seen:
            self.token("again", str(self.seen[id(value)][0]))
        else:
            self.seen[id(value)] = (len(self.seen), value)
            self._object(value, kind)

    def _object(self, value: Any, kind: type) -> None:
        match value:
            case _ if kind in PARTS:
                self.token(kind.__name__)
                self.write(PARTS[kind](value))
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
                self.token("scalar", f"{value.dtype} {value.tobytes().hex()}")
            case _ if is_symbolic(value):
                self.token("dim", str(value))
            case Enum():
                self.write((kind, value.name, value._value_))
            case _ if kind in DESCRIPTORS:
                self.write((kind.__name__, value.__objclass__, value.__name__))
            case _ if kind.__module__ == "typing":
                self.token("typing", repr(value))
            case _ if is_public(value):
                self.token("public", f"{value.__module__} {value.__qualname__}")
            case _:
                self._instance(value, kind)

    def _set(self, kind: str, value: Iterable[object]) -> None:
        """Write members in the order of their digests; shared members are written again."""
        digests = []
        for item in value:
            member = _Digester()
            member.write(item)
            digests.append(member.state.digest())
        self.token(kind, b"".join(sorted(digests)))

    def _array(self, array: np.ndarray) -> None:
        self.token("array", f"{array.dtype} {array.shape}")
        if array.dtype.hasobject:
            self.write(array.tolist())
        else:
            self.state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _code(self, code: CodeType) -> None:
        self.token("code", code.co_code)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        parts = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.write((code.co_name, counts, parts, code.co_exceptiontable, code.co_consts))

    def _cell(self, cell: CellType) -> None:
        try:
            self.write(("cell", cell.cell_contents))
        except ValueError:
            self.token("empty")

    def _function(self, function: FunctionType) -> None:
        module = module_of(function)
        self.token("function", function.__qualname__)
        kind = kind_of(module)
        if kind == "written":
            self.write(function.__code__)
            self._references(function)
        else:
            self._check_pure(kind, module, function.__name__)
            self.token(module, str(function.__code__.co_firstlineno))
            if is_public(function):
                return
        closed = (function.__closure__ or (), function.__defaults__, function.__kwdefaults__)
        self.write((closed, tuple(function.__dict__.items())))

    def _check_pure(self, kind: str, module: str, *path: str) -> None:
        """Raise Unhashable if code identified by name may read files, clocks or random numbers."""
        impure = {*module.split("."), *path} & IMPURE_NAMES
        if kind == "impure" or (kind == "installed" and impure):
            raise Unhashable(".".join((module, *path)))

    def _references(self, function: FunctionType) -> None:
        code, scope = function.__code__, function.__globals__
        refused = names(code) & DYNAMIC_ATTRIBUTES
        if refused:
            raise Unhashable(f"{function.__qualname__} asks for {min(refused)}")
        for module, level in imports(code):
            if level or module not in sys.modules:
                raise Unhashable(f"{function.__qualname__} imports {module}")
            self.write(sys.modules[module])
        for chain in references(code):
            name = chain[0]
            if name in scope:
                self._global_chain(scope[name], chain)
            elif hasattr(builtins, name):
                if name in DYNAMIC:
                    raise Unhashable(f"{function.__qualname__} calls {name}")
                self.token("builtin", name)
            else:
                self.token("missing", name)

    def _global_chain(self, value: object, chain: tuple[str, ...]) -> None:
        """Write the value of a global name; of a module, write only the attribute that is read."""
        self.token("global", " ".join(chain))
        for attribute in chain[1:]:
            if not isinstance(value, ModuleType):
                break
            kind = kind_of(value.__name__)
            if kind in ("impure", "installed"):
                self._check_pure(kind, value.__name__, *chain[1:])
            members = vars(value)
            if attribute not in members:
                if "__getattr__" in members and kind == "written":
                    raise Unhashable(f"{value.__name__}.{attribute}")
                return
            if kind in ("pure", "installed") and not is_user_code(members[attribute]):
                return
            value = members[attribute]
        self.write(value)

    def _module(self, module: ModuleType) -> None:
        """Write a module that is used as a value: all of its members."""
        kind = kind_of(module.__name__)
        self.token("module", module.__name__)
        if kind != "written":
            self._check_pure(kind, module.__name__)
            return
        for name, value in sorted(vars(module).items()):
            if not name.startswith("__"):
                self.token("holds", name)
                self.write(value)

    def _class(self, cls: type) -> None:
        kind = class_kind(cls)
        self.token("class", f"{cls.__module__} {cls.__qualname__}")
        if kind != "written":
            self._check_pure(kind, cls.__module__, cls.__qualname__)
            return
        if not is_python(cls):
            raise Unhashable(f"the class {cls.__qualname__}")
        self.write((type(cls), cls.__bases__))
        for name, value in sorted(vars(cls).items()):
            if name not in NOT_CONTENT:
                self.token("has", name)
                self.write(value)

    def _builtin(self, function: Any) -> None:
        """Write a function in C: of a module, or bound to a value."""
        owner = function.__self__
        if owner is None or isinstance(owner, ModuleType):
            module = str(function.__module__)
            self._check_pure(kind_of(module), module, function.__name__)
            self.token(module, function.__name__)
        else:
            self.write(("bound", function.__name__, owner))

    def _instance(self, value: Any, kind: type) -> None:
        base = next((b for b in kind.__mro__ if not is_python(b)), object)
        if base is not object and base not in BASES:
            raise Unhashable(f"a {kind.__module__}.{kind.__qualname__}")
        self.token("instance")
        self.write(kind)
        for name in field_names(kind):
            self.write((name, object.__getattribute__(value, name)))
        if field_names(kind):
            return
        if base is not object:
            self._base(value, base)
        for owner in kind.__mro__:
            for name, slot in sorted(vars(owner).items()):
                if isinstance(slot, MemberDescriptorType):
                    with suppress(AttributeError):  # it has no value
                        self.write((name, slot.__get__(value)))
        for name, attribute in sorted(getattr(value, "__dict__", {}).items()):
            self.write((name, attribute))

    def _base(self, value: Any, base: type) -> None:
        """Write the elements of an object whose class extends a container or a number."""
        if issubclass(base, dict):
            self.write(tuple(dict.items(value)))
        elif issubclass(base, set | frozenset):
            self._set(base.__name__, base.__iter__(value))
        elif issubclass(base, tuple | list):
            self.write(tuple(base.__iter__(value)))
        elif base is str:
            self.token("str", str.__str__(value))
        elif base is bytes:
            self.token("bytes", bytes.__getitem__(value, slice(None)))
        else:
            self.token(base.__name__, base.__repr__(value))
