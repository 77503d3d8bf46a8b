"""Validation of the arguments of questions that come from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, TypeVar, get_origin, get_type_hints

from explorer.errors import BadOption

WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    Mapping: "an object",
    Sequence: "a list",
}
Item = TypeVar("Item")


def check_question(kind: str, takes: Callable[..., Any], args: Mapping[str, Any]) -> None:
    """Raise BadOption unless `takes` has these parameters, each of its type."""
    try:
        bound = signature(takes).bind(**args)
    except TypeError as problem:
        raise BadOption(f"the question {kind[:40]!r} is malformed: {problem}") from problem
    types = get_type_hints(getattr(takes, "func", takes))
    for name in bound.arguments:
        wanted = types.get(name, Any)
        wanted = get_origin(wanted) or wanted
        if wanted in WORDS and not _is(wanted, args.get(name, bound.arguments[name])):
            raise BadOption(
                f"the question {kind[:40]!r} is malformed: {name} is {WORDS[wanted]}, "
                f"not {repr(args.get(name))[:40]}",
                where=name,
            )


def _is(wanted: type, value: object) -> bool:
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, int | float) if wanted is float else isinstance(value, wanted)


def item(items: Sequence[Item], place: object, what: str) -> Item:
    """Return the item at a position from outside; raises BadOption if there is none."""
    at = position(place)
    if at >= len(items):
        raise BadOption(f"there is no {what} {at}: there are {len(items)}")
    return items[at]


def position(value: object) -> int:
    """Return a position from outside as an int; raises BadOption if it is invalid."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadOption(f"a position is a whole number from 0, not {value!r}")
    return value
