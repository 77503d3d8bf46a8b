"""Placement of Syncs: where hazards need them, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from explorer.devices.model import Device
from explorer.errors import CheckFailed
from explorer.ir.tile_program import TileProgram
from explorer.ir.tile_traversal import threads_of
from explorer.tile.hazards import hazards
from explorer.tile.sync_places import Gap, parts_of_block, with_syncs

MOST_CHOICES = 20_000  # of the search after the greedy choice: a bound on time, chosen


def place_syncs(p: TileProgram, device: Device) -> TileProgram:
    """Place the cheapest set of Syncs that prevents all hazards.

    Of several sets the one with the latest places is chosen. Syncs are of a warp if the block is
    one.

    Raises CheckFailed if two threads access one element in one part: no Sync helps.
    """
    parts = parts_of_block(p)
    conflicts = hazards(parts)
    for h in conflicts:
        if not h.gaps:
            raise CheckFailed(f"threads of one part access the same element of {h.buffer}")
    chosen = fewest([h.gaps for h in conflicts], parts.times)
    return with_syncs(p, chosen, "warp" if threads_of(p.body) <= device.lanes else "block")


def fewest(needs: Sequence[frozenset[Gap]], cost: Callable[[Gap], int]) -> frozenset[Gap]:
    """Return the cheapest set with a gap of every need."""
    least = [n for n in dict.fromkeys(needs) if not any(other < n for other in needs)]
    least.sort(key=lambda n: (len(n), sorted(map(_order, n))))
    best = [frozenset(min(n, key=cost) for n in least)]
    visited = [0]

    def price(gaps: frozenset[Gap]) -> tuple[int, int]:
        return sum(map(cost, gaps)), len(gaps)

    def go(chosen: frozenset[Gap]) -> None:
        visited[0] += 1
        if visited[0] > MOST_CHOICES or price(chosen) >= price(best[0]):
            return
        open_need = next((n for n in least if not n & chosen), None)
        if open_need is None:
            best[0] = chosen
            return
        for gap in sorted(open_need, key=lambda g: (cost(g), _order(g))):
            go(chosen | {gap})

    go(frozenset())
    return best[0]


def _order(gap: Gap) -> tuple[int, ...]:
    return (*gap.loop, gap.before)
