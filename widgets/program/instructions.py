"""Explanations of instructions, one line each: of Ironworks' kernels.

The languages are x86, PTX and SASS in one table, and AArch64, RISC-V and WebAssembly in their own.
"""

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
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
OTHERS = ("AArch64", "RISC-V", "WebAssembly")  # platforms that have a section of that name
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
    "a": {
        "eq": "equal",
        "ne": "not equal",
        "ge": "greater or equal",
        "gt": "greater",
        "hi": "above, without signs",
        "hs": "above or equal, without signs",
        "le": "less or equal",
        "lo": "below, without signs",
        "ls": "below or equal, without signs",
        "lt": "less",
        "mi": "negative",
        "pl": "not negative",
        "vc": "it did not overflow",
        "vs": "it overflowed, or one is NaN",
    },
    "w": {
        "f32": "a 32-bit float",
        "f64": "a 64-bit float",
        "i32": "a 32-bit whole number",
        "i64": "a 64-bit whole number",
        "f32x4": "four 32-bit floats",
        "f64x2": "two 64-bit floats",
        "i8x16": "sixteen 8-bit whole numbers",
        "i16x8": "eight 16-bit whole numbers",
        "i32x4": "four 32-bit whole numbers",
        "i64x2": "two 64-bit whole numbers",
        "v128": "a vector of 128 bits",
    },
    "o": {
        "132": "the first and the last are multiplied",
        "213": "the last two are multiplied",
        "231": "the first two are multiplied",
    },
}


@cache
def meanings(platform: str = "") -> dict[str, str]:
    """Return each instruction's meaning by its name; the first row with a name defines it.

    `platform` is one of `OTHERS`, or "" for x86 and GPUs.
    """
    by_name: dict[str, str] = {}
    parts = _SECTION.split(FILE.read_text("utf-8"))
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        if (title if title in OTHERS else "") == platform:
            for pattern, words in _ROW.findall(text):
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


def meaning(name: str, platform: str = "") -> str:
    """Return an instruction's meaning; "" if unknown.

    An instruction of PTX, SASS or a platform of `OTHERS` is found by its first parts.
    """
    all_meanings = meanings(platform)
    while name not in all_meanings and "." in name:
        name = name.rpartition(".")[0]
    return all_meanings.get(name, "")


def platform_of(names: Iterable[str]) -> str:
    """Return the platform whose table has most of the names."""
    every = set(names)
    return max(("", *OTHERS), key=lambda platform: sum(bool(meaning(n, platform)) for n in every))


def explain_instructions(lines: Iterable[str]) -> dict[str, str]:
    """Return the known instructions of an assembly text with their meanings."""
    names = {name for line in lines if (name := instruction_name(line))}
    platform = platform_of(names)
    return {name: explanation for name in sorted(names) if (explanation := meaning(name, platform))}


def instruction_name(line: str) -> str:
    """Return the instruction of a line of assembly; "" if it has none."""
    matched = _NAME.match(line)
    return (matched.group(1) or matched.group(2)) if matched else ""
