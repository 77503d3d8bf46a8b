"""One knob: its legal values, the one in use, and A's; values as traits hold them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from keyword import iskeyword
from numbers import Real
from typing import Any

from explorer.errors import BadOption


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob with its legal values.

    `kind` is "segments", "slider", "choice" or "hidden". `now` is the position of the value in use,
    `pinned` that of A's.
    """

    name: str
    label: str
    kind: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    now: int
    pinned: int | None = None
    hint: str = ""


SIZE = "size "  # of a symbol


def trait_name(knob: str, taken: Collection[str]) -> str:
    """Return the attribute of a knob: a symbol's name if that is free, else the knob's name."""
    short = re.sub(r"\W", "_", knob.removeprefix(SIZE))
    free = short.isidentifier() and not iskeyword(short) and short not in taken
    return short if free else re.sub(r"\W", "_", knob)


def shown_values(knob: Knob) -> tuple[Any, ...]:
    """Return each value that is a number, else its label."""
    pairs = zip(knob.values, knob.labels)
    return tuple(value if isinstance(value, int) else label for value, label in pairs)


def value_position(knob: Knob, value: Any) -> int:
    """Return the position of a value; raises BadOption if the knob does not have it."""
    shown = shown_values(knob)
    if isinstance(value, Real | str) and value in shown:
        return shown.index(value)
    name, _, legal = knob.label.partition(", ")
    if knob.name.startswith(SIZE):
        raise BadOption(f"{name} is {legal}, not {value!r:.40}", where=knob.name, expected=legal)
    legal_values = ", ".join(map(str, shown))
    raise BadOption(f"{name} has no value {value!r:.40}", where=knob.name, expected=legal_values)
