"""What scatters cost: each task passes over all updates, and combines those that are its own."""

from __future__ import annotations

from explorer.cost.counts import VECTOR
from explorer.cost.estimate import Estimate
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernels.normal import normalise
from tests.ir.test_scatter import gradient
from tests.tile.programs import HERE


def operations(rows: int, width: int, count: int, tile: int | None = None) -> float:
    """Operations on vectors that all tasks of a scatter do."""
    cut = Tiling() if tile is None else Tiling((("a0", tile),))
    kernel = normalise(gradient(rows, width, count))
    return Estimate(kernel, cut, HERE, once=True).counts({}).each[VECTOR]


def test_updates_are_combined_once_and_not_once_a_result() -> None:
    few, many = operations(1000, 64, 100), operations(1000, 64, 10_100)
    each = (many - few) / 10_000
    assert each < 50  # a row of 64 elements, and its place


def test_results_begin_once() -> None:
    narrow, tall = operations(1000, 64, 100), operations(2000, 64, 100)
    assert tall - narrow == 1000 * 64 / HERE.lanes


def test_each_task_looks_at_every_place_but_combines_its_own() -> None:
    one, four = operations(1000, 64, 1000), operations(1000, 64, 1000, 250)
    both = operations(1000, 64, 1000, 500)
    assert one < both < four
    looks = both - one
    assert abs((four - one) - 3 * looks) < 1e-6 * four


def test_of_the_updates_a_task_reads_its_share() -> None:
    kernel = normalise(gradient(1000, 64, 1000))
    whole = Estimate(kernel, Tiling(), HERE, once=True)
    part = Estimate(kernel, Tiling((("a0", 100),)), HERE, once=True)
    sizes = [
        {
            p.whole_bytes(e.numbers({})): p.moved(e.numbers({}), {})[0]
            for phase in e.phases
            for p in phase.boxes
        }[256_000]
        for e in (whole, part)
    ]
    assert sizes == [256_000, 25_600]
