"""The algorithm of each convolution, and those that were weighed for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.cli.explained.called import PROGRAM, labels
from explorer.cli.explained.candidates import candidates
from explorer.cli.explained.find import about, shortened
from explorer.ir.decisions.algorithms import AlgorithmDecision
from explorer.plain_text import duration, table

if TYPE_CHECKING:
    from explorer.compilation import Compilation


def algorithms(c: Compilation, op: str | None) -> tuple[list[AlgorithmDecision], str]:
    """What was decided, and the text: a row a convolution; for one operator, every candidate."""
    origins = {b.name: b.origin for b in c.program.kernel_calls}
    found = [
        a
        for a in c.program.decisions.algorithms
        if about(op, a.binding, origins.get(a.binding, frozenset()))
    ]
    if not found:
        return found, ""
    called = labels(c)
    if op is not None:
        names = [called.get(a.binding, a.binding) for a in found]
        parts = (
            f"\n  {name}: algorithms weighed\n{candidates(a.candidates)}"
            for name, a in zip(names, found, strict=True)
        )
        return found, "\n".join(parts)
    rows = [
        (
            called.get(a.binding, a.binding),
            a.binding,
            a.chosen,
            duration(a.candidates[0].cost_us),
        )
        for a in found
    ]
    head = ("convolution", PROGRAM, "algorithm", ">predicted")
    return found, "\n" + table(head, shortened(rows, op, 4))
