"""Report on Welder: fused kernels, weighed merges, and the algorithms of convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.candidates import candidates
from explorer.cli.explained.convolutions import algorithms
from explorer.cli.explained.find import is_about, shorten_rows, unknown_name
from explorer.cli.explained.labels import PROGRAM, labels, labels_before_fusion
from explorer.plain_text import size, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def groups(c: Compilation, op: str | None) -> Answer:
    """Return the fused kernels and the bytes saved; for one operator each weighed merge."""
    graph = c.program.decisions.tile_graph
    fused = (
        []
        if graph is None
        else [g for g in graph.groups if is_about(op, g.name, g.origin, g.members)]
    )
    if op is not None and not fused:
        raise unknown_name(c, op, (g.name for g in graph.groups) if graph else ())
    before, after = sum(g.bytes_before for g in fused), sum(g.bytes_after for g in fused)
    call_labels = labels(c)
    rows = [
        (
            call_labels.get(g.name, g.name),
            g.name,
            str(len(g.members)),
            size(g.bytes_before),
            size(g.bytes_after),
            " + ".join(g.kinds),
        )
        for g in fused
    ]
    lines = [
        table(
            ("group", PROGRAM, ">kernels", ">apart", ">welded", "made of"),
            shorten_rows(rows, op, 6),
        ),
        f"\n  {size(before)} to and from memory apart, {size(after)} welded",
    ]
    if op is not None:
        names = labels_before_fusion(c)
        lines += [
            f"\n  {call_labels.get(g.name, g.name)}: merges weighed\n{candidates(g.steps, names)}"
            for g in fused
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
        "groups": fused,
        "convolutions": convolutions,
    }
    return Answer(data, "\n".join(lines))
