"""The stages in order: time, reuse, changes and checks of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from explorer.ir.program import Program
from explorer.ir.stage import PROMISES, Stage
from explorer.tuning.sensitivity import did
from widgets.model.compiled import Compiled, Snapshot

OPTIONAL = frozenset({Stage.DIFFERENTIATED})  # shown only where it did something


@dataclass(frozen=True, slots=True)
class StageCell:
    """One stage and its steps (positions in `Compilation.snapshots`).

    `did` are the steps that changed the program or, if none did, decided something. `changes`
    counts the bindings of the program after the stage that were not there before. `decided` is True
    if decisions were taken; `checked` is None if nothing was checked.
    """

    stage: str
    promise: str
    steps: tuple[int, ...]
    seconds: float
    from_cache: bool
    changes: int
    checked: None | bool | str
    ran: bool = True
    decided: bool = False
    did: tuple[int, ...] = ()


def page_part(cell: StageCell) -> dict[str, Any]:
    """Return a cell as the front end reads it; there `from_cache` is named `kept`."""
    part = asdict(cell)
    part["kept"] = part.pop("from_cache")
    return part


def data(c: Compiled) -> tuple[StageCell, ...]:
    """Return one cell per stage; a stage that was not reached has `ran` False."""
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
        bool(mine) and all(s.cached for s in mine),
        sum(counts),
        _checked(mine),
        ran=bool(mine) or stage <= c.program.stage,
        decided=any(map(_decided, mine)),
        did=tuple(changed or decided),
    )


def _checked(steps: Iterable[Snapshot]) -> None | bool | str:
    """Return the first failure, else whether all steps were checked."""
    answers = [s.checked for s in steps]
    bad = next((a for a in answers if a is False or isinstance(a, str)), None)
    return bad if bad is not None else (True if answers and all(answers) else None)


def changes(before: Program, after: Program) -> int:
    """Return the number of bindings of `after` that are new or different."""
    if before.functions is after.functions:
        return 0
    old = {b.vars: b for _, b in before.bindings()}
    return sum(old.get(b.vars) != b for _, b in after.bindings())


def _decided(step: Snapshot) -> bool:
    return step.before.decisions is not step.after.decisions
