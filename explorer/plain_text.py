"""Numbers, words and aligned columns as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import isfinite
from textwrap import wrap

__all__ = [
    "binding",
    "correlation",
    "counted",
    "duration",
    "folded",
    "percent",
    "shown",
    "signed_percent",
    "size",
    "table",
]

CONTROLS = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160)) if chr(n) not in "\t\n"}


def shown(text: str) -> str:
    r"""Escape characters that would steer a terminal as `\x1b`; tabs and line ends stay."""
    return text.translate(CONTROLS)


WIDTH = 110  # columns that a table of sentences keeps to


def folded(head: Sequence[str], rows: Iterable[Sequence[str]], width: int = WIDTH) -> str:
    """Format a table; where lines would exceed `width` its widest columns are wrapped.

    Words stay whole.
    """
    cells = [list(row) for row in rows]
    names = [name.removeprefix(">") for name in head]
    widths = [max(map(len, column)) for column in zip(names, *cells)]
    while 2 * len(head) + sum(widths) > width and max(widths) > LEAST:
        widths[widths.index(max(widths))] -= 1
    lines: list[Sequence[str]] = []
    for row in cells:
        parts = [wrap(cell, w) or [""] for cell, w in zip(row, widths)]
        lines += zip_longest(*parts, fillvalue="")
    return table(head, lines)


LEAST = 12  # no column is made narrower


def table(head: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "  ") -> str:
    """Format aligned columns under a head; a column whose head begins with `>` is right-aligned."""
    cells = [[name.removeprefix(">") for name in head], *[list(row) for row in rows]]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head))]
    right = [name.startswith(">") for name in head]

    def line(row: Sequence[str]) -> str:
        """Format one row."""
        placed = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right))
        return (indent + "  ".join(placed)).rstrip()

    rule = indent + "  ".join("─" * w for w in widths)
    return "\n".join((line(cells[0]), rule, *(line(row) for row in cells[1:])))


def duration(us: float) -> str:
    """Format microseconds in the unit that reads best: `870 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`."""
    if not isfinite(us) or us == 0:
        return "0" if us == 0 else "–"
    for limit, factor, unit in ((1.0, 1e3, "ns"), (1e3, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if abs(us) < limit:
            return f"{_three(us * factor)} {unit}"
    return f"{_three(us / 1e6)} s"


def size(count: float) -> str:
    """Format bytes in binary units: `512 B`, `1.50 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{_three(count)} {unit}"
        count /= 1024
    return ""


def _three(value: float) -> str:
    """Format three significant digits, without an exponent."""
    magnitude = abs(value)
    return f"{value:.{0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2}f}"


def binding(sizes: Mapping[str, int]) -> str:
    """Format sizes as `, batch=1, seq=128`, to follow other words; "" if there are none."""
    return "".join(f", {name}={value}" for name, value in sizes.items())


def percent(share: float) -> str:
    """Format a share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def signed_percent(share: float) -> str:
    """Format a deviation as a percentage with its sign."""
    return f"{100 * share:+.0f} %"


def correlation(value: float) -> str:
    """Format a correlation with two decimals; a dash if there were too few values."""
    return f"{value:.2f}" if isfinite(value) else "–"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: `1 kernel`, `2,000 kernels`, `0 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
