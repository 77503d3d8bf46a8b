"""What a frozen value is made of, and what that is made of in turn."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any


def made_of(value: Any, *whole: type) -> list[Any]:
    """A value and all that it is made of; what is one of `whole` is not looked into, nor told."""
    found: list[Any] = []
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, whole):
            continue
        found.append(one)
        if isinstance(one, tuple):
            todo += one
        else:
            todo += [getattr(one, name) for name in field_names(one.__class__)]
    return found


@cache
def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; none of any other class."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()
