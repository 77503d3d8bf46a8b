"""Calls of a recursion that may run at the same time.

a = f(l); r = row(i); b = f(r); y = g(a, b)  ->  r = row(i); a = f(l) beside b = f(r); y = g(a, b)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.grinder.model import (
    BranchTask,
    CallTask,
    LoopTask,
    OperatorTask,
    Straight,
    UTask,
    Value,
)

Values = Mapping[str, Value]


@dataclass(slots=True)
class _Group:
    """Calls none of which reads what another gives; `before` are operators that later ones need,
    `behind` those that read what an earlier one gives, whose roots are `given`.
    """

    calls: list[CallTask]
    before: list[OperatorTask] = field(default_factory=list)
    behind: list[OperatorTask] = field(default_factory=list)
    given: set[str] = field(default_factory=set)


def group_independent_calls(parts: Sequence[UTask], values: Values) -> tuple[UTask, ...]:
    """The parts in an order in which such calls stand next to each other, each but the first
    `beside` the one before.
    """
    out: list[UTask] = []
    at = 0
    while at < len(parts):
        part, at = parts[at], at + 1
        if not isinstance(part, CallTask):
            out.append(part)
            continue
        group, count = _gathered(part, parts[at:], values)
        at += count
        out += [Straight(tuple(group.before))] if group.before else []
        out += [replace(call, beside=n > 0) for n, call in enumerate(group.calls)]
        out += [Straight(tuple(group.behind))] if group.behind else []
    return tuple(merge_straight_runs(out))


def concurrent_groups(parts: Sequence[UTask]) -> Iterator[tuple[UTask, ...]]:
    """Each part that does not stand beside another, with those that do."""
    begins = [n for n, part in enumerate(parts) if not _is_beside(part)]
    for begin, end in zip(begins, (*begins[1:], len(parts))):
        yield tuple(parts[begin:end])


def group_at(parts: Sequence[UTask], at: int) -> Sequence[UTask]:
    """The group of the part at a place, that part included."""
    first = next((n for n in range(at, -1, -1) if not _is_beside(parts[n])), 0)
    return next(iter(concurrent_groups(parts[first:])))


def first_member_name(group: Sequence[UTask]) -> str:
    """By which name a group of loops and branches in the program is known, that of its first; ""
    of others. One beside which nothing stands is a group too.
    """
    first = group[0]
    if isinstance(first, LoopTask | BranchTask) and first.level == "device":
        return first.name
    return ""


def max_concurrency(parts: Sequence[UTask]) -> int:
    """How many calls stand side by side at most, in any arm or body; 0 without calls."""
    found = 0
    for group in concurrent_groups(parts):
        for part in group:
            match part:
                case CallTask():
                    found = max(found, len(group))
                case BranchTask(then=then, orelse=orelse):
                    found = max(found, max_concurrency(then), max_concurrency(orelse))
                case LoopTask(body=body):
                    found = max(found, max_concurrency(body))
                case _:
                    continue
    return found


def _is_beside(part: UTask) -> bool:
    return isinstance(part, CallTask | LoopTask | BranchTask) and part.beside


def _gathered(call: CallTask, rest: Sequence[UTask], values: Values) -> tuple[_Group, int]:
    """The group that a call begins, and how many of the parts behind it are in that."""
    whole = group = _Group([call], given=_roots(call.results, values))
    taken = 0
    for n, part in enumerate(rest):
        group = _Group([*group.calls], [*group.before], [*group.behind], {*group.given})
        match part:
            case Straight(operators):
                if not all(_is_fresh(o, values) for o in operators):
                    break
                for operator in operators:
                    _add(group, operator, values)
            case CallTask(args=args, results=results):
                if _roots(args, values) & group.given:
                    break
                group.calls.append(part)
                group.given |= _roots(results, values)
                whole, taken = group, n + 1
            case _:
                break
    return whole, taken


def _add(group: _Group, operator: OperatorTask, values: Values) -> None:
    """Before the calls, where it reads nothing of theirs."""
    if _roots(operator.args, values) & group.given:
        group.behind.append(operator)
        group.given |= _roots(operator.results, values)
    else:
        group.before.append(operator)


def _is_fresh(operator: OperatorTask, values: Values) -> bool:
    """Whether it writes buffers that nothing else has written."""
    return all(values[result].root == result for result in operator.results)


def _roots(names: Sequence[str], values: Values) -> set[str]:
    return {values[name].root for name in names}


def merge_straight_runs(parts: Sequence[UTask]) -> Iterator[UTask]:
    """One straight run in place of several that stand next to each other."""
    run: list[OperatorTask] = []
    for part in parts:
        if isinstance(part, Straight):
            run += part.operators
            continue
        if run:
            yield Straight(tuple(run))
        run = []
        yield part
    if run:
        yield Straight(tuple(run))
