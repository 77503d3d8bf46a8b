"""The last fault of Ironworks in a shell or a notebook, stored in the cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from traceback import format_exception

from explorer import cache
from explorer.cli.bug_report.private import without_paths
from explorer.errors import CacheError, IronworksError

LONGEST = 1 << 16  # characters of a traceback


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """A fault: its command, its step and its traceback, without private details."""

    command: str
    sentence: str
    step: str
    traceback: str


def fault_record(
    words: Sequence[str], error: IronworksError, problem: BaseException
) -> FaultRecord:
    """Return the record of a fault, reported as `error` and raised as `problem`."""
    lines = "".join(format_exception(problem))
    parts = (" ".join(words), error.sentence, error.where, lines[-LONGEST:])
    return FaultRecord(*map(without_paths, parts))


def store_fault(words: Sequence[str], error: IronworksError, problem: BaseException) -> None:
    """Store a fault for `load_last_fault`, if the cache can be written."""
    text = json.dumps(asdict(fault_record(words, error, problem)))
    with suppress(CacheError):  # an unsafe cache stores nothing
        cache.put(_key(), text.encode())


def load_last_fault() -> FaultRecord | None:
    """Return the stored fault, or None if there is none."""
    stored = cache.get(_key())
    record = {} if stored is None else json.loads(stored)
    names = [field.name for field in fields(FaultRecord)]
    return FaultRecord(*(str(record[n]) for n in names)) if record.keys() == set(names) else None


def _key() -> str:
    return cache.content_key("the last fault")
