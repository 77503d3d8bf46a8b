"""Which line of a thread block's source each line of its PTX and of its SASS comes from."""

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
    """A text with the lines that a copy of it has, compiled with line information, and how far
    they can be trusted. Numba numbers and mangles names anew each time, which is no difference.
    """
    lines, kept, now = list[int](), list[str](), 0
    for text in marked.rstrip().split("\n"):
        if found := _LOC.match(text):
            now = int(found.group(1))
        if not _OF_MARKS.match(text):
            kept.append(text)
            lines.append(now if _INSTRUCTION.match(text) else 0)
    return _as_in(plain, kept, lines, "PTX")


def sass_listing(plain: str, marked: str) -> tuple[Listing, str]:
    """The same of what the disassembler tells, of whose marks the first above an instruction is the
    line itself, the others are where it was inlined.
    """
    lines, kept, now, marks = list[int](), list[str](), 0, False
    for text in marked.rstrip().split("\n"):
        if text.startswith(_SASS_MARK):
            found = _SASS_LINE.match(text)
            now, marks = (int(found.group(1)) if found and not marks else now), True
            continue
        marks = False
        kept.append(text)
        lines.append(now if _SASS_INSTRUCTION.match(text) else 0)
    return _as_in(plain, kept, lines, "SASS")


def _as_in(plain: str, kept: list[str], lines: list[int], what: str) -> tuple[Listing, str]:
    """The lines of a copy for the text that it is of, where both are the same."""
    mine, theirs = (_renamed(text).split("\n") for text in (plain.rstrip(), "\n".join(kept)))
    same = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
    found = [0] * (plain.rstrip("\n").count("\n") + 1)
    for a, b, size in same:
        found[a : a + size] = lines[b : b + size]
    others = len(mine) - sum(size for _, _, size in same)
    note = NEARLY.format(others, len(mine), what) if others else EXACT.format(what)
    return Listing(plain, tuple(found)), note


def _renamed(text: str) -> str:
    """The text with its long names numbered in their order."""
    names: dict[str, str] = {}
    return _NAME.sub(lambda found: names.setdefault(found.group(), f"_{len(names)}"), text)
