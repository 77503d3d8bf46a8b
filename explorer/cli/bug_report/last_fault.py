"""The last fault of Ironworks that the shell or the house told, kept in the cache for a report."""

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
class Trouble:
    """What went wrong: in which command, in which step, and where that lies in the code; nothing
    in it is private.
    """

    command: str
    sentence: str
    step: str
    traceback: str


def trouble(words: Sequence[str], found: IronworksError, problem: BaseException) -> Trouble:
    """What is told as `found`, and was raised as `problem`."""
    lines = "".join(format_exception(problem))
    parts = (" ".join(words), found.sentence, found.where, lines[-LONGEST:])
    return Trouble(*map(without_paths, parts))


def keep(words: Sequence[str], found: IronworksError, problem: BaseException) -> None:
    """Put it where `last` finds it, if the cache can be written."""
    text = json.dumps(asdict(trouble(words, found, problem)))
    with suppress(CacheError):  # a cache that is not safe to use keeps nothing
        cache.put(_key(), text.encode())


def last() -> Trouble | None:
    """The last one that was kept; None where there is none."""
    kept = cache.get(_key())
    found = {} if kept is None else json.loads(kept)
    names = [field.name for field in fields(Trouble)]
    return Trouble(*(str(found[n]) for n in names)) if found.keys() == set(names) else None


def _key() -> str:
    return cache.content_key("the last fault")
