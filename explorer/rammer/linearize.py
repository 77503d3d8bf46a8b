"""All bricks of an rProgram in one order that its waits allow: what a unit does alone."""

from __future__ import annotations

from explorer.ir.decisions.rprogram import RProgram, Run


def linearize(program: RProgram) -> tuple[Run, ...]:
    """Its Runs, so that none stands before one that its unit waits for: first those of the call
    that comes first.
    """
    at, ended = [0] * len(program.units), [0] * len(program.units)
    out: list[Run] = []
    while True:
        able = []
        for unit, rows in enumerate(program.units):
            while at[unit] < len(rows):
                row = rows[at[unit]]
                if isinstance(row, Run):
                    able.append((row.call, row.first, unit, row))
                    break
                if ended[row.unit] < row.step:
                    break
                at[unit] += 1
        if not able:
            return tuple(out)
        _, _, unit, run = min(able, key=lambda found: found[:3])
        out.append(run)
        at[unit] += 1
        ended[unit] += 1
