"""Chain of a work log: the file is read, each entry is checked, and the first fault is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.course.log_entry import (
    EVIDENCE,
    VERSION,
    LogEntry,
    fault_of_values,
    hash_of,
    hashed_part,
)
from explorer.errors import SnapshotError

MOST_BYTES = 4 << 20  # of a file; chosen
MOST_LINE = 1 << 16  # bytes of an entry; chosen
MOST_ENTRIES = 2000  # chosen


@dataclass(frozen=True, slots=True)
class Chain:
    """The entries of a file up to its first fault, and the fault as a sentence, or ""."""

    entries: tuple[LogEntry, ...]
    fault: str = ""

    @property
    def last_hash(self) -> str:
        """The hash of the last entry, which stands for all of them; "" for an empty file."""
        return self.entries[-1].hash if self.entries else ""


def verify_log(path: str | Path) -> Chain:
    """Read a file and verify its chain; the fault names the first entry that is not as written.

    Raises:
        SnapshotError: the file cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise SnapshotError(f"there is no file {file}", where=str(file))
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as problem:
        raise SnapshotError(f"{file} cannot be read: {problem.strerror}") from problem
    return verify_bytes(data) if data else Chain((), "the file is empty: it is no work log")


def verify_bytes(data: bytes) -> Chain:
    """Verify the chain of a file's content."""
    if len(data) > MOST_BYTES:
        return Chain((), f"the file is larger than {MOST_BYTES >> 20} MiB")
    entries: list[LogEntry] = []
    for number, line in enumerate(data.splitlines()):
        fault, entry = _read_line(line, number, entries)
        if entry is None:
            return Chain(tuple(entries), fault)
        entries.append(entry)
        if len(entries) > MOST_ENTRIES:
            return Chain(tuple(entries), f"the log has more than {MOST_ENTRIES:,} entries")
    if data and not data.endswith(b"\n"):
        return Chain(tuple(entries), f"entry {len(entries) - 1} is cut: its line has no end")
    return Chain(tuple(entries))


def _read_line(
    line: bytes, number: int, entries: Sequence[LogEntry]
) -> tuple[str, LogEntry | None]:
    """Return the entry of a line, or the fault and None."""
    if len(line) > MOST_LINE:
        return f"entry {number} is larger than {MOST_LINE >> 10} KiB", None
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        return f"entry {number} is no JSON of plain values", None
    if not isinstance(value, dict) or set(value) != {*hashed_part(0, 0, "", "", {}, ""), "hash"}:
        return f"entry {number} has not the fields of a work log of version {VERSION}", None
    claimed = value.pop("hash")
    if fault := fault_of_values(value):
        return f"entry {number} is invalid: {fault}", None
    if hash_of(value) != claimed:
        return f"entry {number} was changed: its content does not have its hash", None
    if value["n"] != number:
        return f"entry {number} is missing: entry {value['n']} stands in its place", None
    if value["before"] != (entries[-1].hash if entries else ""):
        before = max(number - 1, 0)
        return f"entry {before} was replaced: entry {number} followed another one", None
    entry = LogEntry(**value, hash=claimed)
    if (number == 0) != (entry.kind == "begin"):
        return f"entry {number} is of the kind {entry.kind!r}, which does not fit there", None
    if fault := _fault_of_references(entry, entries):
        return f"entry {number} is invalid: {fault}", None
    return "", entry


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a field stands twice")
    return dict(pairs)


def _fault_of_references(entry: LogEntry, entries: Sequence[LogEntry]) -> str:
    """Return what is wrong with the numbers of other entries, or ""."""
    kinds: Sequence[str]
    if entry.kind == "conclusion":
        numbers, kinds = entry.fields["evidence"], EVIDENCE
    elif "verdict" in entry.fields:
        numbers, kinds = [entry.fields.get("against")], ("measurement",)
    else:
        return ""
    for n in numbers:
        if type(n) is not int or not 0 <= n < len(entries) or entries[n].kind not in kinds:
            return f"it names entry {n!r}, which is not before it or no {' or '.join(kinds)}"
    return ""
