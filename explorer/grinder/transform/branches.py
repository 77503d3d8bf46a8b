"""The task of a branch: both sides inlined, and results that lie in one place after either."""

from __future__ import annotations

from explorer.grinder.model import BranchTask
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.values import Scope
from explorer.ir.calls import Branch
from explorer.ir.program import Binding


def branch_task(bodies: Bodies, b: Binding, e: Branch, scope: Scope) -> BranchTask:
    """A result that both sides have at the same bytes is these, others are copied by each side or
    written there at once.
    """
    values, name = bodies.values, scope.path + b.vars[0].name
    cond = scope.value(e.cond)
    then, made = bodies.inline(e.then, e.args, scope, f"{name}/then/")
    orelse, other = bodies.inline(e.orelse, e.args, scope, f"{name}/else/")
    rows: list[tuple[str, str, str]] = []
    for var, one, two in zip(b.vars, made, other, strict=True):
        if values.by_name[one].is_at(values.by_name[two]):
            values.view(var, one, 0, scope, b.origin)
            continue
        (result,) = values.fresh((var,), scope, b.origin)
        values.write_in_place(result, one, f"{name}/then/")
        values.write_in_place(result, two, f"{name}/else/")
        rows.append((result, one, two))
    level, reason = bodies.level_of((*then, *orelse), name, b)
    return BranchTask(
        name, b.vars[0].name, level, reason, cond, then, orelse, tuple(rows), b.origin
    )
