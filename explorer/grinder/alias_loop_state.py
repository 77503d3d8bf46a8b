"""Aliasing of loop state with its initial value.

The state takes the memory of its initial value if nothing else reads that value, so nothing is
copied.

    c = zeros; for t: c = f(c, t)      ->   c is the memory that was filled with zeros
    for s: for t: c = f(c, s, t)       ->   the inner loop's state is that of the outer one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from explorer.grinder.independent import group_at
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
    accessed_names,
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
                    counters = (part.trip, part.cond, part.going, *part.counts)
                    self.body(part.body, (*ends, *rows, *counters), carried)
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
