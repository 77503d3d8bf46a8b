"""Products of 16-bit floats by whole warps are what they were, whatever the order of threads; what
is no such product stays with each thread.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.devices.catalogue import device
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import Reduce, Sync, TileProgram
from explorer.ir.tile_traversal import statements
from explorer.roller.blocks.thread_block import (
    bound_normal,
    in_own_names,
    launched,
    thread_block_steps,
)
from explorer.tile.gpu.demand import demand_of
from explorer.tile.gpu.matrix_units import MATRIX
from explorer.tile.hazards import race
from tests.codegen.cases import ENV, Case, linear
from tests.tile.gpu.blocks import is_right
from tests.tile.gpu.products import A100, CASES, blocks, narrow
from tests.tile.gpu.test_missing_syncs import without

WANTED = 3  # blocks of a case, drawn


def steps(c: Case, number: int, gpu: object = A100) -> dict[str, TileProgram]:
    """The programs of one block that Roller weighs, drawn by a number."""
    k = launched(c.kernel, c.sizes)
    found = blocks(k)
    block = found[np.random.default_rng(number).integers(len(found))]
    own = in_own_names(block, bound_normal(c.kernel, c.sizes))
    return dict(thread_block_steps(normalise(c.kernel), gpu, ENV, c.sizes, own))  # type: ignore[arg-type]


def on_matrix_units(p: TileProgram) -> int:
    return sum(isinstance(s, Reduce) and s.form == MATRIX for s in statements(p.body))


@pytest.mark.few(1)
@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("number", range(WANTED))
def test_products_are_what_they_were(c: Case, number: int) -> None:
    found = steps(c, number)
    assert on_matrix_units(found["multiply on matrix units"]) == 1
    for name in ("multiply on matrix units", "interleave threads", "place syncs"):
        assert all(is_right(c, found[name], seed) for seed in range(2)), name


def test_a_thread_keeps_sums_of_its_own() -> None:
    """Four of each piece, each of them in one thread."""
    c = narrow(linear(64, 32, 64, "relu", {}))
    for number in range(8):
        found = steps(c, number)["place syncs"]
        (product,) = (s for s in statements(found.body) if isinstance(s, Reduce))
        assert product.form == MATRIX
        demand = demand_of(found, A100)
        (work,) = (w for w in demand.work if w.matrix)
        grid = demand.grid
        assert work.results * 128 * work.working // 32 * grid == 64 * 64
        assert demand.matrix_operations * grid == 2 * 64 * 32 * 64
        assert demand.matrix_reads > 0


def test_every_sync_is_needed() -> None:
    program = steps(narrow(linear(64, 64, 48, "relu", {})), 0)["place syncs"]
    count = sum(isinstance(s, Sync) for s in statements(program.body))
    assert count
    for n in range(count):
        assert race(without(program, n))


@pytest.mark.parametrize(
    ("c", "gpu"),
    [
        (narrow(linear(32, 32, 16, "relu", {})), device("v100")),  # without such units
        (narrow(linear(32, 32, 16, "relu", {})), replace(A100, unit_matrix_gflops=0.0)),
        (narrow(linear(32, 32, 16, "relu", {})), replace(A100, capability=75)),
    ],
)
def test_other_hardware_multiplies_thread_by_thread(c: Case, gpu: object) -> None:
    found = steps(c, 0, gpu)
    assert not any(map(on_matrix_units, found.values()))
    assert is_right(c, found["place syncs"])


def test_float32_is_multiplied_as_it_is() -> None:
    """Matrix units would round it; a pair of different types they do not take."""
    plain, mixed = (
        linear(32, 32, 16, "relu", {}),
        narrow(linear(32, 32, 16, "relu", {}), names=("x",)),
    )
    assert not blocks(launched(plain.kernel, {})) and not blocks(launched(mixed.kernel, {}))
    block = blocks(launched(narrow(plain).kernel, {}))[0]
    for c in (plain, mixed):
        own = in_own_names(block, bound_normal(c.kernel, {}))
        found = dict(thread_block_steps(normalise(c.kernel), A100, ENV, {}, own))
        assert not any(map(on_matrix_units, found.values()))
        assert is_right(c, found["place syncs"])


def test_what_is_past_the_end_of_a_sum_is_zero_in_shared_memory() -> None:
    """A chunk of 16 of which 9 are there: the others must not be whatever lies there."""
    c = narrow(linear(16, 9, 8, "none", {}))
    found = steps(c, 0)
    assert "where(lt(index(k), 9)" in "\n".join(_text(found["stage in shared memory"]))
    assert is_right(c, found["place syncs"])


def _text(p: TileProgram) -> tuple[str, ...]:
    from explorer.ir.text.tile_printer import print_tile_program

    return print_tile_program(p)
