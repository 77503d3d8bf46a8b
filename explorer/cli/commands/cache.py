"""`ironworks cache`: the cache on disk."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from explorer import cache
from explorer.cli.arguments import Parser, model_flags, parse_flags
from explorer.cli.terminal import print_answer
from explorer.errors import BadOption
from explorer.plain_text import counted, percent, size, table
from explorer.views.answer import Answer

SHOWN = 40  # characters of a digest


def main(argv: Sequence[str]) -> int:
    """Show, clear, verify or publish the cache, or explain why a model is not cached."""
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
    flags = parse_flags(parser, argv)
    if flags.action == "why":
        return print_answer(why(flags), flags.json)
    if flags.action == "publish":
        return print_answer(publish(flags.model), flags.json)
    return print_answer(
        {"stats": stats, "clear": clear, "verify": verify}[flags.action](), flags.json
    )


def stats() -> Answer:
    """Return the number of entries by kind and the size of the cache and of a team's."""
    local, shared = cache.stats(), cache.team()
    share = local.size_bytes / local.limit_bytes if local.limit_bytes else 0.0
    full = f"{size(local.size_bytes)} of {size(local.limit_bytes)} ({percent(share)})"
    text = f"{counted(local.entries, 'entry', 'entries')}, {full}\n{local.folder}{_kinds(local)}"
    data = asdict(local) | {"team": None}
    if shared is not None:
        team = shared.stats()
        data["team"] = asdict(team) | {"owner": shared.owner}
        entries = counted(team.entries, "entry", "entries")
        text += f"\nteam: {entries}, {size(team.size_bytes)}, published by {shared.owner}"
        text += f"\n{team.folder}{_kinds(team)}"
    return Answer(data, text)


def _kinds(statistics: cache.DiskStats) -> str:
    rows = [(k.kind, f"{k.entries:,}", size(k.size_bytes)) for k in statistics.kinds]
    return f"\n{table(('kind', '>entries', '>size'), rows)}" if rows else ""


def publish(folder: str | None) -> Answer:
    """Copy the entries into a folder that a team reads."""
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
    """Read every entry and remove damaged ones; the answer is no if there were any."""
    result = cache.verify()
    words = f"{result.intact:,} intact"
    if result.removed:
        words += f", {result.removed:,} damaged and removed"
    return Answer(
        {"intact": result.intact, "removed": result.removed}, words, yes=not result.removed
    )


def why(flags: Namespace) -> Answer:
    """Compare a compilation with the cached one; the answer is no if it is not cached.

    The rows name each part of the key that differs.
    """
    from explorer.cli.compile_model import load_model, options
    from explorer.compiler.pipeline import why_not_cached

    if flags.model is None:
        raise BadOption(
            "no model was named", where="cache why", expected="an ONNX file, or zoo:NAME"
        )
    lookup = why_not_cached(load_model(flags), flags.target, options(flags))
    if lookup.is_cached:
        text = f"{lookup.model} is cached: no pass runs, and no kernel is compiled"
    elif lookup.is_unstorable:
        text = f"{lookup.model} is never cached: a pass or a policy has no fingerprint"
    elif not lookup.differs:
        text = f"no compilation of a model named {lookup.model} is cached"
    else:
        rows = (
            f"  {d.part}: it was {_shorten_digest(d.then)}, and is {_shorten_digest(d.now)}"
            for d in lookup.differs
        )
        text = "\n".join((f"{lookup.model} is cached, but with other parts of the key:", *rows))
    return Answer(lookup, text, yes=lookup.is_cached)


def _shorten_digest(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
