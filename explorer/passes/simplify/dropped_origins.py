"""Reasons why source operators disappear from a program."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.program import Program


def origins(program: Program) -> set[str]:
    """Return the source operators that the bindings come from."""
    return {name for _, b in program.bindings() for name in b.origin}


def record_dropped(before: Program, after: Program, reason: str) -> Program:
    """Record the reason for each source operator of `before` that `after` no longer has."""
    recorded = {name for name, _ in after.dropped}
    lost = sorted(origins(before) - origins(after) - recorded)
    if not lost:
        return after
    return replace(after, dropped=(*after.dropped, *((name, reason) for name in lost)))
