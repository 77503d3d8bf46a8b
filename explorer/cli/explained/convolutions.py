"""The algorithm of each convolution, and the candidates of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.explained.candidates import candidates
from explorer.cli.explained.find import is_about, shorten_rows
from explorer.cli.explained.labels import PROGRAM, labels
from explorer.ir.decisions.algorithms import AlgorithmDecision
from explorer.plain_text import duration, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def algorithms(c: Compilation, op: str | None) -> tuple[list[AlgorithmDecision], str]:
    """Return the decisions and a table: a row per convolution, or every candidate of one."""
    origins = {b.name: b.origin for b in c.program.kernel_calls}
    decisions = [
        a
        for a in c.program.decisions.algorithms
        if is_about(op, a.binding, origins.get(a.binding, frozenset()))
    ]
    if not decisions:
        return decisions, ""
    call_labels = labels(c)
    if op is not None:
        names = [call_labels.get(a.binding, a.binding) for a in decisions]
        parts = (
            f"\n  {name}: algorithms weighed\n{candidates(a.candidates)}"
            for name, a in zip(names, decisions, strict=True)
        )
        return decisions, "\n".join(parts)
    rows = [
        (
            call_labels.get(a.binding, a.binding),
            a.binding,
            a.chosen,
            duration(a.candidates[0].cost_us),
        )
        for a in decisions
    ]
    head = ("convolution", PROGRAM, "algorithm", ">predicted")
    return decisions, "\n" + table(head, shorten_rows(rows, op, 4))
