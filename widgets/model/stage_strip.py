"""The stages in their order: how long each took, whether it ran again, what it changed, whether it
was checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.ir.program import Program
from explorer.ir.stage import PROMISES, Stage
from explorer.stepping.effects import did
from widgets.model.compiled import Compiled, Snapshot

OPTIONAL = frozenset({Stage.DIFFERENTIATED})  # shown only where it did something


@dataclass(frozen=True, slots=True)
class StageCell:
    """One stage and its steps (positions in `Compilation.snapshots`); `did` are those of them that
    changed the program or, where none did, decided something.

    `changes` counts the bindings of the program after it that were not there before, `decided` says
    whether decisions were taken; `checked` is None where nothing was checked.
    """

    stage: str
    promise: str
    steps: tuple[int, ...]
    seconds: float
    kept: bool
    changes: int
    checked: None | bool | str
    ran: bool = True
    decided: bool = False
    did: tuple[int, ...] = ()


def data(c: Compiled) -> tuple[StageCell, ...]:
    """One cell a stage; a stage that was not reached has `ran` False."""
    return tuple(
        _cell(c, stage)
        for stage in Stage
        if stage not in OPTIONAL or any(s.stage == stage and did(s) for s in c.snapshots)
    )


def _cell(c: Compiled, stage: Stage) -> StageCell:
    steps = tuple(i for i, s in enumerate(c.snapshots) if s.stage == stage)
    mine = [c.snapshots[i] for i in steps]
    counts = [changes(s.before, s.after) for s in mine]
    changed = [i for i, count in zip(steps, counts) if count]
    decided = [i for i in steps if did(c.snapshots[i])]
    return StageCell(
        stage.name,
        PROMISES[stage],
        steps,
        sum(s.seconds for s in mine),
        bool(mine) and all(s.kept for s in mine),
        sum(counts),
        _checked(mine),
        ran=bool(mine) or stage <= c.program.stage,
        decided=any(map(_decided, mine)),
        did=tuple(changed or decided),
    )


def _checked(steps: Iterable[Snapshot]) -> None | bool | str:
    """The first failure, else whether all were checked."""
    answers = [s.checked for s in steps]
    bad = next((a for a in answers if a is False or isinstance(a, str)), None)
    return bad if bad is not None else (True if answers and all(answers) else None)


def changes(before: Program, after: Program) -> int:
    """How many bindings of `after` are new or different."""
    if before.functions is after.functions:
        return 0
    old = {b.vars: b for _, b in before.bindings()}
    return sum(old.get(b.vars) != b for _, b in after.bindings())


def _decided(step: Snapshot) -> bool:
    return step.before.decisions is not step.after.decisions
