"""Deadlock check of a persistent kernel before its launch: a GPU that waits forever is lost."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.decisions.wall import RProgram, Run, Wait


def refuse_residency(units: int, resident: int, where: str) -> str:
    """Return why `units` blocks that wait for each other cannot run with `resident` places.

    Return "" if they can.
    """
    if units <= resident:
        return ""
    return (
        f"{units} blocks wait for each other and {where} holds {resident} at once: "
        "waits for the others would never end"
    )


def find_deadlock(programs: Sequence[RProgram]) -> str:
    """Return the first unit that never ends, and why; "" if all end.

    Steps only count upwards, so the order in which units advance changes nothing: a unit that waits
    when no unit can advance waits forever.
    """
    for number, program in enumerate(programs):
        why = _find_stuck_unit(program)
        if why:
            return f"launch {number}: {why}" if len(programs) > 1 else why
    return ""


def _find_stuck_unit(program: RProgram) -> str:
    units = program.units
    runs = [sum(isinstance(row, Run) for row in rows) for rows in units]
    at, ended = [0] * len(units), [0] * len(units)
    moved = True
    while moved:
        moved = False
        for unit, rows in enumerate(units):
            while at[unit] < len(rows):
                row = rows[at[unit]]
                if isinstance(row, Wait) and not _is_satisfied(row, ended):
                    break
                ended[unit] += isinstance(row, Run)
                at[unit] += 1
                moved = True
    for unit, rows in enumerate(units):
        match rows[at[unit] : at[unit] + 1]:
            case [Wait(other, step)]:
                waits = f"unit {unit} waits for step {step} of unit {other}"
                if other >= len(units):
                    return f"{waits}, and there are {len(units)} units"
                if runs[other] < step:
                    return f"{waits}, which has {runs[other]}"
                return f"{waits}, which waits for it in turn"
    return ""


def _is_satisfied(wait: Wait, ended: Sequence[int]) -> bool:
    return wait.unit < len(ended) and ended[wait.unit] >= wait.step
