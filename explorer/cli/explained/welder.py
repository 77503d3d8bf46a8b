"""Welder: kernels that became one, merges that were weighed, and how convolutions are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.called import PROGRAM, before_welding, labels
from explorer.cli.explained.candidates import candidates
from explorer.cli.explained.convolutions import algorithms
from explorer.cli.explained.find import about, no_such, shortened
from explorer.plain_text import size, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def groups(c: Compilation, op: str | None) -> Answer:
    """The kernels that became one and the bytes this saves; for one operator each merge weighed."""
    graph = c.program.decisions.tile_graph
    found = (
        [] if graph is None else [g for g in graph.groups if about(op, g.name, g.origin, g.members)]
    )
    if op is not None and not found:
        raise no_such(c, op, (g.name for g in graph.groups) if graph else ())
    before, after = sum(g.bytes_before for g in found), sum(g.bytes_after for g in found)
    called = labels(c)
    rows = [
        (
            called.get(g.name, g.name),
            g.name,
            str(len(g.members)),
            size(g.bytes_before),
            size(g.bytes_after),
            " + ".join(g.kinds),
        )
        for g in found
    ]
    lines = [
        table(
            ("group", PROGRAM, ">kernels", ">apart", ">welded", "made of"),
            shortened(rows, op, 6),
        ),
        f"\n  {size(before)} to and from memory apart, {size(after)} welded",
    ]
    if op is not None:
        names = before_welding(c)
        lines += [
            f"\n  {called.get(g.name, g.name)}: merges weighed\n{candidates(g.steps, names)}"
            for g in found
            if g.steps
        ]
    convolutions, text = algorithms(c, op)
    lines += [text] if text else []
    policy = "" if graph is None else graph.policy
    data = {
        "stage": c.stage,
        "policy": policy,
        "bytes_before": before,
        "bytes_after": after,
        "groups": found,
        "convolutions": convolutions,
    }
    return Answer(data, "\n".join(lines))
