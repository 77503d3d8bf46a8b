"""Memory budget of one model, and the check before large allocations.

`IRONWORKS_MEMORY` sets it ("2GiB", "500MB", or a number of bytes); otherwise it is a share of the
memory of the machine, or of its container if that is smaller. Call `check_room` before allocating
anything whose size a file or a caller decides: a refusal is one sentence, but a process out of
memory dies.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from explorer.errors import BadOption, TooLarge
from explorer.process.allowance import memory_bytes

__all__ = ["VARIABLE", "budget", "check_room", "size_of", "size_text"]

VARIABLE = "IRONWORKS_MEMORY"
SHARE = 0.75  # of what there is; the rest is for Python, the pictures, and what runs beside
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY = {"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40}
SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?I?)B?", re.ASCII | re.IGNORECASE)


def budget() -> int:
    """Return the bytes that one model may take; raise BadOption if the variable holds no size."""
    text = os.environ.get(VARIABLE, "").strip()
    return size_of(text, VARIABLE) if text else int(SHARE * _total_bytes())


def check_room(count: int, what: str, where: object = "", try_: str = "") -> None:
    """Raise TooLarge unless `count` bytes are within the budget.

    `what` begins the sentence: the tensor, and what is about to be done to it.
    """
    most = budget()
    if count > most:
        raise TooLarge(
            f"{what} takes {size_text(count)}, and one model may take {size_text(most)}",
            where=where,
            expected=f"at most {most} bytes",
            actual=f"{count} bytes",
            try_=try_ or f"smaller sizes, or a larger {VARIABLE} where the machine has more",
        )


def size_text(count: int) -> str:
    """Format bytes in the unit that reads best, such as `512 B` or `1.5 MiB`."""
    if count >= 1 << 60:
        return "more than a million TiB"
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size >= 1024:
            size, unit = size / 1024, larger
    return f"{round(size, 1 if size < 100 else 0):g} {unit}"


def size_of(text: str, variable: str) -> int:
    """Return the bytes that a variable's text states; raise BadOption if it is no size."""
    match = SIZE.fullmatch(text)
    if match is None or not (size := int(float(match[1]) * {**UNITS, **BINARY}[match[2].upper()])):
        raise BadOption(
            f"{variable} is a size such as 2GiB, 500MB or a number of bytes, found {text!r}",
            where=variable,
            actual=text,
        )
    return size


@lru_cache(maxsize=1)
def _total_bytes() -> int:
    """Return the memory that this process may use, read once."""
    return memory_bytes()
