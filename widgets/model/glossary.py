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
    """A word and its sentence, which stands alone; `seen` is where the house shows it."""

    name: str
    means: str
    seen: str


@cache
def words() -> tuple[Word, ...]:
    """Every word in the order of the text."""
    return tuple(Word(*row) for row in _ROW.findall(FILE.read_text("utf-8")))


@cache
def meanings() -> dict[str, str]:
    """What each word means, by the word."""
    return {word.name: word.means for word in words()}
