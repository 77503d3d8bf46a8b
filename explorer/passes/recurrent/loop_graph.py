"""What must stay in one loop, and in which order the rest may come: the parts of a loop's body.

A value of the state needs what made it in the trip before, so what leads from it back to itself is
one part (Allen and Kennedy 1984, Automatic loop interchange). Everything else may run in a loop of
its own, after those that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Needs = Sequence[Collection[int]]


def cycles(needs: Needs) -> list[int]:
    """The part of each node: nodes that need each other have one number, and no part needs a part
    of a higher one (Tarjan 1972).
    """
    index, low, part = [-1] * len(needs), [0] * len(needs), [-1] * len(needs)
    stack: list[int] = []
    seen = parts = 0
    for root in range(len(needs)):
        todo = [(root, iter(needs[root]))] if index[root] < 0 else []
        while todo:
            node, rest = todo[-1]
            if index[node] < 0:
                index[node] = low[node] = seen
                seen += 1
                stack.append(node)
            for other in rest:
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


def stages(needs: Needs, heavy: Collection[int]) -> list[int]:
    """The loop of each node: one later for each part with heavy nodes, in which it needs itself,
    that another such part needs.

    What is in no such part is as late as those that need it, or as early as what it needs.
    """
    part = cycles(needs)
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
    depth = [0] * count  # anchors on the longest path before a part
    for p in range(count):
        depth[p] = max((depth[b] + (b in anchors) for b in before[p]), default=0)
    found = [-1] * count
    for p in range(count):
        if p in anchors:
            found[p] = depth[p]
    for p in reversed(range(count)):
        later = [found[a] for a in after[p] if found[a] >= 0]
        if found[p] < 0 and later:
            found[p] = min(later)
    for p in range(count):
        if found[p] < 0:
            found[p] = max((found[b] for b in before[p]), default=0)
    return [found[p] for p in part]
