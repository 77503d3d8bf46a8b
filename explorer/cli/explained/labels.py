"""Labels of calls and values, as the text and the pictures show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from explorer.compilation.operators import Operator, call_labels, operators, value_labels
from explorer.ir.stage import Stage

if TYPE_CHECKING:
    from explorer.compilation import Compilation

PROGRAM = "in the program"  # heading of the column of binding names


def labels(c: Compilation) -> Mapping[str, str]:
    """Return the label of each call by its binding."""
    return call_labels(source_operators(c), c.program)


def labels_before_fusion(c: Compilation) -> Mapping[str, str]:
    """Return the label of each value of the program before kernels were fused."""
    steps = [s.before for s in c.snapshots if s.stage == Stage.WELDED]
    return value_labels(source_operators(c), steps[0] if steps else c.program)


def source_operators(c: Compilation) -> tuple[Operator, ...]:
    """Return the operators of the source."""
    return operators(c.model.program, c.program)


def resolve_name(c: Compilation, op: str | None) -> str | None:
    """Return the operator, else the kernel, with that name or label; else the name itself."""
    mine = {o.name for o in source_operators(c)} | {
        v.name for _, b in c.program.bindings() for v in b.vars
    }
    if op is None or op in mine:
        return op
    by_label = {label: call for call, label in labels(c).items()}
    by_label |= {o.label: o.name for o in source_operators(c)}
    return by_label.get(op, op)
