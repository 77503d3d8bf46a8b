"""Lines of a kernel that correspond: of its Numba source, LLVM IR and assembly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.devices.listing import Listing
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from widgets.draw.svg import Svg, fit, label, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by
from widgets.model.compiled import Kernel
from widgets.model.picture import Drawn, OnShow, Picture
from widgets.program.generated_source import PTX_COMMENT, kernel_of

OF_CPU, OF_GPU = ("LLVM IR", "assembly"), ("PTX", "SASS")
_INSTRUCTION = re.compile(r"\s+[a-z%@{]")
_OF_SASS = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+\S")  # behind its address
_NO_INSTRUCTION = re.compile(r"\s*[.#;}/]|\s*[\w.$]+:|declare |attributes |define |source_|target ")
_DECLARED = re.compile(r"^(\w+) = \w+\(")


@dataclass(frozen=True, slots=True)
class LineRow:
    """A line of the source, counted from 1, with the number of instructions that come from it."""

    number: int
    text: str
    llvm: int
    assembly: int


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a kernel's source.

    `marked` and `counted` are for LLVM IR and assembly, on a GPU for PTX and SASS, as in `names`:
    the number of instructions with a source line, and of all instructions.
    """

    kernel: str
    rows: tuple[LineRow, ...]
    marked: tuple[int, int]
    counted: tuple[int, int]
    note: str
    ops: tuple[str, ...] = ()
    names: tuple[str, str] = OF_CPU


def data(kernel: Kernel) -> Lines:
    """Return every line of the source with its instruction counts."""
    listings = kernel.listings
    instructions = [_instructions(listing) for listing in (listings.llvm, listings.assembly)]
    llvm, assembly = (Counter(lines) for lines in instructions)
    rows = tuple(
        LineRow(i, text, llvm[i], assembly[i])
        for i, text in enumerate(kernel.source.rstrip("\n").split("\n"), 1)
    )
    marked = (llvm.total() - llvm[0], assembly.total() - assembly[0])
    counted = (llvm.total(), assembly.total())
    ops, gpu = tuple(sorted(kernel.origins)), listings.llvm.text.startswith(PTX_COMMENT)
    names = OF_GPU if gpu else OF_CPU
    return Lines(kernel.name, rows, marked, counted, listings.note, ops, names)


def _instructions(listing: Listing) -> list[int]:
    """Return the source line of each instruction of a text."""
    texts = listing.text.rstrip("\n").split("\n")
    lines = listing.lines or (0,) * len(texts)
    return [n for n, text in zip(lines, texts) if is_instruction(text)]


def is_instruction(text: str) -> bool:
    """Return True for an instruction of LLVM IR, assembly, PTX or SASS.

    False for labels, directives and comments.
    """
    plain = _INSTRUCTION.match(text) and not _NO_INSTRUCTION.match(text)
    return bool(plain or _OF_SASS.match(text))


def declaration_groups(source: str) -> tuple[tuple[int, ...], ...]:
    """Return groups of source lines that belong together although code comes from only one.

    Each group is a declaration above a kernel and the lines that call it.
    """
    lines = source.rstrip("\n").split("\n")
    groups = []
    for at, line in enumerate(lines, 1):
        if name := _DECLARED.match(line):
            call = re.compile(rf"\b{name.group(1)}\(")
            calls = [n for n, other in enumerate(lines, 1) if n != at and call.search(other)]
            groups.append((at, *calls))
    return tuple(groups)


def link_summary(rows: Lines) -> str:
    """Return the number of linked instructions, and how exact the links are."""
    parts = (
        f"{have:,} of {counted(all_, f'{name} instruction')}"
        for name, have, all_ in zip(rows.names, rows.marked, rows.counted)
        if all_
    )
    linked = " and ".join(parts)
    return f"{linked} come from one line of the source. {rows.note}" if linked else rows.note


def table(rows: Lines) -> Table:
    """Return one row per line of the source, with or without code."""
    return Table(
        ("line", "source", *rows.names),
        tuple((r.number, r.text, r.llvm, r.assembly) for r in rows.rows),
        (rows.ops,) * len(rows.rows),
        f"{rows.kernel}: {link_summary(rows)}",
        see(rows),
    )


def see(rows: Lines) -> tuple[Sentence, ...]:
    """Return the sentences: the number of linked instructions, and the line with the most."""
    shown = rows.rows[:LIMIT]
    most = max(shown, key=lambda r: r.assembly, default=None)
    have, all_ = rows.marked[1], rows.counted[1]
    if most is None or not most.assembly:
        return ((f"{rows.kernel}: {link_summary(rows)}",),)
    linked = Mark(f"{have:,} of {all_:,}", "linked")
    return (
        (linked, f" {rows.names[1]} instructions come from one line of the source."),
        (Mark(f"Line {most.number}", f"line{most.number}"), f" became most, {most.assembly:,}."),
    )


WIDE, HIGH, LIMIT, BAR = 960, 17, 80, 120


def figure(rows: Lines) -> Svg:
    """Draw the source with a bar per line for its instructions."""
    shown: Sequence[LineRow] = rows.rows[:LIMIT]
    most = max((r.assembly for r in shown), default=0) or 1
    marks = []
    for i, row in enumerate(shown):
        y = i * HIGH + 12
        body = label(28, y, str(row.number), "q", anchor="end")
        body += label(40, y, fit(row.text.replace(" ", "\u00a0"), 700, mono=True), "mono i")
        if row.assembly:
            wide = max(1.0, row.assembly / most * BAR)
            body += rect(760, y - 9, wide, 9, "var(--t2)")
            body += label(766 + wide, y, f"{row.assembly:,}", "q")
        marks.append(lit_by(body, f"line{row.number}{' linked' * (row.assembly > 0)}"))
    if len(rows.rows) > LIMIT:
        marks.append(
            label(40, LIMIT * HIGH + 12, f"… and {len(rows.rows) - LIMIT} lines more", "q")
        )
    title = f"{rows.kernel}: instructions of {rows.names[1]} by line of its source"
    return Svg(WIDE, (len(shown) + 1) * HIGH, "".join(marks), title)


def _draw(s: OnShow, op: str) -> Drawn:
    rows = data(kernel_of(s, op))
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="lines",
    title="Source to assembly",
    words="Each line of a kernel's source with the LLVM IR and the assembly that it became.",
    draw=_draw,
    stage=Stage.EMITTED,
    about="kernel",
    live="code",
)
