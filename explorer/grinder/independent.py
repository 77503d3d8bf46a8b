"""Loops and branches that need nothing of each other, which may run at the same time.

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
class Asked:
    """On which units groups run: of `several` members, and those of one that stands `alone`."""

    several: str = "auto"
    alone: str = "auto"


def group_name(group: Sequence[UTask]) -> str:
    """What decisions call it."""
    return " beside ".join(p.binding for p in group if isinstance(p, Control) and not is_rest(p))


def is_rest(part: UTask) -> bool:
    """Whether it is what is left of a loop's turns, which counts on in the same register."""
    return isinstance(part, LoopTask) and bool(part.rest)


def is_lone(group: Sequence[UTask]) -> bool:
    """Whether nothing stands beside a loop or branch, but what is left of its own turns."""
    return sum(not is_rest(part) for part in group) == 1


def independent(parts: Sequence[UTask], values: Values, asked: Asked) -> tuple[UTask, ...]:
    """The parts in an order in which such loops and branches stand next to each other, those inside
    of others too, each with what was asked for. What a recursion does stays as it is.
    """
    parts = [_inside(part, values, asked) for part in parts]
    out: list[UTask] = []
    at = 0
    while at < len(parts):
        part, at = parts[at], at + 1
        member = _member(part, parts[at:])
        if not member:
            out.append(part)
            continue
        group, count = _gathered(member, parts[at + len(member) - 1 :], values)
        units = asked.several if count else asked.alone
        at += len(member) - 1 + count
        out += [Straight(tuple(group.before))] if group.before else []
        out += [replace(p, beside=n > 0, units=units) for n, p in enumerate(group.members)]
        out += [Straight(tuple(group.behind))] if group.behind else []
    return tuple(merge_straight_runs(out))


def _inside(part: UTask, values: Values, asked: Asked) -> UTask:
    match part:
        case LoopTask(body=body):
            return replace(part, body=independent(body, values, asked))
        case BranchTask(then=then, orelse=orelse):
            arms = [independent(arm, values, asked) for arm in (then, orelse)]
            return replace(part, then=arms[0], orelse=arms[1])
        case _:
            return part


@dataclass(slots=True)
class _Touched:
    """The roots that something reads or writes, and those that it writes."""

    all: set[str]
    written: set[str]

    def meets(self, other: _Touched) -> bool:
        """Whether one of two needs the other to be over."""
        return bool(self.written & other.all or other.written & self.all)

    def __or__(self, other: _Touched) -> _Touched:
        return _Touched(self.all | other.all, self.written | other.written)


@dataclass(slots=True)
class _Group:
    """Members that need nothing of each other; `before` are operators that later ones may need,
    `behind` those that need an earlier one. What members and those behind touch.
    """

    members: list[Control]
    before: list[OperatorTask]
    behind: list[OperatorTask]
    mine: _Touched
    later: _Touched

    def copy(self) -> _Group:
        lists = [*self.members], [*self.before], [*self.behind]
        return _Group(*lists, self.mine, self.later)


def _gathered(
    first: Sequence[Control], behind: Sequence[UTask], values: Values
) -> tuple[_Group, int]:
    """The group that a member begins, and how many of the parts behind it are in that."""
    mine = _touched(first, values)
    whole = group = _Group([*first], [], [], mine, _Touched(set(), set()))
    taken = 0
    for n, other in enumerate(behind):
        if is_rest(other) and n < taken:
            continue
        group = group.copy()
        if isinstance(other, Straight):
            for operator in other.operators:
                _add(group, operator, values)
        elif member := _member(other, behind[n + 1 :]):
            touched = _touched(member, values)
            if touched.meets(group.mine | group.later):
                break
            group.members += member
            group.mine |= touched
            whole, taken = group, n + len(member)
        else:
            break
    return whole, taken


def _add(group: _Group, operator: OperatorTask, values: Values) -> None:
    """Before the members, where it needs none of them."""
    touched = _touched((Straight((operator,)),), values)
    if touched.meets(group.mine | group.later):
        group.behind.append(operator)
        group.later |= touched
    else:
        group.before.append(operator)


def _member(part: UTask, behind: Sequence[UTask]) -> Sequence[Control]:
    """A loop or branch in the program, with what is left of its turns; nothing where it is none."""
    if not isinstance(part, Control) or part.level != "device" or is_rest(part):
        return ()
    rest = behind[0] if behind and is_rest(behind[0]) else None
    return (part, rest) if isinstance(rest, Control) else (part,)


def _touched(parts: Sequence[UTask], values: Values) -> _Touched:
    named = {name for part in parts for name in (*accessed_names(part), *_awaited(part)) if name}
    written = {name for part in parts for name in _written(part) if name}
    return _Touched(_roots(named, values), _roots(written, values))


def _roots(names: Collection[str], values: Values) -> set[str]:
    return {values[name].root for name in names}


def _awaited(part: UTask) -> Iterator[str]:
    """What operators wait for without reading it."""
    return (operator.after for operator in operators_of((part,)))


def _written(part: UTask) -> Iterator[str]:
    """The values that a part writes."""
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
