"""Values that a shell and a notebook show as a summary."""

from __future__ import annotations

from itertools import islice
from typing import Any

MOST_LINES = 200  # of one value under a notebook's cell; `print` shows all


class Printed:
    """A value whose `__str__` says all of it in words: its `repr` is the first line of that, and a
    notebook shows what `print` does, of long texts the beginning.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.first_line}>"

    @property
    def first_line(self) -> str:
        """The first line."""
        return str(self).partition("\n")[0]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the whole text where a cell gives this value, one line inside of other values."""
        inside = cycle or len(printer.stack) > 1
        printer.text(repr(self) if inside else shortened(str(self)))


def shortened(text: str) -> str:
    """Return the first lines of a text, and how many follow them."""
    lines = text.splitlines()
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    more = f"… {len(lines) - MOST_LINES:,} more lines: print() shows all"
    return "\n".join((*islice(lines, MOST_LINES), more))
