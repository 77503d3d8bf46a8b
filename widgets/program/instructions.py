"""What an instruction does, in a line: those of our kernels, of x86, of PTX and of SASS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".md")
_ROW = re.compile(r"^\| (?!instruction )([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_NAME = re.compile(
    r"^\s+(?:(?:@!?%\w+\s+)?([a-z][\w.]*)"
    r"|/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*))"  # SASS, behind its address
)
_FORM = re.compile(r"<(\w)>")
FORMS: Mapping[str, Mapping[str, str]] = {  # what stands for a letter, and what it is called
    "v": {"": "", "v": ""},
    "f": {
        "ps": "packed 32-bit floats",
        "pd": "packed 64-bit floats",
        "ss": "single 32-bit floats",
        "sd": "single 64-bit floats",
    },
    "s": {"ss": "a single 32-bit float", "sd": "a single 64-bit float"},
    "i": {"b": "8-bit", "w": "16-bit", "l": "32-bit", "q": "64-bit"},
    "d": {
        "b": "packed bytes",
        "w": "packed 16-bit numbers",
        "d": "packed 32-bit numbers",
        "q": "packed 64-bit numbers",
    },
    "c": {
        "a": "above, without signs",
        "ae": "above or equal, without signs",
        "b": "below, without signs",
        "be": "below or equal, without signs",
        "e": "equal",
        "ne": "not equal",
        "g": "greater",
        "ge": "greater or equal",
        "l": "less",
        "le": "less or equal",
        "s": "negative",
        "ns": "not negative",
        "o": "it overflowed",
        "no": "it did not overflow",
        "p": "one of them is NaN",
        "np": "none of them is NaN",
    },
    "p": {
        "eq": "they are equal",
        "neq": "they are not equal",
        "lt": "one is less than the other",
        "le": "one is less than the other, or equal",
        "gt": "one is greater than the other",
        "ge": "one is greater than the other, or equal",
        "nlt": "one is not less than the other, or NaN",
        "nle": "one is neither less than the other nor equal, or NaN",
        "ngt": "one is not greater than the other, or NaN",
        "nge": "one is neither greater than the other nor equal, or NaN",
        "ord": "none is NaN",
        "unord": "one is NaN",
    },
    "o": {
        "132": "the first and the last are multiplied",
        "213": "the last two are multiplied",
        "231": "the first two are multiplied",
    },
}


@cache
def meanings() -> dict[str, str]:
    """What each instruction does, by its name; the first row that has a name says it."""
    found: dict[str, str] = {}
    for pattern, words in _ROW.findall(FILE.read_text("utf-8")):
        for name, told in _written_out(pattern, words):
            found.setdefault(name, told)
    return found


def _written_out(pattern: str, words: str) -> Iterator[tuple[str, str]]:
    """A row for each of its forms."""
    form = _FORM.search(pattern)
    if form is None:
        yield pattern, words
        return
    for name, told in FORMS[form.group(1)].items():
        one = pattern.replace(form.group(), name, 1)
        yield from _written_out(one, words.replace(form.group(), told))


def meaning(name: str) -> str:
    """What an instruction does; "" for an unknown one. One of PTX or SASS is known by its first
    parts.
    """
    known = meanings()
    while name not in known and "." in name:
        name = name.rpartition(".")[0]
    return known.get(name, "")


def explained(lines: Iterable[str]) -> dict[str, str]:
    """The instructions of an assembly text that are known, with what each does."""
    names = {name for line in lines if (name := named(line))}
    return {name: told for name in sorted(names) if (told := meaning(name))}


def named(line: str) -> str:
    """The instruction of a line of assembly, "" where it is none."""
    found = _NAME.match(line)
    return (found.group(1) or found.group(2)) if found else ""
