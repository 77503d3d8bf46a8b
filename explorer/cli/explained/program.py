"""A program as text, or the bindings that come from one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import no_such

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.ir.program import Binding


def program(c: Compilation, op: str | None) -> Answer:
    """The bindings of a program, or those that come from one operator."""
    rows = [
        {
            "values": [v.name for v in b.vars],
            "types": [str(v.type) for v in b.vars],
            "expr": type(b.expr).__name__,
            "origins": sorted(b.origin),
        }
        for b in _of(c, op)
    ]
    return Answer({"stage": c.stage, "bindings": rows}, _listing(c, op))


def _listing(c: Compilation, op: str | None) -> str:
    from explorer.ir.text import binding_text, program_text

    if op is None:
        return program_text(c.program)
    return "\n".join(binding_text(b) for b in _of(c, op))


def _of(c: Compilation, op: str | None) -> list[Binding]:
    """The bindings of that name or from that operator; all where None."""
    everything = [b for _, b in c.program.bindings()]
    found = [
        b for b in everything if op is None or op in b.origin or op in [v.name for v in b.vars]
    ]
    if not found:
        raise no_such(c, str(op), (v.name for b in everything for v in b.vars))
    return found
