"""Entries of a work log: their kinds and fields, their checks, their hash, and how they read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from math import isfinite
from typing import Any

from explorer.errors import printable
from explorer.measure.compare import NONE
from explorer.plain_text import duration
from explorer.printed import Printed

VERSION = 1
MOST_TEXT = 4000  # characters of a text; chosen
MOST_DEPTH = 8  # of nested values; chosen
TIMES = ("median_us", "low_us", "high_us")
RATIO = ("ratio", "low", "high")
COMPILED = {
    **dict.fromkeys(("program", "model", "digest", "target", "stage", "machine"), str),
    "options": dict,
    "code": list,
}
# Fields of each kind of entry and their types, beside `n`, `time`, `kind`, `text` and the hashes.
KINDS: Mapping[str, Mapping[str, type]] = {
    "begin": {"version": int},
    "hypothesis": {},
    "predicted": {},
    "revealed": {},
    "decision": COMPILED,
    "measurement": {**COMPILED, "sizes": dict, "runs": int, **dict.fromkeys(TIMES, float)},
    "what-if": COMPILED,
    "move": {},
    "conclusion": {"evidence": list},
}
EVIDENCE = ("predicted", "revealed", "decision", "measurement", "what-if")
VERDICTS = ("faster", "slower", NONE)


@dataclass(frozen=True, slots=True, repr=False)
class LogEntry(Printed):
    """An entry: its number, the time in seconds since 1970, its kind, its text, and the rest."""

    n: int
    time: int
    kind: str
    text: str
    fields: Mapping[str, Any]
    before: str
    hash: str

    @property
    def plain(self) -> dict[str, Any]:
        """The entry as its line in the file."""
        return {
            **hashed_part(self.n, self.time, self.kind, self.text, self.fields, self.before)
        } | {"hash": self.hash}

    @property
    def evidence(self) -> str:
        """The facts of the entry in words."""
        match self.kind:
            case "measurement":
                words = _time_words(self.fields)
            case "decision" | "what-if":
                words = f"program {self.fields['program'][:12]}"
            case "predicted":
                return f"answer {self.fields.get('answer')}"
            case "revealed":
                answer, result = self.fields.get("answer"), self.fields.get("found")
                return f"answer {answer}, result {result}"
            case "conclusion":
                return "rests on " + ", ".join(map(str, self.fields["evidence"]))
            case _:
                return ""
        return f"{words}; {options_text(self.fields)}"

    def __str__(self) -> str:
        """Return number, time, kind, text and facts."""
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.time))
        facts = printable(self.evidence)
        line = f"{self.n:>4}  {at}  {self.kind:<11}  {printable(self.text)}"
        return f"{line}\n{'':24}{facts}" if facts else line


def _time_words(values: Mapping[str, Any]) -> str:
    """Return a measured time and its comparison in words."""
    time = " to ".join(duration(values[name]) for name in ("low_us", "high_us"))
    words = f"{duration(values['median_us'])} (99 %: {time}, n = {values['runs']:,})"
    if "verdict" in values:
        beside = f"{duration(values['against_us'])} in turns with it"
        words += f", against {values['against']} ({beside}): {verdict_text(values)}"
    return words


def verdict_text(values: Mapping[str, Any]) -> str:
    """Return the verdict on a ratio of times with its interval."""
    ratio, low, high = (values[name] for name in RATIO)
    return f"{values['verdict']}, ratio {ratio:.3g} ({low:.3g} to {high:.3g})"


def options_text(values: Mapping[str, Any]) -> str:
    """Return the options that differ from the defaults, as `group.name=value`."""
    settings = [
        f"{group}.{name}={json.dumps(value) if not isinstance(value, str) else value}"
        for group, group_options in values["options"].items()
        for name, value in group_options.items()
    ]
    settings += [f"{name} is code" for name in values["code"]]
    return ", ".join(settings) or "default options"


def hashed_part(
    n: int, at: int, kind: str, text: str, values: Mapping[str, Any], before: str
) -> dict[str, Any]:
    """Return the part of a line that its hash covers."""
    return {"n": n, "time": at, "kind": kind, "text": text, "fields": values, "before": before}


def hash_of(part: Mapping[str, Any]) -> str:
    """Return SHA-256 of a value as JSON with sorted keys."""
    return sha256(json.dumps(part, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fault_of_values(part: Mapping[str, Any]) -> str:
    """Return what is wrong with the values of an entry, or ""."""
    for name, plain in (("n", int), ("time", int), ("kind", str), ("text", str), ("before", str)):
        if type(part[name]) is not plain:
            return f"{name} must be of type {plain.__name__}"
    if not 0 <= part["time"] < 1 << 33:
        return "time must be seconds since 1970"
    if not part["text"].strip() or len(part["text"]) > MOST_TEXT:
        return f"a text has 1 to {MOST_TEXT:,} characters"
    values = part["fields"]
    if not isinstance(values, dict) or not is_plain(values, MOST_DEPTH):
        return f"its fields must be plain finite values, nested at most {MOST_DEPTH} deep"
    if part["kind"] not in KINDS:
        return f"there is no kind {part['kind'][:40]!r}; there are {', '.join(KINDS)}"
    for name, kind in KINDS[part["kind"]].items():
        if type(values.get(name)) is not kind:
            return f"{name} must be of type {kind.__name__}"
    return _fault_of_times(values) if part["kind"] == "measurement" else _fault_of_code(values)


def _fault_of_times(values: Mapping[str, Any]) -> str:
    """Return what is wrong with times, ratio and verdict, or ""."""
    if not 0 < values["low_us"] <= values["median_us"] <= values["high_us"]:
        return "the median must lie in its interval"
    if any(type(size) is not int or size < 0 for size in values["sizes"].values()):
        return "sizes must be integers"
    if "verdict" in values:
        if any(type(values.get(name)) is not float for name in (*RATIO, "against_us")):
            return "a ratio, its interval and the other time must be numbers"
        if not 0 < values["low"] <= values["ratio"] <= values["high"]:
            return "the ratio must lie in its interval"
        if values["verdict"] not in VERDICTS:
            return f"the verdict must be {', '.join(VERDICTS)}"
    return _fault_of_code(values)


def _fault_of_code(values: Mapping[str, Any]) -> str:
    if "options" in values and not all(isinstance(v, dict) for v in values["options"].values()):
        return "options must be groups of values"
    if "code" in values and not all(isinstance(v, str) for v in values["code"]):
        return "the names of code must be texts"
    return ""


def is_plain(value: Any, depth: int) -> bool:
    """Return True for JSON values: texts, finite numbers, truth values, None, lists and objects."""
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, str):
        return len(value) <= MOST_TEXT
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int):
        return abs(value) < 1 << 63
    if not depth or not isinstance(value, list | dict):
        return False
    return all(is_plain(v, depth - 1) for v in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    else:
        yield from value


def html(entries: Sequence[LogEntry]) -> str:
    """Return entries as a table that takes the colours of its page."""
    head = "".join(f"<th>{name}</th>" for name in ("", "time (UTC)", "kind", "text", "facts"))
    rows = []
    for e in entries:
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(e.time))
        cells = (str(e.n), at, e.kind, printable(e.text, MOST_TEXT), printable(e.evidence))
        style = ' style="text-align:left"'
        rows.append("<tr>" + "".join(f"<td{style}>{escape(c)}</td>" for c in cells) + "</tr>")
    table = f'<table style="color:inherit"><tr>{head}</tr>{"".join(rows)}</table>'
    return f'<div style="overflow-x:auto">{table}</div>'
