"""Grouping of independent calls of a recursion, which may run at the same time.

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
        group, count = _gather_group(part, parts[at:], values)
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


def _gather_group(call: CallTask, following: Sequence[UTask], values: Values) -> tuple[_Group, int]:
    """Return the group that a call begins, and how many of the following parts belong to it."""
    complete = group = _Group([call], result_roots=_roots(call.results, values))
    taken = 0
    for n, part in enumerate(following):
        group = _Group([*group.calls], [*group.before], [*group.behind], {*group.result_roots})
        match part:
            case Straight(operators):
                if not all(_is_fresh(o, values) for o in operators):
                    break
                for operator in operators:
                    _add(group, operator, values)
            case CallTask(args=args, results=results):
                if _roots(args, values) & group.result_roots:
                    break
                group.calls.append(part)
                group.result_roots |= _roots(results, values)
                complete, taken = group, n + 1
            case _:
                break
    return complete, taken


def _add(group: _Group, operator: OperatorTask, values: Values) -> None:
    """Place an operator before the calls unless it reads their results."""
    if _roots(operator.args, values) & group.result_roots:
        group.behind.append(operator)
        group.result_roots |= _roots(operator.results, values)
    else:
        group.before.append(operator)


def _is_fresh(operator: OperatorTask, values: Values) -> bool:
    """Return True if an operator writes only buffers that nothing else has written."""
    return all(values[result].root == result for result in operator.results)


def _roots(names: Sequence[str], values: Values) -> set[str]:
    return {values[name].root for name in names}


def merge_straight_runs(parts: Sequence[UTask]) -> Iterator[UTask]:
    """Merge straight runs that are adjacent."""
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
