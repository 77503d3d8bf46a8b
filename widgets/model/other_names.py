"""The names that a kernel has beside the one on show: what is told on hover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.compilation.operators import Operator, is_call
from explorer.ir.calls import KernelCall
from explorer.ir.program import Binding, Program

MOST = 6  # operators that are listed


def other_names(known: Sequence[Operator], program: Program) -> dict[str, str]:
    """By binding: the operators of the source that a call computes, what the program calls it, and
    its kernel.
    """
    order = {o.name: i for i, o in enumerate(known)}
    return {b.name: "; ".join(_names(b, known, order)) for _, b in program.bindings() if is_call(b)}


def _names(b: Binding, known: Sequence[Operator], order: Mapping[str, int]) -> Iterator[str]:
    mine = [known[i] for i in sorted(order[o] for o in b.origin if o in order)]
    if mine:
        more = f" and {len(mine) - MOST} more" if len(mine) > MOST else ""
        yield ", ".join(map(in_the_file, mine[:MOST])) + more
    yield f"{b.name} in the program"
    if isinstance(b.expr, KernelCall):
        yield f"kernel {b.expr.kernel.name}"


def in_the_file(o: Operator) -> str:
    """An operator by the name that a reader meets, and the one that the file has."""
    return o.label if o.label == o.name else f"{o.label} ({o.name})"
