"""Summaries of values in a shell and a notebook."""

from __future__ import annotations

from itertools import islice
from typing import Any

MOST_LINES = 200  # of one value under a notebook's cell; `print` shows all


class Printed:
    """Value whose `__str__` describes it in full.

    Its `repr` is the first line of that. A notebook shows what `print` does, of long texts the
    beginning.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the class and the first line of the text."""
        return f"<{type(self).__name__} {self.first_line}>"

    @property
    def first_line(self) -> str:
        """The first line of the text."""
        return str(self).partition("\n")[0]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the whole text as a cell's value, and one line inside other values."""
        inside = cycle or len(printer.stack) > 1
        printer.text(repr(self) if inside else shortened(str(self)))


def shortened(text: str) -> str:
    """Return the first lines of a text, and how many follow them."""
    lines = text.splitlines()
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    more = f"… {len(lines) - MOST_LINES:,} more lines: print() shows all"
    return "\n".join((*islice(lines, MOST_LINES), more))
