"""Whether the blocks of a persistent kernel can all come to their ends: told before it is launched,
for on a GPU what waits for ever holds the device.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.decisions.rprogram import RProgram, Run, Wait


def too_many(units: int, resident: int, where: str) -> str:
    """Why so many blocks that wait for each other must not be launched where so many are resident
    together; empty where they may.
    """
    if units <= resident:
        return ""
    return (
        f"{units} blocks wait for each other and {where} holds {resident} at once: "
        "those that are not there would be waited for in vain"
    )


def deadlock(programs: Sequence[RProgram]) -> str:
    """The first unit that never comes to its end, and why; empty where all do.

    Steps are counted upwards alone, so that the order in which units go on changes nothing: what
    waits when nobody can go on waits for ever.
    """
    for number, program in enumerate(programs):
        why = _stuck(program)
        if why:
            return f"launch {number}: {why}" if len(programs) > 1 else why
    return ""


def _stuck(program: RProgram) -> str:
    units = program.units
    runs = [sum(isinstance(row, Run) for row in rows) for rows in units]
    at, ended = [0] * len(units), [0] * len(units)
    moved = True
    while moved:
        moved = False
        for unit, rows in enumerate(units):
            while at[unit] < len(rows):
                row = rows[at[unit]]
                if isinstance(row, Wait) and not _has_come(row, ended):
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


def _has_come(wait: Wait, ended: Sequence[int]) -> bool:
    return wait.unit < len(ended) and ended[wait.unit] >= wait.step
