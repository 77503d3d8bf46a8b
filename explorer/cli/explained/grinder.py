"""Report on Grinder: the uTask tree and the schedules weighed for each loop and branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.candidates import candidates
from explorer.cli.explained.labels import labels
from explorer.ir.decisions.control import COST_UNITS, ControlDecision, TaskTree
from explorer.plain_text import counted, duration, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation

MOST = 8  # loops and branches listed for a model, with their schedules


def tasks(c: Compilation, op: str | None) -> Answer:
    """Return the uTask tree and the control-flow schedules with their predicted times."""
    tree = c.program.decisions.tasks
    lines = ["there is no uTask"] if tree is None else list(_branches(tree, op, "", labels(c)))
    origins = {} if tree is None else dict(_origins(tree))
    decisions = [
        d
        for d in c.program.decisions.control
        if op is None or op == d.binding or op in origins.get(d.binding, ())
    ]
    shown = decisions if op is not None else decisions[:MOST]
    texts = [_schedules(d) for d in shown]
    if len(decisions) > len(shown):
        texts.append(
            f"and {len(decisions) - len(shown)} more: --op NAME lists the schedules of one"
        )
    text = "\n\n".join(("\n".join(lines), *texts))
    return Answer({"stage": "tasked", "tasks": tree, "control": decisions}, text)


def _schedules(decision: ControlDecision) -> str:
    unit = COST_UNITS[decision.kind]
    head = f"{decision.kind} {decision.binding}: {decision.chosen.words}; predicted per {unit}"
    timed = [(m.schedule.words, duration(m.measured_us), str(m.rank)) for m in decision.measured]
    measured = table(("schedule", ">measured, per run", ">by the model"), timed)
    lines = (head, candidates(decision.candidates), *([measured] if timed else []))
    return "\n".join(lines)


def _origins(tree: TaskTree) -> Iterator[tuple[str, frozenset[str]]]:
    yield tree.binding, tree.origin
    for part in tree.parts:
        yield from _origins(part)


def _branches(
    tree: TaskTree, op: str | None, indent: str, call_labels: Mapping[str, str]
) -> Iterator[str]:
    if op is not None and op not in tree.origin and op not in (tree.name, tree.binding):
        for part in tree.parts:
            yield from _branches(part, op, indent, call_labels)
        return
    unit = COST_UNITS.get(tree.kind) if tree.parts else None
    barriers = f", {counted(tree.barriers_per_trip, 'barrier')} per {unit}" if unit else ""
    reason = f": {tree.reason}" if tree.reason else ""
    name = call_labels.get(tree.binding, tree.name) if tree.kind == "operator" else tree.name
    yield f"{indent}{tree.kind} {name}, on the {tree.level}{barriers}{reason}"
    for part in tree.parts:
        yield from _branches(part, None, indent + "  ", call_labels)
