"""Grinder: the tree of uTasks, and the ways that were weighed for each loop and branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.called import labels
from explorer.cli.explained.candidates import candidates
from explorer.ir.decisions.control import COST_UNITS, ControlDecision, TaskTree
from explorer.plain_text import counted, duration, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation

MOST = 8  # loops and branches whose ways are listed for a whole model


def tasks(c: Compilation, op: str | None) -> Answer:
    """The tree of uTasks, then the ways of its loops and branches with their predicted times."""
    tree = c.program.decisions.tasks
    lines = ["there is no uTask"] if tree is None else list(_branches(tree, op, "", labels(c)))
    origins = {} if tree is None else dict(_origins(tree))
    found = [
        d
        for d in c.program.decisions.control
        if op is None or op == d.binding or op in origins.get(d.binding, ())
    ]
    shown = found if op is not None else found[:MOST]
    texts = [_weighed(d) for d in shown]
    if len(found) > len(shown):
        texts.append(f"and {len(found) - len(shown)} more: --op NAME lists the ways of one")
    text = "\n\n".join(("\n".join(lines), *texts))
    return Answer({"stage": "tasked", "tasks": tree, "control": found}, text)


def _weighed(decision: ControlDecision) -> str:
    unit = COST_UNITS[decision.kind]
    head = f"{decision.kind} {decision.binding}: {decision.chosen.words}; predicted per {unit}"
    timed = [(m.schedule.words, duration(m.measured_us), str(m.rank)) for m in decision.measured]
    measured = table(("way", ">measured, per run", ">by the model"), timed)
    lines = (head, candidates(decision.candidates), *([measured] if timed else []))
    return "\n".join(lines)


def _origins(tree: TaskTree) -> Iterator[tuple[str, frozenset[str]]]:
    yield tree.binding, tree.origin
    for part in tree.parts:
        yield from _origins(part)


def _branches(
    tree: TaskTree, op: str | None, indent: str, called: Mapping[str, str]
) -> Iterator[str]:
    if op is not None and op not in tree.origin and op not in (tree.name, tree.binding):
        for part in tree.parts:
            yield from _branches(part, op, indent, called)
        return
    unit = COST_UNITS.get(tree.kind) if tree.parts else None
    barriers = f", {counted(tree.barriers_per_trip, 'barrier')} per {unit}" if unit else ""
    reason = f": {tree.reason}" if tree.reason else ""
    name = called.get(tree.binding, tree.name) if tree.kind == "operator" else tree.name
    yield f"{indent}{tree.kind} {name}, on the {tree.level}{barriers}{reason}"
    for part in tree.parts:
        yield from _branches(part, None, indent + "  ", called)
