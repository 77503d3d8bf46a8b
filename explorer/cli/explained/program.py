"""The text of a program, or the bindings of one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.answer import Answer
from explorer.cli.explained.find import is_about, unknown_name
from explorer.ir.text.program_text import binding_lines, print_program, print_type

if TYPE_CHECKING:
    from explorer.compilation import Compilation
    from explorer.ir.program import Binding


def program(c: Compilation, op: str | None) -> Answer:
    """Return the text of a program, or of the bindings that come from one operator."""
    bindings = _select_bindings(c, op)
    rows = [
        {
            "values": {v.name: print_type(v.type) for v in b.vars},
            "expr": type(b.expr).__name__,
            "origins": b.origin,
        }
        for b in bindings
    ]
    if op is None:
        text = print_program(c.program, digests=False)
    else:
        text = "\n".join(line for b in bindings for line in binding_lines(b, c.program.constants))
    return Answer({"stage": c.stage, "bindings": rows, "text": text}, text)


def _select_bindings(c: Compilation, op: str | None) -> list[Binding]:
    everything = [b for _, b in c.program.bindings()]
    matches = [b for b in everything if is_about(op, "", b.origin, [v.name for v in b.vars])]
    if op is not None and not matches:
        raise unknown_name(c, op, (v.name for b in everything for v in b.vars))
    return matches
