"""Strongly connected components of a loop body and the stages that they form.

A state needs the value from the previous trip, so the bindings on a cycle through it form one
component (Allen and Kennedy 1984, Automatic loop interchange). Everything else may run in its own
loop, after those that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Needs = Sequence[Collection[int]]


def strongly_connected_components(needs: Needs) -> list[int]:
    """Return the strongly connected component of each node, in topological order (Tarjan 1972).

    No component needs one of a higher number.
    """
    index, low, part = [-1] * len(needs), [0] * len(needs), [-1] * len(needs)
    stack: list[int] = []
    seen = parts = 0
    for root in range(len(needs)):
        todo = [(root, iter(needs[root]))] if index[root] < 0 else []
        while todo:
            node, successors = todo[-1]
            if index[node] < 0:
                index[node] = low[node] = seen
                seen += 1
                stack.append(node)
            for other in successors:
                if index[other] < 0:
                    todo.append((other, iter(needs[other])))
                    break
                if part[other] < 0:
                    low[node] = min(low[node], low[other])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
                if low[node] == index[node]:
                    while part[node] < 0:
                        part[stack.pop()] = parts
                    parts += 1
    return part


def assign_stages(needs: Needs, heavy: Collection[int]) -> list[int]:
    """Return the loop of each node: the number of heavy recurrent components before it.

    A heavy component contains heavy nodes and depends on itself. Other nodes run as late as their
    readers, or as early as their operands allow.
    """
    part = strongly_connected_components(needs)
    count = max(part, default=-1) + 1
    before: list[set[int]] = [set() for _ in range(count)]
    after: list[set[int]] = [set() for _ in range(count)]
    itself = set()
    for node, others in enumerate(needs):
        for other in others:
            if part[other] == part[node]:
                itself.add(part[node])
            else:
                before[part[node]].add(part[other])
                after[part[other]].add(part[node])
    anchors = {part[n] for n in heavy} & itself
    depth = [0] * count  # heavy components on the longest path before a component
    for p in range(count):
        depth[p] = max((depth[b] + (b in anchors) for b in before[p]), default=0)
    stage_of = [-1] * count
    for p in range(count):
        if p in anchors:
            stage_of[p] = depth[p]
    for p in reversed(range(count)):
        later = [stage_of[a] for a in after[p] if stage_of[a] >= 0]
        if stage_of[p] < 0 and later:
            stage_of[p] = min(later)
    for p in range(count):
        if stage_of[p] < 0:
            stage_of[p] = max((stage_of[b] for b in before[p]), default=0)
    return [stage_of[p] for p in part]
