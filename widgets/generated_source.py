"""What was generated for one kernel: the Numba source, LLVM IR and assembly, with the operators of
each line.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from widgets.compiled import Kernel
from widgets.svg import Svg, fit, label
from widgets.table import Table

LANGUAGES = ("numba", "llvm", "assembly")


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The lines of one kernel in one language; every line comes from the kernel's operators."""

    kernel: str
    language: str
    lines: tuple[str, ...]
    ops: tuple[str, ...]


def data(kernel: Kernel, language: str = "numba") -> SourceRows:
    """The lines; LLVM IR and assembly are made on demand."""
    text = {"numba": "source", "llvm": "llvm", "assembly": "assembly"}[language]
    lines = tuple(str(getattr(kernel, text)).rstrip("\n").split("\n"))
    return SourceRows(kernel.name, language, lines, tuple(sorted(kernel.origins)))


def instructions(assembly: SourceRows, most: int = 12) -> tuple[tuple[str, int], ...]:
    """The commonest instructions of an assembly text."""
    found = Counter(
        words[0]
        for line in assembly.lines
        if line[:1] in (" ", "\t")
        and (words := line.split())
        and not words[0].startswith((".", "#", ";"))
    )
    return tuple(found.most_common(most))


def table(rows: SourceRows) -> Table:
    """One row a line."""
    return Table(
        ("line", rows.language),
        tuple((i + 1, line) for i, line in enumerate(rows.lines)),
        (rows.ops,) * len(rows.lines),
        f"{rows.kernel}: {len(rows.lines)} lines",
    )


def figure(rows: SourceRows, limit: int = 60) -> Svg:
    """The first lines."""
    shown = rows.lines[:limit]
    marks = []
    for i, line in enumerate(shown):
        marks.append(label(28, i * 17 + 12, str(i + 1), "q", anchor="end"))
        marks.append(label(40, i * 17 + 12, fit(line.replace(" ", " "), 910, mono=True), "mono i"))
    if len(rows.lines) > limit:
        marks.append(label(40, limit * 17 + 12, f"… and {len(rows.lines) - limit} lines more", "q"))
    return Svg(960, (len(shown) + 1) * 17, "".join(marks), f"{rows.language} of {rows.kernel}")
