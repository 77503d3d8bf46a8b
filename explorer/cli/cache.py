"""`ironworks cache`: what is kept on disk."""

from __future__ import annotations

from collections.abc import Sequence

from explorer import cache
from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, parsed
from explorer.cli.text import counted, percent, size


def main(given: Sequence[str]) -> int:
    """Look at the cache, empty it, or read all of it."""
    parser = Parser(
        "cache", "What is kept on disk: compiled kernels and measurements, each with its checksum."
    )
    parser.add_argument("action", nargs="?", choices=("stats", "clear", "verify"), default="stats")
    flags = parsed(parser, given)
    return tell({"stats": stats, "clear": clear, "verify": verify}[flags.action](), flags.json)


def stats() -> Answer:
    """How many entries there are, and how full the folder is."""
    held = cache.stats()
    share = held.size_bytes / held.limit_bytes if held.limit_bytes else 0.0
    text = (
        f"{counted(held.entries, 'entry', 'entries')}, {size(held.size_bytes)} "
        f"of {size(held.limit_bytes)} ({percent(share)})\n{held.folder}"
    )
    return Answer(
        {
            "folder": held.folder,
            "entries": held.entries,
            "size_bytes": held.size_bytes,
            "limit_bytes": held.limit_bytes,
        },
        text,
    )


def clear() -> Answer:
    """Remove every entry."""
    before = cache.stats()
    removed = cache.clear()
    return Answer(
        {"folder": before.folder, "removed": removed, "removed_bytes": before.size_bytes},
        f"removed {counted(removed, 'entry', 'entries')}, {size(before.size_bytes)}",
    )


def verify() -> Answer:
    """Read every entry; damaged ones are removed, and then the answer is no."""
    found = cache.verify()
    words = f"{found.intact:,} intact"
    if found.removed:
        words += f", {found.removed:,} damaged and removed"
    return Answer({"intact": found.intact, "removed": found.removed}, words, yes=not found.removed)
