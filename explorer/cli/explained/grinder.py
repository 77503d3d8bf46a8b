"""Grinder: the tree of uTasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.text import counted
from explorer.ir.decisions import TaskTree

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def tasks(c: Compilation, op: str | None) -> Answer:
    """The tree of uTasks."""
    tree = c.program.decisions.tasks
    text = "there is no uTask" if tree is None else "\n".join(_branches(tree, op, ""))
    return Answer({"stage": c.stage, "tasks": tree}, text)


def _branches(tree: TaskTree, op: str | None, indent: str) -> Iterator[str]:
    if op is not None and op not in tree.origin and op not in (tree.name, tree.binding):
        for part in tree.parts:
            yield from _branches(part, op, indent)
        return
    barriers = f", {counted(tree.barriers_per_trip, 'barrier')} a trip" if tree.parts else ""
    reason = f": {tree.reason}" if tree.reason else ""
    yield f"{indent}{tree.kind} {tree.name}, on the {tree.level}{barriers}{reason}"
    for part in tree.parts:
        yield from _branches(part, None, indent + "  ")
