"""Memory under every policy: no sharing, the arena, Relax's storages, and worst-case storages.

Worst-case storages have bounds in place of symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from explorer.ir.decisions.memory_plan import BufferPlacement, MemoryPlan
from explorer.passes.pipeline.policy_call import policy_name
from explorer.relax.memory.curve import memory_curve
from widgets.model.compiled import Compiled

PACKED, BY_SIZE, WORST = "packed", "reuse by size", "worst case"  # display names


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy's bytes at these sizes, and as a formula if one holds for all sizes.

    `curve` is the bytes taken by each position of the launch order; `bytes` is None if the policy
    is not possible: `note` says why. `used`: it is the one that runs.
    """

    name: str
    bytes: int | None
    formula: str
    note: str
    curve: tuple[int, ...] = ()
    used: bool = False


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A value in a storage: its lifetime, how it was placed, and the proof."""

    name: str
    first: int
    last: int
    taken: str
    reason: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StorageRow:
    """A storage of Relax's plan, with the values that share it over time.

    `exclusive_reason` tells why there is only one value.
    """

    name: str
    bytes: int
    formula: str
    dtype: str
    static: bool
    exclusive_reason: str
    turns: tuple[TurnRow, ...]


@dataclass(frozen=True, slots=True)
class PolicyRows:
    """Every policy, and the storages.

    `used` are bounds, `lacking` symbols without one. `least` is the lower bound of every plan: the
    most bytes that are live at once.
    """

    policies: tuple[PolicyRow, ...]
    storages: tuple[StorageRow, ...]
    used: tuple[str, ...]
    lacking: tuple[str, ...]
    live: tuple[int, ...]
    least: int


def data(c: Compiled, sizes: Mapping[str, int], plan: MemoryPlan) -> PolicyRows:
    """Return the plans of all policies at these sizes; no new plan is timed or run."""
    options = getattr(c.options, "memory", None)
    if options is None:
        return of_plans(plan, plan if plan.policy == "arena" else None, None, None)

    def planned(policy: str, bounds: bool) -> MemoryPlan:
        return c.with_options(memory=replace(options, policy=policy, bounds=bounds)).memory(sizes)

    arena = plan if plan.policy == "arena" else planned("arena", options.bounds)
    own = "" if isinstance(options.policy, str) else policy_name(options.policy)
    return of_plans(plan, arena, planned("storages", False), planned("storages", True), own)


def of_plans(
    used: MemoryPlan,
    arena: MemoryPlan | None,
    storages: MemoryPlan | None,
    bounded: MemoryPlan | None,
    own: str = "",
) -> PolicyRows:
    """Return the rows of plans of one program.

    `used` is the plan that runs; `own` is the name of the user's own policy, if there is one.
    """
    curve = memory_curve(used)
    names = {"arena": PACKED, "storages": BY_SIZE}
    running = WORST if used.policy == "storages" and used.bounds else names.get(used.policy, "")
    naive = storages.naive_formula if storages else ""
    policies = [
        PolicyRow("no sharing", used.naive_bytes, naive, "no two values share", curve.naive)
    ]
    if arena is not None:
        note = "placed anew for each binding, in launch order"
        policies.append(_policy(PACKED, arena, "", note))
    if storages is not None:
        note = "planned once; buffers are reused where sizes are proved equal"
        policies.append(_policy(BY_SIZE, storages, storages.planned_formula, note))
    if bounded is not None:
        policies.append(_bounded(bounded))
    if own:
        running = own
        policies.append(_policy(own, used, used.planned_formula, "planned once, by your policy"))
    rows = tuple(
        replace(p, note=f"in use: {p.note}", used=True) if p.name == running else p
        for p in policies
    )
    source = used if own else bounded if running == WORST else storages
    return PolicyRows(
        rows,
        _storages(source) if source else (),
        bounded.bounds if bounded else (),
        bounded.unbounded if bounded else (),
        curve.live,
        min(memory_curve(p).peaks[2] for p in (used, arena, storages, bounded) if p),
    )


def _policy(name: str, plan: MemoryPlan, formula: str, note: str) -> PolicyRow:
    return PolicyRow(name, plan.planned_bytes, formula, note, memory_curve(plan).planned)


def _bounded(plan: MemoryPlan) -> PolicyRow:
    """Return storages with bounds in place of symbols, if there are any."""
    lacking = ", ".join(plan.unbounded)
    if plan.unbounded and not plan.bounds:
        return PolicyRow(WORST, None, "", f"no upper bound is known of {lacking}")
    suffix = f"; {lacking} has no bound" if lacking else "; the same in every binding"
    why = f"with {', '.join(plan.bounds)}" if plan.bounds else "nothing to bound"
    return _policy(WORST, plan, plan.planned_formula, why + suffix)


def _storages(plan: MemoryPlan) -> tuple[StorageRow, ...]:
    rows = {b.name: b for b in plan.buffers}
    return tuple(
        StorageRow(
            s.name,
            s.bytes,
            s.formula,
            s.dtype,
            s.static,
            s.exclusive_reason,
            tuple(_turns(s.values, rows)),
        )
        for s in plan.storages
    )


def _turns(values: Iterable[str], rows: Mapping[str, BufferPlacement]) -> list[TurnRow]:
    buffers = [rows[v] for v in values if v in rows]
    return [
        TurnRow(b.name, b.first, b.last, b.taken, b.reason, tuple(sorted(b.origin)))
        for b in buffers
    ]
