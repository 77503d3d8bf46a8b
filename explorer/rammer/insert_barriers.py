"""Global barriers that replace waits for many units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from explorer.rammer.model import Facts, Placement, Share


def insert_barriers(facts: Facts, placement: Placement, limit: int) -> Placement:
    """Insert a global barrier where an operator would wait for more than `limit` units.

    Units count that wrote the operator's operands since the last barrier. A barrier starts a new
    rProgram.
    """
    programs = (
        part for shares in placement.programs for part in _cut_program(facts, shares, limit)
    )
    return replace(placement, programs=tuple(programs))


def _cut_program(facts: Facts, shares: Sequence[Share], limit: int) -> list[tuple[Share, ...]]:
    parts, units = [list[Share]()], dict[int, set[int]]()
    for position, group in groupby(shares, key=lambda share: share.operator):
        o, mine = facts.operators[position], tuple(group)
        writers = set[int]().union(*(units.get(r, ()) for r in {*o.reads} - {*o.aligned}))
        if len(writers) > limit:
            parts.append([])
            units.clear()
        parts[-1] += mine
        units.setdefault(position, set()).update(share.unit for share in mine)
    return [tuple(part) for part in parts if part]
