"""Which line of a thread block's source each line of its PTX comes from."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from explorer.codegen.listing import Listing

_LOC = re.compile(r"\t\.loc\t\d+ (\d+)")
_OF_MARKS = re.compile(r"\t\.(?:loc|file)\t")
_INSTRUCTION = re.compile(r"\t(?:@!?%\w+ )?[a-z]")
_NAME = re.compile(r"\b_\w+")
EXACT = (
    "This is the PTX of the kernel: a copy with line information was compiled to the same. What "
    "the compiler merged from several lines has none."
)
NEARLY = (
    "The lines are those of a copy with line information, of which the compiler makes {} of {:,} "
    "lines of PTX otherwise: those have none."
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
    mine, theirs = (_renamed(text).split("\n") for text in (plain.rstrip(), "\n".join(kept)))
    same = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
    found_lines = [0] * (plain.rstrip("\n").count("\n") + 1)
    for a, b, size in same:
        found_lines[a : a + size] = lines[b : b + size]
    others = len(mine) - sum(size for _, _, size in same)
    note = NEARLY.format(others, len(mine)) if others else EXACT
    return Listing(plain, tuple(found_lines)), note


def _renamed(text: str) -> str:
    """The text with its long names numbered in their order."""
    names: dict[str, str] = {}
    return _NAME.sub(lambda found: names.setdefault(found.group(), f"_{len(names)}"), text)
