"""Explanations of instructions, one line each: of Ironworks' kernels, x86, PTX and SASS."""

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
FORMS: Mapping[str, Mapping[str, str]] = {  # the spellings of a form's letter, and their words
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
    """Return each instruction's meaning by its name; the first row with a name defines it."""
    by_name: dict[str, str] = {}
    for pattern, words in _ROW.findall(FILE.read_text("utf-8")):
        for name, explanation in _expand_forms(pattern, words):
            by_name.setdefault(name, explanation)
    return by_name


def _expand_forms(pattern: str, words: str) -> Iterator[tuple[str, str]]:
    """Yield a row for each form of an instruction."""
    form = _FORM.search(pattern)
    if form is None:
        yield pattern, words
        return
    for name, form_words in FORMS[form.group(1)].items():
        spelled = pattern.replace(form.group(), name, 1)
        yield from _expand_forms(spelled, words.replace(form.group(), form_words))


def meaning(name: str) -> str:
    """Return an instruction's meaning; "" if unknown.

    An instruction of PTX or SASS is found by its first parts.
    """
    all_meanings = meanings()
    while name not in all_meanings and "." in name:
        name = name.rpartition(".")[0]
    return all_meanings.get(name, "")


def explain_instructions(lines: Iterable[str]) -> dict[str, str]:
    """Return the known instructions of an assembly text with their meanings."""
    names = {name for line in lines if (name := instruction_name(line))}
    return {name: explanation for name in sorted(names) if (explanation := meaning(name))}


def instruction_name(line: str) -> str:
    """Return the instruction of a line of assembly; "" if it has none."""
    matched = _NAME.match(line)
    return (matched.group(1) or matched.group(2)) if matched else ""
