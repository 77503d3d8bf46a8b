"""Data of the uTask tree: the uTasks, what runs at each level, and the key sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.decisions.control import TaskTree
from explorer.ir.decisions.wall import ControlFlowCounts
from explorer.ir.program import Program
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import count_text
from widgets.grinder.schedules import launches
from widgets.grinder.shown_tasks import REST, ShownTask, TaskFacts, build_tree, walk_tasks
from widgets.grinder.task_rows import TaskRow, data


@dataclass(frozen=True, slots=True)
class TreeRows:
    """A program's uTasks as drawn and as rows; `lanes` describe what runs at each level.

    `launched` and `on_host` count the launches of a run: of this plan, and with all on the host.
    """

    tree: ShownTask
    rows: tuple[TaskRow, ...]
    lanes: tuple[tuple[str, str], ...]
    launched: int | None = None
    on_host: int | None = None
    iterations: int | None = None


def lanes_of(device: Device) -> tuple[tuple[str, str], ...]:
    """Return the name of each level and what runs there."""
    unit = "core" if device.kind == "cpu" else "SM"
    together = count_text(device.units, unit)
    if device.units > 1:
        together += " in step"
    return ("host", "1 thread"), ("device", together), (unit, f"1 {unit} alone")


def see(rows: TreeRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the control flow and its levels, the inner loop, the launches."""
    nodes = list(walk_tasks(rows.tree))
    sentences: list[Sentence] = []
    loops = sum(n.kind == "loop" and n.under != REST for n in nodes)
    branches = sum(n.kind == "branch" for n in nodes)
    calls = sum(n.kind == "call" and bool(n.parts) for n in nodes)
    kinds = [("loop", loops), ("branch", branches), ("call", calls)]
    counts = [(kind, n) for kind, n in kinds if n]
    kernels = sum(n.bodies for n in nodes if n.kind == "operator")
    if not counts:
        sentences.append(("No loop, branch or call: all is one launch of ", _count(kernels), "."))
        return tuple(sentences)
    parts: list[str | Mark] = []
    for at, (kind, n) in enumerate(counts):
        parts.append(" and " if at and at + 1 == len(counts) else ", " if at else "")
        plural = f"{n:,} {kind}{'' if n == 1 else 'es' if kind == 'branch' else 's'}"
        parts.append(Mark(plural, f"k:{kind}"))
    hosted = sum(n.lane == 0 and n.kind in ("loop", "branch", "call") for n in nodes)
    where = Mark(f"{hosted:,}" if hosted else "none", "lv0")
    sentences.append((*(p for p in parts if p), ", ", where, " on the host."))
    if loops:
        around = any(
            p.kind == "loop" for n in nodes if n.kind == "loop" for p in [*walk_tasks(n)][1:]
        )
        which = "inner loop" if around else "loop" if loops == 1 else "first loop"
        word = Mark(f"The {which}", "inner")
        often = f" makes {count_text(rows.iterations or 0, 'iteration')}."
        sentences.append(
            (word, often if rows.iterations is not None else " ends when its data say so.")
        )
    if rows.launched is not None:
        now = Mark(count_text(rows.launched, "launch").replace("launchs", "launches"), "lv0")
        more = rows.on_host is not None and rows.on_host != rows.launched
        sentences.append((now, f" instead of {rows.on_host:,}." if more else " per run."))
    return tuple(sentences)


def _count(kernels: int) -> Mark:
    return Mark(count_text(kernels, "kernel"), "k:operator")


def tree_rows(
    program: Program,
    device: Device,
    facts: TaskFacts,
    ran: Sequence[ControlFlowCounts] = (),
    host: TaskTree | None = None,
) -> TreeRows | None:
    """Return the uTasks of a program, None if Grinder has not run.

    `host` is the tree with all control flow on the host.
    """
    tree = program.decisions.tasks
    if tree is None:
        return None
    facts = replace(facts, decided={d.binding: d for d in program.decisions.control})
    deepest = max(loops_of(tree, 0), key=lambda x: x[0], default=(0, ""))[1]
    return TreeRows(
        build_tree(tree, facts),
        data(program, ran, facts.labels),
        lanes_of(device),
        launches(tree, facts.ran),
        launches(host, facts.ran) if host is not None else None,
        facts.ran[deepest].trips if deepest in facts.ran else None,
    )


def loops_of(tree: TaskTree, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the loops of a tree by binding, each with the number of loops around it."""
    if tree.kind == "loop":
        yield depth, tree.binding
    for part in tree.parts:
        yield from loops_of(part, depth + (tree.kind == "loop"))
