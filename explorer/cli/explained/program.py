"""A program as text, or the bindings that come from one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import about, no_such
from explorer.ir.text.program_text import binding_lines, print_program, print_type

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.ir.program import Binding


def program(c: Compilation, op: str | None) -> Answer:
    """The text of a program, or of the bindings that come from one operator."""
    found = _of(c, op)
    rows = [
        {
            "values": {v.name: print_type(v.type) for v in b.vars},
            "expr": type(b.expr).__name__,
            "origins": b.origin,
        }
        for b in found
    ]
    if op is None:
        text = print_program(c.program, digests=False)
    else:
        text = "\n".join(line for b in found for line in binding_lines(b, c.program.constants))
    return Answer({"stage": c.stage, "bindings": rows, "text": text}, text)


def _of(c: Compilation, op: str | None) -> list[Binding]:
    everything = [b for _, b in c.program.bindings()]
    found = [b for b in everything if about(op, "", b.origin, [v.name for v in b.vars])]
    if op is not None and not found:
        raise no_such(c, op, (v.name for b in everything for v in b.vars))
    return found
