"""The last fault of Ironworks in a shell or a notebook, stored in the cache.

Private details are removed from its text: user names, host names and folders.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from traceback import format_exception

import explorer
from explorer import cache
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


HOMES = re.compile(r"/(?:home|Users)/[^/\s'\":,;()\[\]]+")
FOLDERS = re.compile(r"(?<![\w.~>…/])/(?:[^/\s'\":,;()\[\]]+/)+")
OURS = ("IRONWORKS_", "NUMBA_")


def without_paths(text: str) -> str:
    """Replace each folder outside of the packages; the last name of a path stays.

    /home/anna/m.onnx  ->  ~/m.onnx;   /data/anna/m.onnx  ->  …/m.onnx
    """
    for folder, name in _named_folders():
        text = re.sub(rf"{re.escape(folder)}(?![\w-])", name, text)
    return FOLDERS.sub("…/", HOMES.sub("~", text))


def _named_folders() -> list[tuple[str, str]]:
    """Return the folders with a name of their own, the innermost first."""
    folders = {
        os.path.expanduser("~"): "~",
        sys.base_prefix: "<python>",
        sys.prefix: "<python>",
        str(Path(explorer.__file__).parents[1]): "<ironworks>",
    }
    pairs = [(f, name) for f, name in folders.items() if f.count("/") > 0 and len(f) > 1]
    return sorted(pairs, key=lambda each: -len(each[0]))


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Select the variables of Ironworks and Numba; of others not even the name is returned."""
    return {n: without_paths(v) for n, v in sorted(variables.items()) if n.startswith(OURS)}
