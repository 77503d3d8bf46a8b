"""Further names of a kernel, shown on hover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from explorer.compilation.operators import Operator, is_call
from explorer.ir.calls import KernelCall
from explorer.ir.program import Binding, Program

MOST = 6  # operators that are listed


def other_names(source_operators: Sequence[Operator], program: Program) -> dict[str, str]:
    """Return by binding the source operators of a call, its name in the program, and its kernel."""
    order = {o.name: i for i, o in enumerate(source_operators)}
    return {
        b.name: "; ".join(_names(b, source_operators, order))
        for _, b in program.bindings()
        if is_call(b)
    }


def _names(
    b: Binding, source_operators: Sequence[Operator], order: Mapping[str, int]
) -> Iterator[str]:
    mine = [source_operators[i] for i in sorted(order[o] for o in b.origin if o in order)]
    if mine:
        more = f" and {len(mine) - MOST} more" if len(mine) > MOST else ""
        yield ", ".join(map(label_with_name, mine[:MOST])) + more
    yield f"{b.name} in the program"
    if isinstance(b.expr, KernelCall):
        yield f"kernel {b.expr.kernel.name}"


def label_with_name(o: Operator) -> str:
    """Return an operator's label, with its name in the file if that differs."""
    return o.label if o.label == o.name else f"{o.label} ({o.name})"
