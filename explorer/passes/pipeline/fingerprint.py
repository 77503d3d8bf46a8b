"""What a program, a pass and its options are, as short keys: equal keys mean equal content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from explorer.forking import ForkLock
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.program import Constant, Program
from explorer.ir.shapes.algebra import is_symbolic, sympy
from explorer.passes.pipeline.content import Untold, content_key

# Constants up to here are told apart by their bytes, larger ones by being the same object; chosen.
SMALL_BYTES = 1 << 16
REMEMBERED_DIGESTS = 8192  # at least, in two generations: parts of the largest program; chosen


class _Remembered:
    """Digests of frozen values by identity; the values are held, so an identity is never taken
    again. What was not asked for while as many others came is forgotten.
    """

    def __init__(self) -> None:
        self.lock = ForkLock()
        self.room = REMEMBERED_DIGESTS
        self.known: dict[int, tuple[object, bytes]] = {}
        self.before: dict[int, tuple[object, bytes]] = {}

    def reserve(self, count: int) -> None:
        """Have room for the parts of a program; when it was the last large one, let the room go."""
        with self.lock:
            self.room = max(REMEMBERED_DIGESTS, count, self.room // 2)

    def digest(self, value: object, make: Callable[[Any], bytes]) -> bytes:
        """The digest of a value, made where it is not known."""
        found = self.known.get(id(value))
        if found is not None:
            return found[1]
        found = self.before.get(id(value)) or (value, make(value))
        with self.lock:
            if len(self.known) >= self.room:
                self.known, self.before = {}, self.known
            self.known[id(value)] = found
        return found[1]


_parts = _Remembered()
_objects: WeakValueDictionary[str, object] = WeakValueDictionary()
_names: dict[int, str] = {}
_serial = count(1)


def _name_of(held: object) -> str:
    """A name for one object, for as long as it lives."""
    name = _names.get(id(held))
    if name is None or _objects.get(name) is not held:
        name = f"object {next(_serial)}"
        with suppress(TypeError):  # some cannot be watched: they have another name each time
            _objects[name] = held
            _names[id(held)] = name
    return name


def program_key(program: Program) -> str:
    """The content of a program; linear, and quick where bindings are known from before.

    A function among its decisions is called later, as it is then, so it is told by which it is.
    """
    state = blake2b(digest_size=24)
    _parts.reserve(sum(len(f.body) for f in program.functions))
    for function in program.functions:
        head = (function.name, function.params, function.outputs, function.output_names)
        state.update(b"".join(map(_digest_of, head)))
        for binding in function.body:
            state.update(_parts.digest(binding, _digest))
    for name, constant in sorted(program.constants.items()):
        state.update(_text(name) + _constant_digest(constant))
    state.update(b"".join(map(_digest_of, _beside_bindings(program))))
    return state.hexdigest()


def differ_beside_bindings(one: Program, other: Program) -> bool:
    """Return True if two programs differ in their decisions or other parts beside functions and
    constants. Of those that both share nothing is digested: a long program's take a second.
    """
    pairs = zip(_beside_bindings(one), _beside_bindings(other), strict=True)
    return any(a is not b and _digest_of(a) != _digest_of(b) for a, b in pairs)


def _beside_bindings(program: Program) -> Iterator[object]:
    yield from (program.env, program.sources, program.dropped, program.stage, program.name)
    yield from (getattr(program.decisions, f.name) for f in fields(program.decisions))


def _digest_of(part: object) -> bytes:
    """The digest of a part that many programs may share; options may hold functions, which are
    looked at each time.
    """
    if isinstance(part, tuple | TaskTree | TileGraph):
        return _parts.digest(part, _digest)
    return _digest(part)


def _digest(value: object) -> bytes:
    return blake2b(_text(value), digest_size=16).digest()


def _constant_digest(constant: Constant) -> bytes:
    if constant.array.nbytes <= SMALL_BYTES:
        return constant.digest.encode()
    return _name_of(constant).encode()


def pass_key(run: object) -> str | None:
    """What a pass is: its code, its options, and all that the functions among them refer to.

    None where content cannot tell it (`content.Untold`), and where the pass says of itself that it
    is not `remembered`: such a pass runs each time.
    """
    if not getattr(run, "remembered", True):
        return None
    try:
        return content_key(run)
    except Untold:
        return None


def _text(value: object) -> bytes:
    parts: list[str] = []
    _write(value, parts.append)
    return "".join(parts).encode()


def _write(value: Any, out: Callable[[str], None]) -> None:
    """The structure of a value as text that no other value has."""
    kind = type(value)
    if kind is str:
        out(f"{len(value)}'{value}")
    elif kind is tuple:
        out("(")
        for item in value:
            _write(item, out)
        out(")")
    elif kind is int or kind is bool or kind is float or value is None:
        out(f"{value!r};")
    elif kind is frozenset:
        out("set(")
        for item in sorted(value, key=str):
            _write(item, out)
        out(")")
    elif names := _field_names(kind):  # type: ignore[arg-type]
        out(f"{kind.__name__}{{")
        for name in names:
            _write(getattr(value, name), out)
        out("}")
    else:
        _write_other(value, out)


@lru_cache(maxsize=1024)
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a frozen value; none of one that is called."""
    called = any("__call__" in vars(base) for base in kind.__mro__)
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) and not called else ()


@lru_cache(maxsize=65536, typed=True)
def _dim_text(dim: sympy.Basic) -> str:
    return f"dim {dim};"


def _write_other(value: Any, out: Callable[[str], None]) -> None:
    match value:
        case _ if is_symbolic(value):
            out(_dim_text(value))
        case set():
            _write(frozenset(value), out)
        case Enum():
            out(f"{type(value).__name__}.{value.name};")
        case list():
            _write(tuple(value), out)
        case Mapping():
            _write(tuple(sorted(value.items(), key=lambda item: str(item[0]))), out)
        case np.ndarray():
            _write(Constant(value).digest, out)
        case Constant():
            _write(value.digest, out)
        case type():
            out(f"{value.__module__}.{value.__qualname__};")
        case _ if callable(value):
            out(f"{type(value).__qualname__} {_name_of(value)};")
        case _ if is_dataclass(value):
            out(f"{type(value).__name__}{{}}")
        case _:
            out(f"{type(value).__qualname__} {value!r};")
