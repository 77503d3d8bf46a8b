"""What a command answers: data for programs, text for people, and whether the answer is yes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum

from explorer.plain_text import shown

__all__ = ["Answer", "plain", "tell"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The same answer twice: an object for `--json`, words for a terminal; a no exits with 1."""

    data: object
    text: str
    yes: bool = True


def tell(answer: Answer, as_json: bool) -> int:
    """Print one of the two forms; returns the exit code."""
    if as_json:
        print(json.dumps(plain(answer.data), indent=2, allow_nan=False))
    else:
        print(shown(answer.text))
    return 0 if answer.yes else 1


def plain(value: object) -> object:
    """The value in JSON's own types; what JSON cannot say, such as infinity, is null."""
    match value:
        case None | bool() | int() | str():
            return value.name.lower() if isinstance(value, Enum) else value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(name): plain(part) for name, part in value.items()}
        case tuple() | list():
            return [plain(part) for part in value]
        case set() | frozenset():
            return sorted((plain(part) for part in value), key=str)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        case _ if callable(getattr(value, "item", None)):  # a NumPy scalar
            return plain(value.item())  # type: ignore[attr-defined]
    return str(value)
