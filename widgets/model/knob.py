"""One knob: its legal values, the one in use, and A's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
