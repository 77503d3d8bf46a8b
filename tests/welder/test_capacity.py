"""Why no tile will do: memory that is too small, or registers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.devices.catalogue import device
from explorer.welder import tile_cost
from explorer.welder.tiles.reduce_steps import no_room
from explorer.welder.tiles.sized_tile import SizedTile
from explorer.welder.tiles.tile_costs import holder
from tests.roller.test_policy import DEVICE
from tests.welder import groups

ROOM = holder(DEVICE).capacity or 0
LARGE = SizedTile((("i", 1),), (), 0, 4 * ROOM, ROOM, False, True, 1, 1, 1, 1)


def test_a_tile_that_memory_does_not_hold_is_told_in_bytes() -> None:
    why = no_room((LARGE, replace(LARGE, held_bytes=2 * ROOM)), DEVICE)
    assert why.condition == "capacity" and (why.value, why.limit) == (2 * ROOM, ROOM)
    assert why.change == "0.5 of the rows would fit"


def test_a_tile_that_memory_holds_is_refused_for_registers() -> None:
    why = no_room((LARGE, replace(LARGE, held_bytes=ROOM // 2)), DEVICE)
    assert why.condition == "registers"
    assert why.words == "registers do not hold what the smallest tile computes: shorter rows"


@pytest.mark.parametrize(("rows", "valid"), [(8, True), (9, False)])
def test_a_block_has_registers_for_twice_what_it_computes(rows: int, valid: bool) -> None:
    few = replace(device("v100"), block_registers=2 * 8 * 8)
    cost = tile_cost(groups.matmul(18, 4, 8), few, {"i": rows, "j": 8})
    assert cost.valid == valid
