"""Tasks of branches: both arms are inlined, and each result has one place."""

from __future__ import annotations

from explorer.grinder.model import BranchTask
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.values import Scope
from explorer.ir.calls import Branch
from explorer.ir.program import Binding


def branch_task(bodies: Bodies, b: Binding, e: Branch, scope: Scope) -> BranchTask:
    """Return the task of a branch.

    A result that both arms have at the same bytes is a view of these; others are copied by each arm
    or written in place.
    """
    values, name = bodies.values, scope.path + b.vars[0].name
    cond = scope.value(e.cond)
    then, then_values = bodies.inline(e.then, e.args, scope, f"{name}/then/")
    orelse, else_values = bodies.inline(e.orelse, e.args, scope, f"{name}/else/")
    rows: list[tuple[str, str, str]] = []
    for var, then_value, else_value in zip(b.vars, then_values, else_values, strict=True):
        if values.by_name[then_value].is_at(values.by_name[else_value]):
            values.view(var, then_value, 0, scope, b.origin)
            continue
        (result,) = values.fresh((var,), scope, b.origin)
        values.write_in_place(result, then_value, f"{name}/then/")
        values.write_in_place(result, else_value, f"{name}/else/")
        rows.append((result, then_value, else_value))
    level, reason = bodies.level_of((*then, *orelse), name, b)
    return BranchTask(
        name, b.vars[0].name, level, reason, cond, then, orelse, tuple(rows), b.origin
    )
