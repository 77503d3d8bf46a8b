"""Bytes to the value that `written` made them of."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from explorer.ir.text.text_lines import Line
from explorer.ir.text.text_parser import parse_dim
from explorer.stored.vocabulary import kinds
from explorer.stored.written import FORMAT


class Unreadable(Exception):
    """The bytes are of no value, or of one of another vocabulary."""


def read(
    data: bytes,
    given: Mapping[str, object] | None = None,
    words: Mapping[str, str] | None = None,
) -> Any:
    """The value; what was written by name is what `given` has under it, and `words` stand for
    others. Nothing is run but the makers of the vocabulary.

    Raises Unreadable.
    """
    try:
        return _read(json.loads(data), given or {}, words or {})
    except Exception as problem:  # bytes that others wrote may be anything
        raise Unreadable(f"{type(problem).__name__}: {problem}") from problem


def _read(text: Any, given: Mapping[str, object], words: Mapping[str, str]) -> Any:
    if text["format"] != FORMAT:
        raise Unreadable(text["format"])
    makers = [_maker(name, given) for name in text["kinds"]]
    values = text["leaves"]
    if words:
        values = [words.get(v, v) if isinstance(v, str) else v for v in values]
    value_of, put = values.__getitem__, values.append
    for head, refs in zip(text["heads"], text["refs"], strict=True):
        put(makers[head](*map(value_of, refs)))
    return values[text["root"]]


def _maker(name: str, given: Mapping[str, object]) -> Callable[..., Any]:
    match name:
        case "tuple":
            return lambda *items: items
        case "set":
            return lambda *items: frozenset(items)
        case "dict":
            return lambda *items: dict(zip(items[::2], items[1::2], strict=True))
        case "given":
            return given.__getitem__
        case "bytes":
            return lambda text: b64decode(text, validate=True)
        case "number":
            return _number
        case "dim":
            return _dim
    kind = kinds()[name]
    return kind.__getitem__ if issubclass(kind, Enum) else kind


def _number(dtype: str, text: str) -> Any:
    return np.frombuffer(b64decode(text, validate=True), np.dtype(dtype))[0]


@lru_cache(maxsize=65536)
def _dim(text: str) -> Any:
    line = Line(text, 1)
    found = parse_dim(line)
    line.end()
    return found
