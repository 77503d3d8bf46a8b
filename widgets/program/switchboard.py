"""The switchboard: every step in order, on or off, its effect and time, beside A's.

Both pipelines are summed up in a few numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from explorer.compiler.compilation import Compilation
from explorer.ir.stage import Stage
from explorer.passes.arrangement import why_needed
from explorer.passes.user_pass import UserPass
from explorer.plain_text import counted
from explorer.tuning.sensitivity import WELD, cost_of, did
from widgets.draw.svg import Svg, fit, label, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by, size_text, time_text
from widgets.model.compiled import Compiled, Snapshot
from widgets.model.picture import Drawn, Family, OnShow, Picture
from widgets.model.pipeline_knobs import PLACE, PREFIX, SWITCH, all_steps
from widgets.model.stage_strip import changes

WIDTH, LINE = 780.0, 18.0
ON = ("off", "on")


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A step at its place.

    `ran`: the compilation reached it. `did`: it changed something. `needed` explains why it cannot
    be left out, else "". `knob` switches it; `place` is the knob of its position. `in_a`: A has it.
    """

    name: str
    stage: str
    on: bool
    seconds: float
    changes: int
    did: bool
    needed: str
    knob: str
    place: str
    in_a: bool = True
    ran: bool = True


@dataclass(frozen=True, slots=True)
class Board:
    """The steps, and numbers of A and of the setting on show, as texts with units."""

    steps: tuple[SwitchRow, ...]
    numbers: tuple[tuple[str, str, str], ...]


def data(c: Compiled, a: Compiled) -> Board:
    """Return the switchboard of a compilation, beside the baseline's."""
    ran = {s.name: s for s in c.snapshots}
    in_a = {s.name for s in a.snapshots} | {s.name for s in all_steps(a) if _is_on(a, s.name)}
    if isinstance(c, Compilation):
        steps = all_steps(c)
        needed = {s.name: why_needed(steps, s.name) for s in steps}
        rows = tuple(
            _row(s.name, s.stage, ran.get(s.name), needed[s.name], isinstance(s.run, UserPass), c)
            for s in steps
        )
    else:
        rows = tuple(
            _row(s.name, s.stage, s, "it was compiled elsewhere", False, c) for s in ran.values()
        )
    return Board(
        tuple(_beside(r, in_a) for r in rows),
        tuple(_numbers(a, c)),
    )


def _row(
    name: str, stage: Stage, ran: Snapshot | None, needed: str, own: bool, c: Compiled
) -> SwitchRow:
    knob = f"{PREFIX if own else SWITCH}{name}"
    on = ran is not None or _is_on(c, name)
    if name == WELD and needed and isinstance(c, Compilation):
        knob, needed, on = "fusion", "", on and c.options.welder.enabled
    return SwitchRow(
        name,
        stage.name,
        on,
        ran.seconds if ran else 0.0,
        changes(ran.before, ran.after) if ran else 0,
        did(ran) if ran else False,
        needed,
        knob,
        f"{PLACE}{name}",
        ran=ran is not None,
    )


def _is_on(c: Compiled, name: str) -> bool:
    """Return True if a step of the pipeline is not switched off, reached or not."""
    return isinstance(c, Compilation) and name not in c.options.steps.off


def _beside(row: SwitchRow, in_a: set[str]) -> SwitchRow:
    return replace(row, in_a=row.name in in_a)


def _numbers(a: Compiled, c: Compiled) -> list[tuple[str, str, str]]:
    mine, theirs = (sum(s.stage is not Stage.EMITTED for s in x.snapshots) for x in (c, a))
    rows = [("steps", str(theirs), str(mine))]
    seconds = (sum(s.seconds for s in x.snapshots) for x in (a, c))
    base_seconds, own_seconds = (f"{s:.3f} s" for s in seconds)
    rows.append(("took to compile", base_seconds, own_seconds))
    kernels = (str(len(x.program.kernel_calls)) for x in (a, c))
    rows.append(("kernels", *kernels))  # type: ignore[arg-type]
    if all(isinstance(x, Compilation) and x.program.stage >= Stage.PLANNED for x in (a, c)):
        costs = [cost_of(x) for x in (a, c) if isinstance(x, Compilation)]
        rows.append(("per run, predicted", time_text(costs[0].us), time_text(costs[1].us)))
        rows.append(("memory", size_text(costs[0].bytes), size_text(costs[1].bytes)))
    return rows


def table(board: Board) -> Table:
    """Return one row per step, then one per number, of A and of the setting on show."""
    rows = [
        (s.name, s.stage, ON[s.on], ON[s.in_a], round(s.seconds, 4), s.changes, _remark(s))
        for s in board.steps
    ]
    rows += [(name, "", now, a, "", "", "") for name, a, now in board.numbers]  # type: ignore[misc]
    columns = ("step", "stage", "now", "A", "seconds", "changes", "")
    return Table(columns, tuple(rows), ((),) * len(rows), caption(board), see(board))


def see(board: Board) -> tuple[Sentence, ...]:
    """Return the sentences: the steps with an effect, the longest, and the number that is off."""
    counts = [(key, sum(kind(s) == key for s in board.steps)) for key in ("did", "idle", "off")]
    did, idle, off = (n for _, n in counts)
    if not board.steps:
        return ()
    parts = [Mark(f"{did:,} of {counted(len(board.steps), 'step')}", "did" if did else "step")]
    sentences: list[Sentence] = [
        (
            *parts,
            " did something",
            *((", ", Mark(f"{idle:,}", "idle"), " did nothing") * (idle > 0)),
            ".",
        )
    ]
    at = max(range(len(board.steps)), key=lambda n: board.steps[n].seconds)
    total_seconds = sum(s.seconds for s in board.steps)
    if total_seconds > 0:
        most = board.steps[at]
        words = (
            f" took longest, {most.seconds:.3f} s, {most.seconds / total_seconds:.0%} of compiling."
        )
        sentences.append((Mark(most.name, f"at{at}"), words))
    if off:
        sentences.append(
            (Mark(f"{counted(off, 'step')}", "off"), f" {'is' if off == 1 else 'are'} off.")
        )
    return tuple(sentences)


def kind(s: SwitchRow) -> str:
    """Return the category of a step in a sentence."""
    if not s.on:
        return "off"
    return "did" if s.did else "idle" if s.ran else "left"


def _remark(s: SwitchRow) -> str:
    if s.needed:
        return f"cannot be left out: {s.needed}"
    if not s.on or s.did:
        return ""
    return "did nothing" if s.ran else "not run"


def caption(board: Board) -> str:
    """Return the number of steps, of those that did nothing, and of those that are off."""
    on = [s for s in board.steps if s.on]
    off = len(board.steps) - len(on)
    idle = sum(s.ran and not s.did for s in on)
    left = sum(not s.ran for s in on)
    unreached = f", {left} were not run" if left else ""
    return f"{len(on)} steps, {idle} of them did nothing{unreached}; {off} off"


def figure(board: Board) -> Svg:
    """Draw the steps in order; those without effect are pale, those that are off struck out."""
    marks = [label(12, 15, caption(board), "i w")]
    y = 26.0
    for n, s in enumerate(board.steps):
        marks.append(lit_by("".join(_step(s, y)), f"step at{n} {kind(s)}"))
        y += LINE
    for name, a, now in board.numbers:
        marks.append(label(30, y + 14, name, "q"))
        marks.append(label(250, y + 14, f"A {a}"))
        marks.append(label(430, y + 14, now, "i", anchor="end"))
        y += LINE
    return Svg(WIDTH, y + 8, "".join(marks), caption(board))


def _step(s: SwitchRow, y: float) -> Iterator[str]:
    style = "i" if s.on and s.did else "q"
    box = "var(--ink)" if s.on else "none"
    yield rect(12, y + 3, 10, 10, box, 'stroke="var(--ink2)"')
    yield label(30, y + 12, s.name, style)
    if not s.on:
        yield rect(30, y + 8, 6.2 * len(s.name), 1, "var(--ink3)")
    yield label(250, y + 12, s.stage, "q")
    yield label(430, y + 12, f"{s.seconds:.3f} s" if s.ran else "", style, anchor="end")
    remark = _remark(s) or (f"{s.changes} changes" if s.changes else "decided" if s.did else "")
    yield label(446, y + 12, fit(remark, WIDTH - 456), style, title=remark)


def _draw(s: OnShow, op: str) -> Drawn:
    board = data(s.now.compiled, s.pinned.compiled)
    return board, figure(board), table(board)


ALONE = Family(
    "board",
    lambda s, op: {"devices": [], "device": "", "tiles": [], "rank": -1, "note": "", "more": []},
)

PICTURE = Picture(
    name="switchboard",
    title="Switchboard",
    words="Every step of the pipeline beside the baseline's: on or off, its place, what it did.",
    draw=_draw,
    family=ALONE,
    live="switches",
    every="Step",
)
