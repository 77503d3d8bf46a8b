"""Control flow as uTask rows: loops, branches, calls and operators, with hardware levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlSchedule, TaskTree
from explorer.ir.decisions.wall import ControlFlowCounts
from explorer.ir.program import Program
from widgets.draw.see import Sentence
from widgets.draw.table import Table, time_text

FOLD_ABOVE = 6  # longer runs of plain operators become one row


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One uTask at its depth; `count` similar operators in a row are one TaskRow."""

    depth: int
    kind: str
    name: str
    level: str
    count: int = 1
    barriers_per_trip: int = 0
    reason: str = ""
    ops: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()  # the candidates, selected one first, with predicted times
    ran: str = ""  # in the measured run


def data(
    program: Program, ran: Sequence[ControlFlowCounts] = (), labels: Mapping[str, str] | None = None
) -> tuple[TaskRow, ...]:
    """Return the rows of the tree, parents before their parts; empty if Grinder has not run.

    `ran` is the profile of control flow in a run; `labels` are the labels of the program's calls.
    """
    tree = program.decisions.tasks
    schedules = {
        d.binding: tuple(map(_describe_candidate, d.candidates)) for d in program.decisions.control
    }
    profile = {r.binding: r for r in ran}
    return (
        () if tree is None else tuple(_rows(tree, 0, _RowFacts(schedules, profile, labels or {})))
    )


@dataclass(frozen=True, slots=True)
class _RowFacts:
    """Facts by binding: the schedules compared, the profile of a run, and the labels of calls."""

    schedules: Mapping[str, tuple[str, ...]]
    ran: Mapping[str, ControlFlowCounts]
    labels: Mapping[str, str]

    def label(self, tree: TaskTree) -> str:
        """Return the call's label for an operator, else the task's own name."""
        name = tree.name or tree.kind
        return self.labels.get(tree.binding, name) if tree.kind == "operator" else name

    def describe_run(self, tree: TaskTree) -> str:
        """Describe what a loop, branch or call did; an unrolled loop's remainder has no text."""
        profile = self.ran.get(tree.binding)
        is_remainder = tree.name.endswith("/rest")
        return profile.words if profile and tree.kind in _CONTROL and not is_remainder else ""

    def count_arms(self, tree: TaskTree) -> Sequence[str]:
        """Return how often each arm of a branch was taken."""
        profile = self.ran.get(tree.binding)
        if profile is None or tree.kind != "branch":
            return [""] * len(tree.parts)
        counts = (profile.then, profile.times - profile.then)
        return [f"taken {n:,} of {profile.times:,}" for n in counts]


_CONTROL = ("loop", "branch", "call", "library")


def _describe_candidate(weighed: Candidate[ControlSchedule]) -> str:
    result = f"no: {weighed.refused}" if weighed.refused else time_text(weighed.cost_us)
    return f"{weighed.label} {result}"


def _rows(tree: TaskTree, depth: int, facts: _RowFacts, ran: str = "") -> list[TaskRow]:
    control = tree.kind in ("loop", "branch", "call")
    rows = [
        TaskRow(
            depth,
            tree.kind,
            facts.label(tree),
            tree.level,
            1,
            tree.barriers_per_trip,
            tree.reason,
            tuple(sorted(tree.origin)),
            facts.schedules.get(tree.binding, ()) if control else (),
            ran or facts.describe_run(tree),
        )
    ]
    run: list[TaskTree] = []
    arms = dict(zip(map(id, tree.parts), facts.count_arms(tree)))
    for part in tree.parts:
        if part.kind == "operator" and (not run or run[0].level == part.level):
            run.append(part)
            continue
        rows += _folded(run, depth + 1, facts)
        run = [part] if part.kind == "operator" else []
        if part.kind != "operator":
            rows += _rows(part, depth + 1, facts, arms[id(part)])
    return rows + _folded(run, depth + 1, facts)


def _folded(run: list[TaskTree], depth: int, facts: _RowFacts) -> list[TaskRow]:
    if len(run) <= FOLD_ABOVE:
        return [row for part in run for row in _rows(part, depth, facts)]
    ops = frozenset[str]().union(*(p.origin for p in run))
    name = f"{facts.label(run[0])} to {facts.label(run[-1])}"
    return [TaskRow(depth, "operator", name, run[0].level, len(run), 0, "", tuple(sorted(ops)))]


def table(rows: tuple[TaskRow, ...], see: tuple[Sentence, ...] = ()) -> Table:
    """Return one row per uTask."""
    return Table(
        (
            "uTask",
            "kind",
            "level",
            "operators",
            "barriers each time",
            "reason",
            "schedules, predicted",
            "per run, measured",
        ),
        tuple(
            (
                "  " * r.depth + r.name,
                r.kind,
                r.level,
                r.count,
                r.barriers_per_trip,
                r.reason,
                "; ".join(r.schedules),
                r.ran,
            )
            for r in rows
        ),
        tuple(r.ops for r in rows),
        see=see,
    )
