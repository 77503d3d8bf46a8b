"""Grouping of independent loops, branches and calls, which may run at the same time.

a = if p: f(x); t = k(x); b = if q: g(t)  ->  t = k(x); a = if p: f(x) beside b = if q: g(t)
a = f(l); r = row(i); b = f(r); y = g(a, b)  ->  r = row(i); a = f(l) beside b = f(r); y = g(a, b)

Operators between two members of a group go before the first one or behind the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from explorer.grinder.model import (
    BranchTask,
    CallTask,
    LoopTask,
    OperatorTask,
    Straight,
    UTask,
    Value,
    accessed_names,
    merge_straight_runs,
    operators_of,
    written_names,
)

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
                _place_around(group, operator, values)
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


def _place_around(group: _Group, operator: OperatorTask, values: Values) -> None:
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
    written = {name for part in parts for name in written_names(part) if name}
    return _Accesses(_roots(named, values), _roots(written, values))


def _roots(names: Collection[str], values: Values) -> set[str]:
    return {values[name].root for name in names}


def _awaited(part: UTask) -> Iterator[str]:
    """Return the values that operators wait for without reading them."""
    return (operator.after for operator in operators_of((part,)))


@dataclass(slots=True)
class _CallGroup:
    """Calls that do not read each other's results, and the operators around them.

    `before` are operators that later calls need; `behind` read the result of an earlier call. The
    roots of those results are `result_roots`.
    """

    calls: list[CallTask]
    before: list[OperatorTask] = field(default_factory=list)
    behind: list[OperatorTask] = field(default_factory=list)
    result_roots: set[str] = field(default_factory=set)


def group_independent_calls(parts: Sequence[UTask], values: Values) -> tuple[UTask, ...]:
    """Reorder parts so that independent calls are adjacent.

    Each call but the first of a group is `beside` the previous one.
    """
    out: list[UTask] = []
    at = 0
    while at < len(parts):
        part, at = parts[at], at + 1
        if not isinstance(part, CallTask):
            out.append(part)
            continue
        group, count = _gather_calls(part, parts[at:], values)
        at += count
        out += [Straight(tuple(group.before))] if group.before else []
        out += [replace(call, beside=n > 0) for n, call in enumerate(group.calls)]
        out += [Straight(tuple(group.behind))] if group.behind else []
    return tuple(merge_straight_runs(out))


def concurrent_groups(parts: Sequence[UTask]) -> Iterator[tuple[UTask, ...]]:
    """Yield each part that is not `beside` another, together with those that are beside it."""
    begins = [n for n, part in enumerate(parts) if not _is_beside(part)]
    for begin, end in zip(begins, (*begins[1:], len(parts))):
        yield tuple(parts[begin:end])


def group_at(parts: Sequence[UTask], at: int) -> Sequence[UTask]:
    """Return the group of the part at an index, that part included."""
    first = next((n for n in range(at, -1, -1) if not _is_beside(parts[n])), 0)
    return next(iter(concurrent_groups(parts[first:])))


def first_member_name(group: Sequence[UTask]) -> str:
    """Return the name of a group of device loops and branches: that of its first member.

    Return "" for other parts. A single loop or branch is a group too.
    """
    first = group[0]
    if isinstance(first, LoopTask | BranchTask) and first.level == "device":
        return first.name
    return ""


def max_concurrency(parts: Sequence[UTask]) -> int:
    """Return the largest number of concurrent calls in any arm or body; 0 without calls."""
    concurrency = 0
    for group in concurrent_groups(parts):
        for part in group:
            match part:
                case CallTask():
                    concurrency = max(concurrency, len(group))
                case BranchTask(then=then, orelse=orelse):
                    concurrency = max(concurrency, max_concurrency(then), max_concurrency(orelse))
                case LoopTask(body=body):
                    concurrency = max(concurrency, max_concurrency(body))
                case _:
                    continue
    return concurrency


def _is_beside(part: UTask) -> bool:
    return isinstance(part, CallTask | LoopTask | BranchTask) and part.beside


def _gather_calls(
    call: CallTask, following: Sequence[UTask], values: Values
) -> tuple[_CallGroup, int]:
    """Return the group that a call begins, and how many of the following parts belong to it."""
    complete = group = _CallGroup([call], result_roots=_roots(call.results, values))
    taken = 0
    for n, part in enumerate(following):
        group = _CallGroup([*group.calls], [*group.before], [*group.behind], {*group.result_roots})
        match part:
            case Straight(operators):
                if not all(_is_fresh(o, values) for o in operators):
                    break
                for operator in operators:
                    _place_operator(group, operator, values)
            case CallTask(args=args, results=results):
                if _roots(args, values) & group.result_roots:
                    break
                group.calls.append(part)
                group.result_roots |= _roots(results, values)
                complete, taken = group, n + 1
            case _:
                break
    return complete, taken


def _place_operator(group: _CallGroup, operator: OperatorTask, values: Values) -> None:
    """Place an operator before the calls unless it reads their results."""
    if _roots(operator.args, values) & group.result_roots:
        group.behind.append(operator)
        group.result_roots |= _roots(operator.results, values)
    else:
        group.before.append(operator)


def _is_fresh(operator: OperatorTask, values: Values) -> bool:
    """Return True if an operator writes only buffers that nothing else has written."""
    return all(values[result].root == result for result in operator.results)
