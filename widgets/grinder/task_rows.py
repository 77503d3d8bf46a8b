"""Control flow as uTasks, a row each: loops, branches, calls and operators, and the hardware level
that each runs at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlWay, TaskTree
from explorer.ir.decisions.wall import Ran
from explorer.ir.program import Program
from widgets.draw.see import Sentence
from widgets.draw.table import Table, time_text

FOLD_ABOVE = 6  # a run of more plain operators than this is one row


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One uTask at its depth; `count` operators in a row that are alike are one row."""

    depth: int
    kind: str
    name: str
    level: str
    count: int = 1
    barriers_per_trip: int = 0
    reason: str = ""
    ops: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()  # that were weighed, the one taken first, with predicted times
    ran: str = ""  # in the run that was measured


def data(
    program: Program, ran: Sequence[Ran] = (), labels: Mapping[str, str] | None = None
) -> tuple[TaskRow, ...]:
    """The tree, parents before their parts; empty where Grinder has not run. `ran`: what control
    flow did in a run; `labels`: what the calls of the program are called.
    """
    tree = program.decisions.tasks
    ways = {d.binding: tuple(map(_way, d.candidates)) for d in program.decisions.control}
    known = {r.binding: r for r in ran}
    return () if tree is None else tuple(_rows(tree, 0, _Known(ways, known, labels or {})))


@dataclass(frozen=True, slots=True)
class _Known:
    """By binding: the ways that were weighed, what ran, and what calls are called."""

    ways: Mapping[str, tuple[str, ...]]
    ran: Mapping[str, Ran]
    labels: Mapping[str, str]

    def called(self, tree: TaskTree) -> str:
        """A plain operator by what its call is called, the rest by their own names."""
        name = tree.name or tree.kind
        return self.labels.get(tree.binding, name) if tree.kind == "operator" else name

    def told(self, tree: TaskTree) -> str:
        """What a loop, branch or call did; what is left of turns is counted with them."""
        found = self.ran.get(tree.binding)
        rest = tree.name.endswith("/rest")
        return found.words if found and tree.kind in _CONTROL and not rest else ""

    def sides(self, tree: TaskTree) -> Sequence[str]:
        """How often each side of a branch was taken."""
        found = self.ran.get(tree.binding)
        if found is None or tree.kind != "branch":
            return [""] * len(tree.parts)
        counts = (found.then, found.times - found.then)
        return [f"taken {n:,} of {found.times:,}" for n in counts]


_CONTROL = ("loop", "branch", "call", "library")


def _way(weighed: Candidate[ControlWay]) -> str:
    told = f"no: {weighed.refused}" if weighed.refused else time_text(weighed.cost_us)
    return f"{weighed.label} {told}"


def _rows(tree: TaskTree, depth: int, known: _Known, ran: str = "") -> list[TaskRow]:
    control = tree.kind in ("loop", "branch", "call")
    rows = [
        TaskRow(
            depth,
            tree.kind,
            known.called(tree),
            tree.level,
            1,
            tree.barriers_per_trip,
            tree.reason,
            tuple(sorted(tree.origin)),
            known.ways.get(tree.binding, ()) if control else (),
            ran or known.told(tree),
        )
    ]
    run: list[TaskTree] = []
    sides = dict(zip(map(id, tree.parts), known.sides(tree)))
    for part in tree.parts:
        if part.kind == "operator" and (not run or run[0].level == part.level):
            run.append(part)
            continue
        rows += _folded(run, depth + 1, known)
        run = [part] if part.kind == "operator" else []
        if part.kind != "operator":
            rows += _rows(part, depth + 1, known, sides[id(part)])
    return rows + _folded(run, depth + 1, known)


def _folded(run: list[TaskTree], depth: int, known: _Known) -> list[TaskRow]:
    if len(run) <= FOLD_ABOVE:
        return [row for part in run for row in _rows(part, depth, known)]
    ops = frozenset[str]().union(*(p.origin for p in run))
    name = f"{known.called(run[0])} to {known.called(run[-1])}"
    return [TaskRow(depth, "operator", name, run[0].level, len(run), 0, "", tuple(sorted(ops)))]


def table(rows: tuple[TaskRow, ...], see: tuple[Sentence, ...] = ()) -> Table:
    """One row a uTask."""
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
                "; ".join(r.ways),
                r.ran,
            )
            for r in rows
        ),
        tuple(r.ops for r in rows),
        see=see,
    )
