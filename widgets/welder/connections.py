"""One group and its neighbours before fusion: kernels, values between them, and handover levels.

Values are moved by hand in this picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from explorer.ir.calls import KernelCall
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import Sizes
from widgets.model.house import House
from widgets.welder.pipeline import PipelineRows, Scene, crossing
from widgets.welder.welded_group import WeldedGroup

MOST_BESIDE = 2  # neighbours drawn on either side


@dataclass(frozen=True, slots=True)
class ConnectionRows:
    """The pipeline of a group with its neighbours; `left_out` counts those that are not drawn."""

    stream: PipelineRows
    left_out: int


def data(
    w: WeldedGroup, before: Program, house: House, sizes: Sizes, moved: Mapping[str, str]
) -> ConnectionRows:
    """Return the group with the kernels that it reads from, and those that read it.

    Values `moved` by hand are handed over at their own level.
    """
    calls = {b.name: b for f in before.functions for b in f.body if _is_kernel(b)}
    inside = [m for m in w.group.members if m in calls]
    read = frozenset[str]().union(*(_reads(calls[m]) for m in inside))
    sources = [n for n in calls if n in read and n not in inside]
    readers = [n for n, b in calls.items() if n not in inside and _reads(b) & set(inside)]
    beside = frozenset([*sources[-MOST_BESIDE:], *readers[:MOST_BESIDE]])
    last = Scene(w, before, house, sizes).frame(None)
    where = {v.tensor: (v.level, v.tile) for v in last.inner}
    where |= {n: (level, ()) for n, level in moved.items() if n in where and level in last.levels}
    scene = Scene(w, before, house, sizes, beside)
    rows = scene.rows(where, ((),), crossing(w.plan), w.plan.levels)
    results = {v.name for f in before.functions for v in f.outputs}
    mine = {n for n, o in enumerate(rows.operators) if not o.outside}
    values = (
        replace(v, readers=tuple(r for r in v.readers if v.source in mine or r in mine),
                movable=v.tensor not in results)
        for v in rows.values
    )  # fmt: skip
    stream = replace(
        rows, values=tuple(v for v in values if v.readers), inputs=(), outputs=(),
        cuts=(rows.levels[-1],), cut=rows.levels[-1],
    )  # fmt: skip
    return ConnectionRows(stream, len({*sources, *readers}) - len(beside))


def _is_kernel(b: Binding) -> bool:
    return isinstance(b.expr, KernelCall) and len(b.vars) == 1


def _reads(b: Binding) -> frozenset[str]:
    return frozenset(a.name for a in b.kernel_call.args)
