"""Linear order of all tasks of an rProgram that respects its waits, for one unit alone."""

from __future__ import annotations

from explorer.ir.decisions.rprogram import RProgram, Run


def linearize(program: RProgram) -> tuple[Run, ...]:
    """Return the Runs of all units in an order that respects every Wait, earlier calls first."""
    at, ended = [0] * len(program.units), [0] * len(program.units)
    out: list[Run] = []
    while True:
        ready = []
        for unit, rows in enumerate(program.units):
            while at[unit] < len(rows):
                row = rows[at[unit]]
                if isinstance(row, Run):
                    ready.append((row.call, row.first, unit, row))
                    break
                if ended[row.unit] < row.step:
                    break
                at[unit] += 1
        if not ready:
            return tuple(out)
        _, _, unit, run = min(ready, key=lambda entry: entry[:3])
        out.append(run)
        at[unit] += 1
        ended[unit] += 1
