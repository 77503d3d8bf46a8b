"""What calls are called where a reader meets them, as in the house's pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.compilation.operators import Operator, call_labels, operators, value_labels
from explorer.ir.stage import Stage

if TYPE_CHECKING:
    from explorer.compilation import Compilation

PROGRAM = "in the program"  # over the column of names that its text has


def labels(c: Compilation) -> Mapping[str, str]:
    """The name of each call that a reader meets, by its binding."""
    return call_labels(known(c), c.program)


def before_welding(c: Compilation) -> Mapping[str, str]:
    """The name of each value that a reader meets, of those that there were before kernels were
    welded.
    """
    steps = [s.before for s in c.snapshots if s.stage == Stage.WELDED]
    return value_labels(known(c), steps[0] if steps else c.program)


def known(c: Compilation) -> tuple[Operator, ...]:
    """The operators of the source."""
    return operators(c.model.program, c.program)


def meant(c: Compilation, op: str | None) -> str | None:
    """The operator, else the kernel, that a reader calls so; what was given where there is none."""
    mine = {o.name for o in known(c)} | {v.name for _, b in c.program.bindings() for v in b.vars}
    if op is None or op in mine:
        return op
    by_label = {label: call for call, label in labels(c).items()}
    by_label |= {o.label: o.name for o in known(c)}
    return by_label.get(op, op)
