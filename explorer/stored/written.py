"""A frozen value as bytes: leaves, then a row for each different part, behind what it is made of.

Parts that are equal field by field are written once. The text is JSON: `kinds` names the types,
`leaves` are numbers and words, and row n makes a value of the kind `heads[n]` of the values that
`refs[n]` counts, leaves first.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from explorer.errors import SnapshotError
from explorer.ir.shapes.algebra import is_symbolic
from explorer.ir.text.text_lines import Line
from explorer.ir.text.text_parser import parse_dim
from explorer.ir.text.text_tokens import print_dim
from explorer.stored.vocabulary import field_names, names

FORMAT = "values-1"
LEAVES = frozenset({str, int, float, bool, type(None)})


class Unwritable(Exception):
    """A value that no entry may hold: a function, an array, an object of somebody else's type."""


def written(
    value: object,
    given: Mapping[str, object] | None = None,
    words: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a value. `given` are objects that its reader has by name: what is one of them
    is written as that name. `words` are written otherwise, which `read` is told the other way.

    Raises Unwritable.
    """
    writer = _Writer(given or {}, words or {})
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

    def __init__(self, given: Mapping[str, object], words: Mapping[str, str]) -> None:
        self.given = {id(value): name for name, value in given.items()}
        self.words = words
        self.kinds: dict[str, int] = {}
        self.leaves: dict[tuple[type, object], object] = {}
        self.numbers: dict[tuple[type, object], int] = {}
        self.heads: list[int] = []
        self.refs: list[tuple[int, ...]] = []
        self.rows: dict[tuple[int, tuple[int, ...]], int] = {}
        self.known: dict[int, int] = {}  # by identity: the value that is written holds them all

    def ref(self, value: Any) -> int:
        """The reference of a value, which is written where it is new."""
        kind = type(value)
        if kind in LEAVES:
            return self.leaf(value, kind)
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = self.part(value, kind)
        return found

    def leaf(self, value: Any, kind: type) -> int:
        """A number or a word; 1, 1.0 and True are three, and so are 0.0 and -0.0."""
        key = kind, value.hex() if kind is float else value
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = ~len(self.leaves)
            self.leaves[key] = self.words.get(value, value) if kind is str else value
        return found

    def row(self, kind: str, refs: tuple[int, ...]) -> int:
        """The number of a row, the one that is there where one is."""
        head = self.kinds.setdefault(kind, len(self.kinds))
        found = self.rows.get((head, refs))
        if found is None:
            found = self.rows[head, refs] = len(self.refs)
            self.heads.append(head)
            self.refs.append(refs)
        return found

    def part(self, value: Any, kind: type) -> int:
        """A value that is made of others."""
        if id(value) in self.given:
            return self.row("given", (self.ref(self.given[id(value)]),))
        if kind is tuple:
            return self.row("tuple", tuple([self.ref(item) for item in value]))
        if kind is frozenset:
            return self.row("set", tuple([self.ref(item) for item in sorted(value, key=repr)]))
        if kind is dict:
            pairs = [self.ref(one) for item in value.items() for one in item]
            return self.row("dict", tuple(pairs))
        if kind in names():
            return self.own(value, kind)
        return self.rest(value)

    def own(self, value: Any, kind: type) -> int:
        """A value of the vocabulary."""
        if isinstance(value, Enum):
            return self.row(names()[kind], (self.ref(value.name),))
        refs = [self.ref(getattr(value, name)) for name in _fields(kind)]
        return self.row(names()[kind], tuple(refs))

    def rest(self, value: Any) -> int:
        """Bytes, one number of NumPy's, or a dim."""
        if isinstance(value, bytes):
            return self.row("bytes", (self.ref(b64encode(value).decode()),))
        if isinstance(value, np.generic) and value.dtype.kind != "O":
            data = b64encode(value.tobytes()).decode()
            return self.row("number", (self.ref(value.dtype.name), self.ref(data)))
        if is_symbolic(value):
            return self.row("dim", (self.ref(_dim_text(value)),))
        raise Unwritable(f"it holds a {type(value).__module__}.{type(value).__qualname__}")


@lru_cache(maxsize=1024)
def _fields(kind: type) -> tuple[str, ...]:
    return field_names(kind)


@lru_cache(maxsize=65536)
def _dim_text(dim: Any) -> str:
    """The text of a dim, if it is read back as this very expression."""
    try:
        text = print_dim(dim)
        same = parse_dim(Line(text, 1)) == dim
    except SnapshotError:
        same = False
    if not same or dim.is_Integer:
        raise Unwritable(f"the dim {dim}")
    return text
