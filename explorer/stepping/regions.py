"""Separate parts in which two programs differ, for steps whose rules report no match."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from explorer.differences.changes import difference
from explorer.ir.program import Binding, Program


def regions(before: Program, after: Program) -> Iterator[tuple[tuple[Binding, ...], ...]]:
    """Yield the bindings of each part before and after, in the order of the first program.

    Bindings with common source operators, and pairs of bindings, belong to one part.
    """
    changes = [c for c in difference(before, after).changes if c.what not in ("loop", "output")]
    parent = list(range(len(changes)))

    def root(n: int) -> int:
        """Return the representative of a change (union-find)."""
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    first: dict[str, int] = {}
    for n, change in enumerate(changes):
        for op in change.ops:
            parent[root(n)] = root(first.setdefault(op, n))
    parts: dict[int, list[int]] = defaultdict(list)
    for n in range(len(changes)):
        parts[root(n)].append(n)
    for members in parts.values():
        old = sorted({p.number: p for n in members if (p := changes[n].before)}.items())
        new = sorted({p.number: p for n in members if (p := changes[n].after)}.items())
        yield tuple(p.binding for _, p in old), tuple(p.binding for _, p in new)
