"""Control flow as uTasks: loops, branches, calls and operators, and the hardware level that each
runs at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import COSTS_ARE_OF, ControlWay, TaskTree
from explorer.ir.decisions.wall import Ran
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect, text_width, wrapped
from widgets.draw.table import Table, time_text
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture

LEVELS = ("host", "device", "unit")
_INKS = {"host": "v0", "device": "v1", "unit": "v2"}
COLUMNS = ("uTask", "kind", "level", "operators", "barriers each time", "reason")
BESIDE, LINE = 352.0, 13.0  # where words begin that stand beside the boxes, and their pitch
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


def table(rows: tuple[TaskRow, ...]) -> Table:
    """One row a uTask."""
    return Table(
        (
            "uTask",
            "kind",
            "level",
            "operators",
            "barriers each time",
            "reason",
            "ways, as predicted",
            "in a run, measured",
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
    )


def figure(rows: tuple[TaskRow, ...], selected: str = "") -> Svg:
    """The tree, indented, each uTask with the letter of its level."""
    pitch, top = 26, 40
    ran = any(r.ran for r in rows)
    width = 780 if ran else 680  # badges want room
    control = any(r.kind in ("loop", "branch", "call") for r in rows)
    marks = [label(12, 22, "uTasks", "i w"), *_levels()]
    if not control:
        marks.append(label(width - 12, 22, "no control flow in this model", "q", anchor="end"))
    if ran:
        marks += _badge(width - 12 - _wide("filled") - 96, 10, "filled")
        marks.append(label(width - 12, 22, "measured in a run", "q", anchor="end"))
    last_at: dict[int, float] = {}
    below = float(top)
    for row in rows:
        high = max(pitch, LINE * len(_words(row, width)))  # the box in the middle of its words
        x, y, below = 12 + 20 * row.depth, below + (high - pitch) / 2, below + high
        if row.depth and row.depth - 1 in last_at:
            marks.append(path(f"M{x - 11} {last_at[row.depth - 1]}V{y + 10}h11", "var(--edge)"))
        last_at[row.depth] = y + 20
        marks += _task(row, x, y, selected, width)
    height = max(below + 12, 80)
    return Svg(width, height, "".join(marks), f"uTask tree of {len(rows)} tasks")


def _levels() -> list[str]:
    marks = []
    for i, level in enumerate(LEVELS):
        x = 72 + i * 66
        marks += [
            rect(x, 12, 12, 12, f"var(--{_INKS[level]})", 'rx="2" stroke="var(--line2)"'),
            label(x + 16, 22, level),
        ]
    return marks


def _task(row: TaskRow, x: float, y: float, selected: str, width: float) -> list[str]:
    on = bool(selected) and selected in row.ops
    ground, edge = ("var(--soft)", "var(--accent)") if on else ("var(--pane)", "var(--line2)")
    wide = BESIDE - 12 - x
    style = "i w" if row.kind in ("loop", "branch", "call") or on else "i"
    note = f"{row.count} operators" if row.count > 1 else "" if row.kind == "operator" else row.kind
    letter = "inv w" if row.level == "unit" else "i w"
    marks = [
        rect(
            x,
            y,
            wide,
            20,
            ground,
            f'rx="3" stroke="{edge}"',
            title="; ".join((row.reason, *row.ways)) if row.ways else row.reason,
            ops=row.ops,
        ),
        rect(x + 1, y + 1, 18, 18, f"var(--{_INKS.get(row.level, 'v0')})", 'rx="2"'),
        label(x + 10, y + 14, row.level[:1].upper(), letter, anchor="middle"),
        label(x + 25, y + 14, fit(row.name, 0.93 * (wide - 42 - text_width(note))), style),
        label(x + wide - 7, y + 14, note, "q", anchor="end"),
    ]
    if row.ran:
        marks += _badge(BESIDE, y + 2, row.ran)
    begin, lines = _begin(row), _words(row, width)
    top = y + 14 - LINE / 2 * (len(lines) - 1)
    marks += [label(begin, top + LINE * i, line) for i, line in enumerate(lines) if line]
    return marks


def _begin(row: TaskRow) -> float:
    """Where what is said of a uTask begins: beside its box, and what it did in a run."""
    return BESIDE + (_wide(row.ran) + 8 if row.ran else 0)


def _words(row: TaskRow, width: float) -> list[str]:
    return wrapped(_said(row), width - 12 - _begin(row))


def _badge(x: float, y: float, text: str) -> list[str]:
    """What a clock or a counter said: filled."""
    box = rect(x, y, _wide(text), 16, "var(--ink)", 'rx="8"', title=f"measured: {text}")
    return [box, label(x + _wide(text) / 2, y + 12, text, "inv w", anchor="middle")]


def _wide(text: str) -> float:
    return 1.06 * text_width(text) + 14


def _said(row: TaskRow) -> str:
    met = row.barriers_per_trip and row.kind in COSTS_ARE_OF
    unit = COSTS_ARE_OF.get(row.kind, "")
    noun = "barrier" if row.barriers_per_trip == 1 else "barriers"
    barriers = f"{row.barriers_per_trip} {noun} a {unit}" if met else ""
    return "; ".join(t for t in (barriers, row.reason) if t)


def _draw(s: OnShow, op: str) -> Drawn:
    measured = s.walls.measured
    ran = measured.ran if measured is not None else ()
    rows = data(s.now.compiled.program, ran, s.house.labels)
    return rows, figure(rows, op), table(rows)


PICTURE = Picture(
    name="grinder",
    title="Grinder's uTask tree",
    short="Control flow",
    words="Loops, branches and calls as uTasks, each at the hardware level that runs it.",
    stage=Stage.TASKED,
    draw=_draw,
    of_run=True,
)
