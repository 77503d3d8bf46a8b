"""No source operator disappears without a reason."""

from __future__ import annotations

from dataclasses import replace

from explorer.ir.program import Program


def origins(program: Program) -> set[str]:
    """The source operators that some binding comes from."""
    return {name for _, b in program.bindings() for name in b.origin}


def account(before: Program, after: Program, reason: str) -> Program:
    """`after`, with the reason written down for each source operator that `before` still had."""
    known = {name for name, _ in after.dropped}
    lost = sorted(origins(before) - origins(after) - known)
    if not lost:
        return after
    return replace(after, dropped=(*after.dropped, *((name, reason) for name in lost)))
