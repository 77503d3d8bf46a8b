"""Aliasing of loop state with its initial value.

The state takes the memory of its initial value if nothing else reads that value, so nothing is
copied.

    c = zeros; for t: c = f(c, t)      ->   c is the memory that was filled with zeros
    for s: for t: c = f(c, s, t)       ->   the inner loop's state is that of the outer one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from explorer.grinder.independent_calls import group_at
from explorer.grinder.model import (
    BranchTask,
    CallTask,
    Carried,
    LibraryTask,
    LoopTask,
    RecursionTask,
    Straight,
    UTask,
    Value,
)
from explorer.grinder.row_views import relocate


def alias_loop_state(
    parts: Sequence[UTask], values: dict[str, Value], outputs: Collection[str]
) -> None:
    """Place the state of loops in the memory of its initial values, where possible.

    After: independent parts still share no memory that either writes. `values` is changed in place;
    `outputs` are the names that are read after all parts.
    """
    _StateAliasing(values).body(parts, outputs, ())


class _StateAliasing:
    """State aliasing over the tree of tasks."""

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values

    def roots(self, names: Collection[str]) -> set[str]:
        return {self.values[n].root for n in names if n}

    def body(self, parts: Sequence[UTask], behind: Collection[str], own: Sequence[Carried]) -> None:
        """Alias the states of the loops of a sequence.

        `behind` is read after the sequence; `own` are the states of the loop whose body it is.
        """
        free: set[str] = set()  # roots computed in this sequence
        for n, part in enumerate(parts):
            match part:
                case Straight(operators):
                    computed = {name for o in operators for name in o.results}
                    free |= {name for name in computed if self.values[name].root == name}
                case LoopTask(carried=carried) if part.level == "device":
                    others = [p for p in (*group_at(parts, n), *parts[n + 1 :]) if p is not part]
                    later = [*behind, *(name for p in others for name in accessed_names(p))]
                    for c in carried:
                        self.take(part, c, later, free, own)
                    free |= {c.param for c in carried if self.values[c.param].root == c.param}
                    rows = [s.value for s in part.stacked]
                    ends = [name for c in carried for name in (c.result, c.staging)]
                    self.body(part.body, (*ends, *rows, *_counters(part)), carried)
                case LoopTask(body=body) | RecursionTask(body=body):
                    self.body(body, tuple(accessed_names(part)), ())
                case BranchTask(then=then, orelse=orelse, results=results):
                    self.body(then, [row[1] for row in results], ())
                    self.body(orelse, [row[2] for row in results], ())
                case LibraryTask() | CallTask():
                    continue

    def take(
        self,
        loop: LoopTask,
        state: Carried,
        later: Collection[str],
        free: Collection[str],
        own: Sequence[Carried],
    ) -> None:
        """Place a state in the memory of its initial value if it is the only reader and writer.

        The initial value must fill its buffer; `later` are the names that are accessed after the
        loop.
        """
        if not state.initial:
            return
        first, param = self.values[state.initial], self.values[state.param]
        memory = self.values[first.root]
        outer = next((c for c in own if self.values[c.param].root == memory.name), None)
        if outer is not None:  # the result becomes the outer loop's state
            if outer.staging or not self.values[outer.result].is_at(param):
                return
        elif memory.name not in free:
            return
        fills_buffer = (
            first.is_at(memory) and not first.moves and first.type == memory.type == param.type
        )
        owns_buffer = param.root == param.name and not (param.moves or param.frame or memory.frame)
        if not (fills_buffer and owns_buffer and memory.home == param.home == "buffer"):
            return
        read = Counter(self.values[name].root for name in accessed_names(loop) if name)
        if read[memory.name] == 1 and memory.name not in self.roots(later):
            relocate(self.values, param.name, memory)


def _counters(loop: LoopTask) -> tuple[str, ...]:
    return (loop.trip, loop.cond, loop.going, *loop.counts)


def accessed_names(part: UTask) -> Iterator[str]:
    """Yield each value that a part reads or writes, once per mention; "" where a field is empty."""
    match part:
        case Straight(operators):
            for o in operators:
                yield from (*o.args, *o.results)
        case LibraryTask(args=args, results=results):
            yield from (*(a or "" for a in args), *results)
        case CallTask(args=args, results=results):
            yield from (*args, *results)
        case LoopTask():
            yield from _counters(part)
            for c in part.carried:
                yield from (c.param, c.initial, c.result, c.staging)
            for s in part.stacked:
                yield from (s.result, s.value, s.row)
            yield from (name for inner in part.body for name in accessed_names(inner))
        case BranchTask():
            yield part.cond
            yield from (name for row in part.results for name in row)
            yield from (
                name for inner in (*part.then, *part.orelse) for name in accessed_names(inner)
            )
        case RecursionTask():
            yield from (*part.args, *part.params, *part.outputs, *part.results)
            yield from (name for inner in part.body for name in accessed_names(inner))
