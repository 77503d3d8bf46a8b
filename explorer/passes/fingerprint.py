"""Fingerprints of programs, passes and options: equal keys mean equal content."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from importlib.metadata import distributions
from itertools import count
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np

from explorer import cache
from explorer.devices.model import Device, text_of_device
from explorer.devices.target import own_target
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.program import Constant, Program
from explorer.passes.content import Content, Unhashable, Writer, content_of
from explorer.process.forking import ForkLock

# Constants up to this size are compared by content, larger ones by identity; chosen.
SMALL_BYTES = 1 << 16
REMEMBERED_DIGESTS = 8192  # least capacity, in each of two generations; chosen
_PROCESS = f"of one process {uuid4()}"  # in keys of what has no fingerprint


class _DigestMemo:
    """Memoized digests of frozen values, by identity.

    The values are kept alive, so that no identity is reused. Two generations bound the memory: a
    digest is dropped if it is not used while a full generation of others arrives.
    """

    def __init__(self) -> None:
        """Create an empty memo."""
        self.lock = ForkLock()
        self.capacity = REMEMBERED_DIGESTS
        self.recent: dict[int, tuple[object, bytes]] = {}
        self.older: dict[int, tuple[object, bytes]] = {}

    def reserve(self, count: int) -> None:
        """Grow the capacity for a program with so many parts; shrink it after a large one."""
        with self.lock:
            self.capacity = max(REMEMBERED_DIGESTS, count, self.capacity // 2)

    def digest(self, value: object, make: Callable[[Any], bytes]) -> bytes:
        """Return the digest of a value, computed by `make` if it is not memoized."""
        entry = self.recent.get(id(value))
        if entry is not None:
            return entry[1]
        entry = self.older.get(id(value)) or (value, make(value))
        with self.lock:
            if len(self.recent) >= self.capacity:
                self.recent, self.older = {}, self.recent
            self.recent[id(value)] = entry
        return entry[1]


_parts = _DigestMemo()
_objects: WeakValueDictionary[str, object] = WeakValueDictionary()
_names: dict[int, str] = {}
_serial = count(1)


def _name_of(value: object) -> str:
    """Return a name for one object that is unique in its lifetime."""
    name = _names.get(id(value))
    if name is None or _objects.get(name) is not value:
        name = f"object {next(_serial)}"
        with suppress(TypeError):  # objects without weak references get a new name each time
            _objects[name] = value
            _names[id(value)] = name
    return name


def program_key(program: Program) -> str:
    """Return a key of the program's content, in linear time.

    Memoized bindings are fast. A function among the decisions is identified by the object and not
    by its content: it is called later, in its state at that time.
    """
    state = blake2b(digest_size=24)
    _parts.reserve(sum(len(f.body) for f in program.functions))
    for function in program.functions:
        head = (function.name, function.params, function.outputs, function.output_names)
        state.update(b"".join(map(_digest_of, head)))
        for binding in function.body:
            state.update(_parts.digest(binding, _digest))
    for name, constant in sorted(program.constants.items()):
        state.update(_digest(name) + _constant_digest(constant))
    state.update(b"".join(map(_digest_of, _beside_bindings(program))))
    return state.hexdigest()


def differ_beside_bindings(first: Program, other: Program) -> bool:
    """Return True if two programs differ outside of functions and constants, as in decisions.

    Shared objects are not digested: that takes a second for a long program.
    """
    pairs = zip(_beside_bindings(first), _beside_bindings(other), strict=True)
    return any(a is not b and _digest_of(a) != _digest_of(b) for a, b in pairs)


def _beside_bindings(program: Program) -> Iterator[object]:
    yield from (program.env, program.sources, program.dropped, program.stage, program.name)
    yield from (getattr(program.decisions, f.name) for f in fields(program.decisions))


def _digest_of(part: object) -> bytes:
    """Return the digest of a part that programs may share.

    Functions in options are digested each time.
    """
    if isinstance(part, tuple | TaskTree | TileGraph):
        return _parts.digest(part, _digest)
    return _digest(part)


def _digest(value: object) -> bytes:
    text = _Text(_data_fields)
    text.write(value)
    return text.digest()


def _constant_digest(constant: Constant) -> bytes:
    if constant.nbytes <= SMALL_BYTES:
        return constant.digest.encode()
    return _name_of(constant).encode()


def pass_content(run: object) -> Content | None:
    """Return the content of a pass: its code, its options, and all that its functions refer to.

    Returns None if content does not determine the pass (`content.Unhashable`), or if the pass has
    `remembered` False: such a pass runs each time.
    """
    if not getattr(run, "remembered", True):
        return None
    try:
        return content_of(run)
    except Unhashable:
        return None


def pass_key(run: object) -> str | None:
    """Return the key of `pass_content`."""
    content = pass_content(run)
    return None if content is None else content.key


def device_key(device: Device) -> str:
    """Return the text of a device for keys, with the code of its target if a user registered it.

    Code without a fingerprint has a key of this process alone.
    """
    own, text = own_target(device), text_of_device(device)
    return text if own is None else f"{text} {pass_key(own) or _PROCESS} {packages_key()}"


def packages_key() -> str:
    """Return the digest of all installed packages: a user's code may call them."""
    return _packages_in(tuple((place, _changed_ns(place)) for place in sys.path))


def _changed_ns(place: str) -> int:
    """Return when a folder's entries last changed; 0 if it does not exist."""
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)  # to read what each package says of itself takes a tenth of a second
def _packages_in(places: tuple[tuple[str, int], ...]) -> str:
    """Return the digest of what is installed in folders that were last changed at given times.

    A version is installed under its own name, so another version changes the folder. What was not
    installed from an index, such as a folder, may change within its version, and is identified by
    the list of its files.
    """
    packages = []
    for d in distributions():
        files = d.read_text("RECORD") if d.read_text("direct_url.json") else ""
        packages.append(f"{d.name} {d.version} {files}")
    return cache.content_key(*sorted(packages))


@lru_cache(maxsize=1024)
def _data_fields(kind: type) -> tuple[str, ...]:
    """Return the fields of a frozen value, none if it is callable."""
    called = any("__call__" in vars(base) for base in kind.__mro__)
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) and not called else ()


class _Text(Writer):
    """The text of a part of a program, in which callable values are identified by the object."""

    def other(self, value: Any, kind: type) -> None:
        """Add any other value."""
        match value:
            case set() | frozenset():
                self.tag("set", *sorted(value, key=str))
            case Enum():
                self.tag("enum", kind.__name__, value.name)
            case list():
                self.write(tuple(value))
            case Mapping():
                self.tag("map", *sorted(value.items(), key=lambda item: str(item[0])))
            case np.ndarray():
                self.write(Constant(value).digest)
            case Constant():
                self.write(value.digest)
            case type():
                self.tag("type", value.__module__, value.__qualname__)
            case _ if callable(value):
                self.tag("object", kind.__qualname__, _name_of(value))
            case _ if is_dataclass(value):  # without fields
                self.tag("data", kind.__name__)
            case _:
                self.tag("repr", kind.__qualname__, repr(value))
