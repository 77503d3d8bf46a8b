"""Global barriers where an operator would wait for too many units one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from explorer.rammer.model import Facts, Placement, Share


def insert_barriers(facts: Facts, placement: Placement, most: int) -> Placement:
    """The placement, cut into more rProgams: before an operator that reads what more than `most`
    units made since they met last.
    """
    programs = (part for shares in placement.programs for part in _cut(facts, shares, most))
    return replace(placement, programs=tuple(programs))


def _cut(facts: Facts, shares: Sequence[Share], most: int) -> list[tuple[Share, ...]]:
    parts, units = [list[Share]()], dict[int, set[int]]()
    for position, group in groupby(shares, key=lambda share: share.operator):
        o, mine = facts.operators[position], tuple(group)
        waited = set[int]().union(*(units.get(r, ()) for r in {*o.reads} - {*o.aligned}))
        if len(waited) > most:
            parts.append([])
            units.clear()
        parts[-1] += mine
        units.setdefault(position, set()).update(share.unit for share in mine)
    return [tuple(part) for part in parts if part]
