"""A Sync that is missing is found by the checker, and shows as a wrong value where threads go in a
random order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.ir.tile_program import For, Statement, Sync, TileProgram
from explorer.ir.tile_traversal import statements
from explorer.tile.gpu.place_syncs import fewest
from explorer.tile.hazards import race
from explorer.tile.sync_places import Gap
from tests.codegen.cases import Case, conv, linear, softmax
from tests.examples import examples
from tests.tile.gpu.blocks import case, is_right, made

KERNELS = (
    case("linear 5x7x9"),
    linear(3, 150, 4, "relu", {}),  # in chunks: one is read before the next one comes
    softmax(1, 7, {}),
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
    assert len(broken) >= 8
    for c, p in broken:
        assert "no Sync is between" in race(p), c.name


@pytest.mark.exhaustive
def test_random_orders_find_them(broken: list[tuple[Case, TileProgram]]) -> None:
    tries = [(*broken[seed % len(broken)], seed) for seed in range(TRIES)]
    assert sum(not is_right(c, p, seed) for c, p, seed in tries) >= FOUND


GAPS = [Gap((), n) for n in range(3)] + [Gap((1,), n) for n in range(3)]
NEEDS = st.lists(st.frozensets(st.sampled_from(GAPS), min_size=1), max_size=6)


@settings(max_examples=examples(200), deadline=None)
@given(NEEDS, st.integers(1, 5))
def test_no_cheaper_syncs_would_do(needs: list[frozenset[Gap]], trips: int) -> None:
    def cost(gaps: Iterable[Gap]) -> int:
        return sum(trips if g.loop else 1 for g in gaps)

    chosen = fewest(needs, lambda g: cost([g]))
    every = (set(s) for n in range(len(GAPS) + 1) for s in combinations(GAPS, n))
    assert all(n & chosen for n in needs)
    assert cost(chosen) == min(cost(s) for s in every if all(n & s for n in needs))
