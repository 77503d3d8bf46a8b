"""Grouping of independent loops and branches, which may run at the same time.

a = if p: f(x); t = k(x); b = if q: g(t)  ->  t = k(x); a = if p: f(x) beside b = if q: g(t)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from explorer.grinder.alias_loop_state import accessed_names
from explorer.grinder.independent_calls import merge_straight_runs
from explorer.grinder.model import (
    BranchTask,
    CallTask,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Straight,
    UTask,
    Value,
)
from explorer.grinder.unroll import operators_of

Values: TypeAlias = Mapping[str, Value]
Control: TypeAlias = LoopTask | BranchTask


@dataclass(frozen=True, slots=True)
class UnitRequest:
    """The requested units of groups with `several` members, and of a member that stands `alone`."""

    several: str = "auto"
    alone: str = "auto"


def group_name(group: Sequence[UTask]) -> str:
    """Return the name of a group in decisions."""
    return " beside ".join(
        p.binding for p in group if isinstance(p, Control) and not is_remainder(p)
    )


def is_remainder(part: UTask) -> bool:
    """Return True if a loop runs the remainder of an unrolled loop, in the same count register."""
    return isinstance(part, LoopTask) and bool(part.remainder_of)


def is_lone(group: Sequence[UTask]) -> bool:
    """Return True if a group is one loop or branch, not counting the remainder of its unrolling."""
    return sum(not is_remainder(part) for part in group) == 1


def group_independent(
    parts: Sequence[UTask], values: Values, request: UnitRequest
) -> tuple[UTask, ...]:
    """Reorder parts so that independent loops and branches are adjacent, nested ones included.

    Each gets the requested units. The body of a recursion is left as it is.
    """
    parts = [_group_inside(part, values, request) for part in parts]
    out: list[UTask] = []
    at = 0
    while at < len(parts):
        part, at = parts[at], at + 1
        member = _as_member(part, parts[at:])
        if not member:
            out.append(part)
            continue
        group, count = _gather_group(member, parts[at + len(member) - 1 :], values)
        units = request.several if count else request.alone
        at += len(member) - 1 + count
        out += [Straight(tuple(group.before))] if group.before else []
        out += [replace(p, beside=n > 0, units=units) for n, p in enumerate(group.members)]
        out += [Straight(tuple(group.behind))] if group.behind else []
    return tuple(merge_straight_runs(out))


def _group_inside(part: UTask, values: Values, request: UnitRequest) -> UTask:
    match part:
        case LoopTask(body=body):
            return replace(part, body=group_independent(body, values, request))
        case BranchTask(then=then, orelse=orelse):
            arms = [group_independent(arm, values, request) for arm in (then, orelse)]
            return replace(part, then=arms[0], orelse=arms[1])
        case _:
            return part


@dataclass(slots=True)
class _Accesses:
    """The roots that a part reads or writes, and those that it writes."""

    all: set[str]
    written: set[str]

    def conflicts(self, other: _Accesses) -> bool:
        """Return True if two parts depend on each other."""
        return bool(self.written & other.all or other.written & self.all)

    def __or__(self, other: _Accesses) -> _Accesses:
        """Return the union of two access sets."""
        return _Accesses(self.all | other.all, self.written | other.written)


@dataclass(slots=True)
class _Group:
    """Independent members, the operators around them, and their accesses.

    `before` are operators that members may need, `behind` those that need a member. `mine` are the
    accesses of members, `later` those of `behind`.
    """

    members: list[Control]
    before: list[OperatorTask]
    behind: list[OperatorTask]
    mine: _Accesses
    later: _Accesses

    def copy(self) -> _Group:
        lists = [*self.members], [*self.before], [*self.behind]
        return _Group(*lists, self.mine, self.later)


def _gather_group(
    first: Sequence[Control], behind: Sequence[UTask], values: Values
) -> tuple[_Group, int]:
    """Return the group that a member begins, and how many of the following parts belong to it."""
    mine = _accesses_of(first, values)
    complete = group = _Group([*first], [], [], mine, _Accesses(set(), set()))
    taken = 0
    for n, other in enumerate(behind):
        if is_remainder(other) and n < taken:
            continue
        group = group.copy()
        if isinstance(other, Straight):
            for operator in other.operators:
                _add(group, operator, values)
        elif member := _as_member(other, behind[n + 1 :]):
            touched = _accesses_of(member, values)
            if touched.conflicts(group.mine | group.later):
                break
            group.members += member
            group.mine |= touched
            complete, taken = group, n + len(member)
        else:
            break
    return complete, taken


def _add(group: _Group, operator: OperatorTask, values: Values) -> None:
    """Place an operator before the members unless it depends on them."""
    touched = _accesses_of((Straight((operator,)),), values)
    if touched.conflicts(group.mine | group.later):
        group.behind.append(operator)
        group.later |= touched
    else:
        group.before.append(operator)


def _as_member(part: UTask, behind: Sequence[UTask]) -> Sequence[Control]:
    """Return a device loop or branch with the remainder of its unrolling; empty for other parts."""
    if not isinstance(part, Control) or part.level != "device" or is_remainder(part):
        return ()
    remainder = behind[0] if behind and is_remainder(behind[0]) else None
    return (part, remainder) if isinstance(remainder, Control) else (part,)


def _accesses_of(parts: Sequence[UTask], values: Values) -> _Accesses:
    named = {name for part in parts for name in (*accessed_names(part), *_awaited(part)) if name}
    written = {name for part in parts for name in _written(part) if name}
    return _Accesses(_roots(named, values), _roots(written, values))


def _roots(names: Collection[str], values: Values) -> set[str]:
    return {values[name].root for name in names}


def _awaited(part: UTask) -> Iterator[str]:
    """Return the values that operators wait for without reading them."""
    return (operator.after for operator in operators_of((part,)))


def _written(part: UTask) -> Iterator[str]:
    """Yield the values that a part writes."""
    match part:
        case Straight(operators):
            yield from (name for o in operators for name in o.results)
        case LoopTask(body=body):
            yield from (part.going, *part.counts)
            yield from (name for c in part.carried for name in (c.param, c.staging))
            yield from (name for s in part.stacked for name in (s.result, s.row))
            yield from (name for inner in body for name in _written(inner))
        case BranchTask(results=results, then=then, orelse=orelse):
            yield from (row[0] for row in results)
            yield from (name for inner in (*then, *orelse) for name in _written(inner))
        case RecursionTask(params=params, results=results, body=body):
            yield from (*params, *results)
            yield from (name for inner in body for name in _written(inner))
        case LibraryTask(results=results) | CallTask(results=results):
            yield from results
