"""Glossary of the field's and this compiler's words, one sentence each.

Pages show it on hover and in a sheet; reports, notebooks and the site show it too.
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
    """A word and its self-contained sentence; `seen` is where the explorer shows it."""

    name: str
    means: str
    seen: str


@cache
def words() -> tuple[Word, ...]:
    """Return every word in the order of the text."""
    return tuple(Word(*row) for row in _ROW.findall(FILE.read_text("utf-8")))


@cache
def meanings() -> dict[str, str]:
    """Return each word's meaning, by the word."""
    return {word.name: word.means for word in words()}
