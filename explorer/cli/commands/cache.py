"""`ironworks cache`: what is kept on disk."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from explorer import cache
from explorer.cli.answer import Answer, tell
from explorer.cli.arguments import Parser, model_flags, parsed
from explorer.errors import BadOption
from explorer.plain_text import counted, percent, size, table

SHOWN = 40  # characters of a digest


def main(given: Sequence[str]) -> int:
    """Look at the cache, empty it, read all of it, share it with a team, or say why a model would
    be compiled again.
    """
    parser = Parser(
        "cache", "What is kept on disk: compiled kernels and measurements, each with its checksum."
    )
    actions = ("stats", "clear", "verify", "why", "publish")
    parser.add_argument(
        "action",
        nargs="?",
        choices=actions,
        default="stats",
        help="why takes a MODEL; publish, in its place, the FOLDER that a team reads",
    )
    model_flags(parser, optional=True)
    parser.set_defaults(bind=[])
    flags = parsed(parser, given)
    if flags.action == "why":
        return tell(why(flags), flags.json)
    if flags.action == "publish":
        return tell(publish(flags.model), flags.json)
    return tell({"stats": stats, "clear": clear, "verify": verify}[flags.action](), flags.json)


def stats() -> Answer:
    """How many entries there are of each kind, how full the folder is, and what a team's holds."""
    held, shared = cache.stats(), cache.team()
    share = held.size_bytes / held.limit_bytes if held.limit_bytes else 0.0
    full = f"{size(held.size_bytes)} of {size(held.limit_bytes)} ({percent(share)})"
    text = f"{counted(held.entries, 'entry', 'entries')}, {full}\n{held.folder}{_kinds(held)}"
    data = asdict(held) | {"team": None}
    if shared is not None:
        team = shared.stats()
        data["team"] = asdict(team) | {"owner": shared.owner}
        entries = counted(team.entries, "entry", "entries")
        text += f"\nteam: {entries}, {size(team.size_bytes)}, published by {shared.owner}"
        text += f"\n{team.folder}{_kinds(team)}"
    return Answer(data, text)


def _kinds(held: cache.DiskStats) -> str:
    rows = [(k.kind, f"{k.entries:,}", size(k.size_bytes)) for k in held.kinds]
    return f"\n{table(('kind', '>entries', '>size'), rows)}" if rows else ""


def publish(folder: str | None) -> Answer:
    """Copy what is kept into a folder that a team reads."""
    if folder is None:
        raise BadOption("no folder was named", where="cache publish", expected="a folder's path")
    done = cache.publish(Path(folder).expanduser())
    text = (
        f"{counted(done.added, 'entry', 'entries')}, {size(done.added_bytes)} published, "
        f"{done.already_there:,} known\n{done.folder}"
    )
    return Answer(done, text)


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


def why(flags: Namespace) -> Answer:
    """Whether a compilation would be found whole, and if not, what differs: then it is a no."""
    from explorer.cli.compiled import loaded, options
    from explorer.compiler import why_not_cached

    if flags.model is None:
        raise BadOption(
            "no model was named", where="cache why", expected="an ONNX file, or zoo:NAME"
        )
    found = why_not_cached(loaded(flags), flags.target, options(flags))
    if found.is_cached:
        text = f"{found.model} is kept whole: no pass runs, and no kernel is compiled"
    elif found.is_unstorable:
        text = f"{found.model} is never kept: nobody can tell what a pass or a policy will do"
    elif not found.differs:
        text = f"nothing is kept of a model named {found.model}"
    else:
        rows = (
            f"  {d.part}: it was {_short(d.then)}, and is {_short(d.now)}" for d in found.differs
        )
        text = "\n".join((f"{found.model} is kept, but not this one:", *rows))
    return Answer(found, text, yes=found.is_cached)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
