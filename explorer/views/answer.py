"""The answer of a command: data for programs, text for people, and yes or no."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in two forms: an object for `--json` and text for a terminal.

    The command exits with 1 if `yes` is False.
    """

    data: object
    text: str
    yes: bool = True


def to_json_types(value: object) -> object:
    """Convert a value to the types of JSON.

    A number that JSON cannot express, such as infinity, becomes None.
    """
    match value:
        case None | bool() | int() | str():
            return value.name.lower() if isinstance(value, Enum) else value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(name): to_json_types(part) for name, part in value.items()}
        case tuple() | list():
            return [to_json_types(part) for part in value]
        case set() | frozenset():
            return sorted((to_json_types(part) for part in value), key=str)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: to_json_types(getattr(value, field.name)) for field in fields(value)
            }
        case _ if callable(getattr(value, "item", None)):  # a NumPy scalar
            return to_json_types(value.item())  # type: ignore[attr-defined]
    return str(value)
