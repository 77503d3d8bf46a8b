"""Serialisation of frozen values: `serialize` writes them as bytes, `deserialize` reads them.

The bytes are leaves, then a row for each distinct part. Equal parts are written once. The text is
JSON: `kinds` names the types, `leaves` are numbers and words, and row n makes a value of the kind
`heads[n]` from the values that `refs[n]` indexes, leaves first. An entry may hold values of the
frozen types of these `MODULES`, and nothing else.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from explorer.codegen.build import Argument
from explorer.errors import SnapshotError
from explorer.ir.dims import is_symbolic
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.text.text_lines import Line
from explorer.ir.text.text_parser import parse_dim
from explorer.ir.text.text_tokens import print_dim
from explorer.ir.tile_program import TileProgram

# Names, because a program holds types of a few: the others are not loaded for it.
MODULES = frozenset(
    {
        "explorer.codegen.build",
        "explorer.grinder.options",
        "explorer.ir.affine",
        "explorer.ir.calls",
        "explorer.ir.decisions.candidate",
        "explorer.ir.decisions.control",
        "explorer.ir.decisions.decided",
        "explorer.ir.decisions.memory_plan",
        "explorer.ir.decisions.tile_graph",
        "explorer.ir.decisions.tiling",
        "explorer.ir.decisions.wall",
        "explorer.ir.dims",
        "explorer.ir.kernel",
        "explorer.ir.program",
        "explorer.ir.stage",
        "explorer.ir.tile_program",
        "explorer.ir.types",
        "explorer.memory.plan",
        "explorer.rammer.options",
        "explorer.rammer.task_profile",
        "explorer.relax.dispatch",
        "explorer.relax.fusion_graph",
        "explorer.relax.graph_patterns",
        "explorer.relax.lift_workspaces",
        "explorer.relax.options",
        "explorer.relax.pattern_kinds",
    }
)


@dataclass(frozen=True, slots=True)
class Code:
    """Code of a kernel call: the key of its cache entry, and its printed source."""

    call: str
    key: str
    source: str
    tile_program: TileProgram
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step that led to the program, and its seconds when it ran."""

    name: str
    stage: Stage
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """Content of an entry."""

    program: Program
    codes: tuple[Code, ...]
    steps: tuple[StoredStep, ...]


@cache
def _kind_of(name: str) -> type | None:
    """Return the type of a name that entries use, None if there is none."""
    own = {"Entry": Entry, "Code": Code, "StoredStep": StoredStep}
    module, _, word = name.rpartition(".")
    if module not in MODULES:
        return own.get(name)
    kind = vars(import_module(module)).get(word)
    return kind if isinstance(kind, type) and _name_of(kind) == name else None


@cache
def _name_of(kind: type) -> str:
    """Return the name of a type in entries, "" if they may not hold its values."""
    if kind in (Entry, Code, StoredStep):
        return kind.__name__
    is_frozen = (is_dataclass(kind) or issubclass(kind, Enum)) and not _is_called(kind)
    return f"{kind.__module__}.{kind.__name__}" if kind.__module__ in MODULES and is_frozen else ""


def _is_called(kind: type) -> bool:
    """Return True if instances of a type can be called."""
    return any("__call__" in vars(base) for base in kind.__mro__)


FORMAT = "values-1"
LEAVES = frozenset({str, int, float, bool, type(None)})


class Unwritable(Exception):
    """A value that no entry may hold: a function, an array, an object of a foreign type."""


def serialize(
    value: object,
    objects: Mapping[str, object] | None = None,
    words: Mapping[str, str] | None = None,
) -> bytes:
    """Return the bytes of a value.

    `objects` are objects that the reader has under the same name; they are written as that name.
    `words` are replaced by others, which `deserialize` reverses.

    Raises:
        Unwritable: A part of the value is not in the vocabulary.
    """
    writer = _Writer(objects or {}, words or {})
    try:
        root = writer.ref(value)
    except RecursionError:
        raise Unwritable("it is too deep") from None
    first = len(writer.leaves)
    refs = [[~r if r < 0 else r + first for r in row] for row in writer.refs]
    return json.dumps(
        {
            "format": FORMAT,
            "kinds": list(writer.kinds),
            "leaves": list(writer.leaves.values()),
            "heads": writer.heads,
            "refs": refs,
            "root": ~root if root < 0 else root + first,
        },
        separators=(",", ":"),
    ).encode()


class _Writer:
    """Rows by content; a reference is a row's number, or ~n for leaf n."""

    def __init__(self, objects: Mapping[str, object], words: Mapping[str, str]) -> None:
        """Begin with no rows."""
        self.objects = {id(value): name for name, value in objects.items()}
        self.words = words
        self.kinds: dict[str, int] = {}
        self.leaves: dict[tuple[type, object], object] = {}
        self.numbers: dict[tuple[type, object], int] = {}
        self.heads: list[int] = []
        self.refs: list[tuple[int, ...]] = []
        self.rows: dict[tuple[int, tuple[int, ...]], int] = {}
        self.by_identity: dict[
            int, int
        ] = {}  # by identity: the value that is written holds them all

    def ref(self, value: Any) -> int:
        """Return the reference of a value, writing it if it is new."""
        kind = type(value)
        if kind in LEAVES:
            return self.leaf(value, kind)
        number = self.by_identity.get(id(value))
        if number is None:
            number = self.by_identity[id(value)] = self.part(value, kind)
        return number

    def leaf(self, value: Any, kind: type) -> int:
        """Return the reference of a number or a word.

        1, 1.0 and True differ, and so do 0.0 and -0.0.
        """
        key = kind, value.hex() if kind is float else value
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = ~len(self.leaves)
            self.leaves[key] = self.words.get(value, value) if kind is str else value
        return number

    def row(self, kind: str, refs: tuple[int, ...]) -> int:
        """Return the number of a row, reusing an equal one."""
        head = self.kinds.setdefault(kind, len(self.kinds))
        number = self.rows.get((head, refs))
        if number is None:
            number = self.rows[head, refs] = len(self.refs)
            self.heads.append(head)
            self.refs.append(refs)
        return number

    def part(self, value: Any, kind: type) -> int:
        """Write a value that consists of others."""
        if id(value) in self.objects:
            return self.row("given", (self.ref(self.objects[id(value)]),))
        if kind is tuple:
            return self.row("tuple", tuple([self.ref(item) for item in value]))
        if kind is frozenset:
            return self.row("set", tuple([self.ref(item) for item in sorted(value, key=repr)]))
        if kind is dict:
            pairs = [self.ref(entry) for item in value.items() for entry in item]
            return self.row("dict", tuple(pairs))
        if _name_of(kind):
            return self.own(value, kind)
        return self.other(value)

    def own(self, value: Any, kind: type) -> int:
        """Write a value of the vocabulary."""
        if isinstance(value, Enum):
            return self.row(_name_of(kind), (self.ref(value.name),))
        refs = [self.ref(getattr(value, name)) for name in _field_names(kind)]
        return self.row(_name_of(kind), tuple(refs))

    def other(self, value: Any) -> int:
        """Write bytes, a NumPy scalar, or a dim."""
        if isinstance(value, bytes):
            return self.row("bytes", (self.ref(b64encode(value).decode()),))
        if isinstance(value, np.generic) and value.dtype.kind != "O":
            data = b64encode(value.tobytes()).decode()
            return self.row("number", (self.ref(value.dtype.name), self.ref(data)))
        if is_symbolic(value):
            return self.row("dim", (self.ref(_dim_text(value)),))
        raise Unwritable(f"it holds a {type(value).__module__}.{type(value).__qualname__}")


@lru_cache(maxsize=1024)
def _field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a frozen value in the order of its constructor."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()


@lru_cache(maxsize=65536)
def _dim_text(dim: Any) -> str:
    """Return the text of a dim if it parses back to the same expression."""
    try:
        text = print_dim(dim)
        same = parse_dim(Line(text, 1)) == dim
    except SnapshotError:
        same = False
    if not same or dim.is_Integer:
        raise Unwritable(f"the dim {dim}")
    return text


class Unreadable(Exception):
    """The bytes hold no value, or one of another vocabulary."""


def deserialize(
    data: bytes,
    objects: Mapping[str, object] | None = None,
    words: Mapping[str, str] | None = None,
) -> Any:
    """Return the value that `serialize` wrote.

    Objects that were written by name are looked up in `objects`, and `words` replace words. Nothing
    runs but the constructors of the vocabulary.

    Raises:
        Unreadable: The bytes are damaged.
    """
    try:
        return _read(json.loads(data), objects or {}, words or {})
    except Exception as problem:  # bytes that others wrote may be anything
        raise Unreadable(f"{type(problem).__name__}: {problem}") from problem


def _read(text: Any, objects: Mapping[str, object], words: Mapping[str, str]) -> Any:
    """Build the values of all rows, leaves first, and return the last one's root."""
    if text["format"] != FORMAT:
        raise Unreadable(text["format"])
    makers = [_maker(name, objects) for name in text["kinds"]]
    values = text["leaves"]
    if words:
        values = [words.get(v, v) if isinstance(v, str) else v for v in values]
    value_of, put = values.__getitem__, values.append
    for head, refs in zip(text["heads"], text["refs"], strict=True):
        put(makers[head](*map(value_of, refs)))
    return values[text["root"]]


def _maker(name: str, objects: Mapping[str, object]) -> Callable[..., Any]:
    """Return the constructor for a kind of row."""
    match name:
        case "tuple":
            return lambda *items: items
        case "set":
            return lambda *items: frozenset(items)
        case "dict":
            return lambda *items: dict(zip(items[::2], items[1::2], strict=True))
        case "given":
            return objects.__getitem__
        case "bytes":
            return lambda text: b64decode(text, validate=True)
        case "number":
            return _number
        case "dim":
            return _dim
    kind = _kind_of(name)
    if kind is None:
        raise Unreadable(name)
    return kind.__getitem__ if issubclass(kind, Enum) else kind


def _number(dtype: str, text: str) -> Any:
    """Return a NumPy scalar."""
    return np.frombuffer(b64decode(text, validate=True), np.dtype(dtype))[0]


@lru_cache(maxsize=65536)
def _dim(text: str) -> Any:
    """Parse a symbolic dim."""
    line = Line(text, 1)
    dim = parse_dim(line)
    line.end()
    return dim
