"""The source lines of a thread block's PTX and SASS, from copies with line information."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from explorer.codegen.listing import Listing

_LOC = re.compile(r"\t\.loc\t\d+ (\d+)")
_OF_MARKS = re.compile(r"\t\.(?:loc|file)\t")
_INSTRUCTION = re.compile(r"\t(?:@!?%\w+ )?[a-z]")
_NAME = re.compile(r"\b_\w+")
_SASS_LINE = re.compile(r'\t//## File "[^"]*", line (\d+)')
_SASS_MARK = "\t//##"
_SASS_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+\S")
EXACT = (
    "This is the {} of the kernel: a copy with line information was compiled to the same. What "
    "the compiler merged from several lines has none."
)
NEARLY = (
    "The lines are those of a copy with line information, of which the compiler makes {} of {:,} "
    "lines of {} otherwise: those have none."
)


def ptx_listing(plain: str, marked: str) -> tuple[Listing, str]:
    """Return PTX with the source lines of its marked copy, and a note on how far to trust them.

    Numba numbers and mangles names anew each time, which does not count as a difference.
    """
    lines, unmarked, now = list[int](), list[str](), 0
    for text in marked.rstrip().split("\n"):
        if match := _LOC.match(text):
            now = int(match.group(1))
        if not _OF_MARKS.match(text):
            unmarked.append(text)
            lines.append(now if _INSTRUCTION.match(text) else 0)
    return _match_lines(plain, unmarked, lines, "PTX")


def sass_listing(plain: str, marked: str) -> tuple[Listing, str]:
    """Return SASS with the source lines of its marked copy, and a note on how far to trust them.

    Of the marks above an instruction, the first is the line itself; the others are where it was
    inlined.
    """
    lines, unmarked, now, marks = list[int](), list[str](), 0, False
    for text in marked.rstrip().split("\n"):
        if text.startswith(_SASS_MARK):
            match = _SASS_LINE.match(text)
            now, marks = (int(match.group(1)) if match and not marks else now), True
            continue
        marks = False
        unmarked.append(text)
        lines.append(now if _SASS_INSTRUCTION.match(text) else 0)
    return _match_lines(plain, unmarked, lines, "SASS")


def _match_lines(
    plain: str, unmarked: list[str], lines: list[int], what: str
) -> tuple[Listing, str]:
    """Return the lines of a copy for the text itself, where both are the same."""
    lines_plain, lines_marked = (
        _numbered_names(text).split("\n") for text in (plain.rstrip(), "\n".join(unmarked))
    )
    same = SequenceMatcher(None, lines_plain, lines_marked, autojunk=False).get_matching_blocks()
    source_lines = [0] * (plain.rstrip("\n").count("\n") + 1)
    for a, b, size in same:
        source_lines[a : a + size] = lines[b : b + size]
    others = len(lines_plain) - sum(size for _, _, size in same)
    note = NEARLY.format(others, len(lines_plain), what) if others else EXACT.format(what)
    return Listing(plain, tuple(source_lines)), note


def _numbered_names(text: str) -> str:
    """Return the text with its long names numbered in their order."""
    names: dict[str, str] = {}
    return _NAME.sub(lambda match: names.setdefault(match.group(), f"_{len(names)}"), text)
