"""JSON of untrusted files: bounded, without duplicate names, and read by type and range."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn, TypeVar

from explorer.errors import BadModelFile

Value = TypeVar("Value")
LARGEST = 1 << 31  # of a whole number in a configuration


def parse_json(text: bytes, where: str) -> Mapping[str, Any]:
    """Return the object that a file holds.

    Raises:
        BadModelFile: it is no JSON object, names a field twice, or holds NaN or an infinity.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(n for n in names if names.count(n) > 1)
            raise BadModelFile(f"{where} names {twice!r} twice", where=where)
        return fields

    def refuse(word: str) -> NoReturn:
        raise BadModelFile(f"{where} holds {word}, where a finite number belongs", where=where)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # invalid UTF-8 is a ValueError
        raise BadModelFile(f"{where} is not valid JSON: {error}", where=where) from None
    if not isinstance(value, dict):
        raise BadModelFile(f"{where} holds {type(value).__name__}, not an object", where=where)
    return value


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a configuration, read by name, type and range.

    A field that is absent or null is `default`; without one it is an error.
    """

    values: Mapping[str, Any]
    where: str

    def __contains__(self, name: str) -> bool:
        """Return True if the field is there and not null."""
        return self.values.get(name) is not None

    def integer(self, name: str, default: int | None = None, low: int = 1) -> int:
        """Return a whole number, `low` to 2**31."""
        value = self._value(name, default)
        if type(value) is not int or not low <= value <= LARGEST:
            self._refuse(name, value, f"a whole number from {low} to {LARGEST}")
        return value

    def number(self, name: str, default: float | None = None, low: float = 0.0) -> float:
        """Return a finite number above `low`."""
        value = self._value(name, default)
        if type(value) not in (int, float) or not (isfinite(value) and value > low):
            self._refuse(name, value, f"a finite number above {low:g}")
        return float(value)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return true or false."""
        return self._typed(name, default, bool, "true or false")

    def word(self, name: str, default: str | None = None) -> str:
        """Return a text."""
        return self._typed(name, default, str, "a text")

    def choice(self, name: str, words: Mapping[str, Value], default: str | None = None) -> Value:
        """Return the value that stands for a word."""
        value = self.word(name, default)
        if value not in words:
            self._refuse(name, value, " or ".join(words))
        return words[value]

    def items(self, name: str, each: Callable[[Any], bool], what: str, count: int = 0) -> list[Any]:
        """Return a list whose elements satisfy `each`, with `count` of them."""
        value = self._value(name, None)
        if not isinstance(value, list) or not all(map(each, value)):
            self._refuse(name, value, f"a list of {what}")
        if count and len(value) != count:
            self._refuse(name, value, f"{count} of {what}")
        return value

    def inner(self, name: str) -> Fields:
        """Return the fields of an object inside; none if it is absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            self._refuse(name, value, "an object")
        return Fields(value or {}, f"{self.where}: {name}")

    def _typed(self, name: str, default: Any, kind: type[Value], what: str) -> Value:
        value = self._value(name, default)
        if not isinstance(value, kind):
            self._refuse(name, value, what)
        return value

    def _value(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            raise BadModelFile(f"{self.where} has no field {name!r}", where=name)
        return value

    def _refuse(self, name: str, value: Any, expected: str) -> NoReturn:
        text = repr(value)
        raise BadModelFile(
            f"{self.where}: {name!r} must be {expected}, found {text[:60]}",
            where=name,
            expected=expected,
            actual=text[:60],
        )
