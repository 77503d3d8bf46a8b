"""A Sync that is missing is found by the checker, and shows as a wrong value where threads go in a
random order.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.ir.tile_program import For, Statement, Sync, TileProgram
from explorer.ir.tile_traversal import statements
from explorer.tile.hazards import race
from tests.codegen.cases import Case, conv
from tests.tile.gpu.blocks import case, is_right, made

KERNELS = (
    case("linear 5x7x9"),
    case("linear 8x6x3"),
    case("softmax 2 33"),
    case("layer norm 7 19"),
    conv(3, 3, 2, 3, 3, 1, 1),
)
TRIES, FOUND = 100, 99


def without(p: TileProgram, number: int) -> TileProgram:
    """The program without one of its Syncs."""
    left = [number]

    def of(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        kept: list[Statement] = []
        for s in body:
            if isinstance(s, Sync):
                left[0] -= 1
                if left[0] == -1:
                    continue
            kept.append(replace(s, body=of(s.body)) if isinstance(s, For) else s)
        return tuple(kept)

    return replace(p, body=of(p.body))


def planted() -> list[tuple[Case, TileProgram]]:
    """Right programs with one Sync taken out."""
    found = []
    for c in KERNELS:
        p = made(c)["place syncs"]
        count = sum(isinstance(s, Sync) for s in statements(p.body))
        found += [(c, without(p, n)) for n in range(count)]
    return found


@pytest.fixture(scope="module")
def broken() -> list[tuple[Case, TileProgram]]:
    return planted()


def test_the_checker_finds_each(broken: list[tuple[Case, TileProgram]]) -> None:
    assert len(broken) >= 7
    for c, p in broken:
        assert "no Sync stands between" in race(p), c.name


def test_random_orders_find_them(broken: list[tuple[Case, TileProgram]]) -> None:
    tries = [(*broken[seed % len(broken)], seed) for seed in range(TRIES)]
    assert sum(not is_right(c, p, seed) for c, p, seed in tries) >= FOUND
