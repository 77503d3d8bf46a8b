"""Grinder's decisions: the uTask tree as rows, and the schedules weighed for loops and branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import COST_UNITS, ControlDecision, ControlSchedule, TaskTree
from explorer.ir.decisions.wall import ControlFlowCounts
from explorer.ir.program import Program
from explorer.plain_text import counted, duration, table
from explorer.views.answer import Answer
from explorer.views.candidates import candidates
from explorer.views.labels import labels

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

MOST = 8  # loops and branches listed for a model, with their schedules
CONTROL = ("loop", "branch", "call")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One uTask at its depth; `count` similar operators in a row are one TaskRow.

    `unit` is what `barriers_per_trip` counts for, "" for a task without parts. `schedules` are the
    candidates of a loop, branch or call, the selected one first. `ran` tells what it did in a
    measured run.
    """

    depth: int
    kind: str
    name: str
    level: str
    count: int = 1
    barriers_per_trip: int = 0
    reason: str = ""
    ops: tuple[str, ...] = ()
    schedules: tuple[Candidate[ControlSchedule], ...] = ()
    ran: str = ""
    unit: str = ""


def task_rows(
    program: Program,
    ran: Sequence[ControlFlowCounts] = (),
    labels: Mapping[str, str] | None = None,
    fold_above: int | None = None,
) -> tuple[TaskRow, ...]:
    """Return the rows of the tree, parents before their parts; empty if Grinder has not run.

    `ran` is the profile of control flow in a run; `labels` are the labels of the program's calls.
    Runs of more than `fold_above` plain operators become one row.
    """
    tree = program.decisions.tasks
    if tree is None:
        return ()
    return tuple(_Rows(program, ran, labels or {}, fold_above).of(tree, 0))


class _Rows:
    """The rows of task trees, by the decisions of a program and the profile of a run."""

    def __init__(
        self,
        program: Program,
        ran: Sequence[ControlFlowCounts],
        labels: Mapping[str, str],
        fold_above: int | None,
    ) -> None:
        """Index decisions and profile by binding."""
        self.schedules = {d.binding: d.candidates for d in program.decisions.control}
        self.ran = {r.binding: r for r in ran}
        self.labels, self.fold_above = labels, fold_above

    def of(self, tree: TaskTree, depth: int, ran: str = "") -> list[TaskRow]:
        """Return the rows of a tree; `ran` replaces what its own profile tells."""
        rows = [
            TaskRow(
                depth,
                tree.kind,
                self._label(tree),
                tree.level,
                1,
                tree.barriers_per_trip,
                tree.reason,
                tuple(sorted(tree.origin)),
                self.schedules.get(tree.binding, ()) if tree.kind in CONTROL else (),
                ran or self._describe_run(tree),
                COST_UNITS.get(tree.kind, "") if tree.parts else "",
            )
        ]
        run: list[TaskTree] = []
        arms = dict(zip(map(id, tree.parts), self._count_arms(tree)))
        for part in tree.parts:
            if part.kind == "operator" and (not run or run[0].level == part.level):
                run.append(part)
                continue
            rows += self._folded(run, depth + 1)
            run = [part] if part.kind == "operator" else []
            if part.kind != "operator":
                rows += self.of(part, depth + 1, arms[id(part)])
        return rows + self._folded(run, depth + 1)

    def _folded(self, run: Sequence[TaskTree], depth: int) -> list[TaskRow]:
        """Return one row for a long run of operators, else a row for each."""
        if self.fold_above is None or len(run) <= self.fold_above:
            return [row for part in run for row in self.of(part, depth)]
        ops = frozenset[str]().union(*(p.origin for p in run))
        name = f"{self._label(run[0])} to {self._label(run[-1])}"
        return [TaskRow(depth, "operator", name, run[0].level, len(run), ops=tuple(sorted(ops)))]

    def _label(self, tree: TaskTree) -> str:
        """Return the call's label for an operator, else the task's own name."""
        name = tree.name or tree.kind
        return self.labels.get(tree.binding, name) if tree.kind == "operator" else name

    def _describe_run(self, tree: TaskTree) -> str:
        """Describe what a loop, branch or call did; an unrolled loop's remainder has no text."""
        profile = self.ran.get(tree.binding)
        is_remainder = tree.name.endswith("/rest")
        runs = tree.kind in (*CONTROL, "library") and not is_remainder
        return profile.words if profile and runs else ""

    def _count_arms(self, tree: TaskTree) -> Sequence[str]:
        """Return how often each arm of a branch was taken."""
        profile = self.ran.get(tree.binding)
        if profile is None or tree.kind != "branch":
            return [""] * len(tree.parts)
        counts = (profile.then, profile.times - profile.then)
        return [f"taken {n:,} of {profile.times:,}" for n in counts]


def tasks(c: Compilation, op: str | None) -> Answer:
    """Return the uTask tree and the control-flow schedules with their predicted times.

    For one operator these are the uTasks that contain it and nothing else of the tree.
    """
    tree = c.program.decisions.tasks
    rows = _Rows(c.program, (), labels(c), None)
    parts = [] if tree is None else _select_tasks(tree, op)
    lines = [_line(row) for part in parts for row in rows.of(part, 0)]
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
    head = "there is no uTask" if tree is None else "\n".join(lines)
    text = "\n\n".join((head, *texts))
    return Answer({"stage": "tasked", "tasks": tree, "control": decisions}, text)


def _select_tasks(tree: TaskTree, op: str | None) -> list[TaskTree]:
    """Return the outermost uTasks of an operator; the whole tree if there is no operator."""
    if op is None or op in tree.origin or op in (tree.name, tree.binding):
        return [tree]
    return [task for part in tree.parts for task in _select_tasks(part, op)]


def _line(row: TaskRow) -> str:
    barriers = f", {counted(row.barriers_per_trip, 'barrier')} per {row.unit}" if row.unit else ""
    reason = f": {row.reason}" if row.reason else ""
    return f"{'  ' * row.depth}{row.kind} {row.name}, on the {row.level}{barriers}{reason}"


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
