"""The words of the field and of this compiler, each in a sentence: one text, which pages tell on
hover and in a sheet, in a report and in rooms of a notebook too, and the site as a page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".md")
_ROW = re.compile(r"^\| (?!word )([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or several that are told in one sentence; `seen` is where the house shows it."""

    names: tuple[str, ...]
    means: str
    seen: str


@cache
def words() -> tuple[Word, ...]:
    """Every word in the order of the text."""
    rows = _ROW.findall(FILE.read_text("utf-8"))
    return tuple(Word(tuple(names.split(", ")), means, seen) for names, means, seen in rows)


@cache
def meanings() -> dict[str, str]:
    """What each word means, by the word."""
    return {name: word.means for word in words() for name in word.names}
