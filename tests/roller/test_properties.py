"""What must hold of every construction, whatever the operator and the device."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.process.counters import counters
from explorer.roller.construct.alignment import bank_conflicts, bank_padding, keeps_shape
from explorer.roller.construct.axis_fusion import fuse_axes
from explorer.roller.construct.construct import Growth, construct, rules_for
from explorer.roller.construct.enlarge import operator_traffic, reuse_scores
from explorer.roller.construct.expression import Expression, expression_of, reads_of
from explorer.roller.construct.gpu_rules import GpuRules
from explorer.roller.construct.rtile import RTile, TiledProgram
from explorer.roller.construct.shrink import Waves, shrink_tiles
from explorer.roller.construct.steps import Construction
from explorer.roller.cpu_candidates import cpu_candidates
from tests.codegen.running import run_kernel
from tests.examples import examples
from tests.roller.operators import KERNELS, conv, depthwise, matmul, reduction, relu
from tests.roller.test_policy import DEVICE

GPUS = ("v100", "mi50", "a100", "h100")
SIZES: dict[str, int] = {}
PLAIN = Growth(shrink=False)
BIG = (matmul(4096, 4096, 4096), matmul(1024, 512, 2048), conv(128, 28, 128, 128, 3))
on_every_device = pytest.mark.parametrize("name", [*GPUS, "cpu"])
on_gpus = pytest.mark.parametrize("name", GPUS)


def machine(name: str) -> Device:
    return DEVICE if name == "cpu" else device(name)


@cache
def made(number: int, name: str, growth: Growth = PLAIN) -> Construction:
    """The construction of an operator, BIG ones behind the others."""
    return construct((*KERNELS, *BIG)[number], machine(name), SIZES, growth)


def every(name: str, growth: Growth = PLAIN) -> list[Construction]:
    return [made(n, name, growth) for n in range(len(KERNELS) + len(BIG))]


def programs(name: str) -> list[tuple[Construction, TiledProgram]]:
    found = [(c, p) for c in every(name) for p in c.results]
    assert len(found) > 40
    return found


@pytest.mark.few(1)
@on_every_device
def test_property_1_tiles_of_a_level_are_multiples_of_the_nearer_ones(name: str) -> None:
    for c, p in programs(name):
        for level, (outer, inner) in enumerate(zip(p.tiles, p.tiles[1:])):
            for d in range(c.expression.spatial):
                assert outer.shape[d] >= inner.shape[d] >= 1
                assert outer.shape[d] % inner.shape[d] == 0
            ends = c.expression.extents[c.expression.spatial :]
            for n, outside, inside in zip(ends, outer.reduced, inner.reduced, strict=True):
                assert outside >= min(n, inside) and level < len(p.tiles)


@on_gpus
def test_property_2_every_tensor_comes_in_whole_transactions_or_whole_rows(name: str) -> None:
    for c, p in programs(name):
        rules = GpuRules(machine(name), c.policy == "memory bound")
        for answer in rules.transactions(p.tile(0)):
            assert answer.holds or p.border, answer.text


@on_gpus
def test_property_3_regular_blocks_are_whole_warps_for_every_scheduler(name: str) -> None:
    gpu = machine(name)
    for c, p in programs(name):
        streamed = c.policy == "memory bound"
        filled = p.threads % (gpu.lanes * (1 if streamed else gpu.schedulers)) == 0
        assert filled or (p.border and all(q.border for q in c.results))


@on_every_device
def test_property_4_no_more_is_wasted_than_eps_allows(name: str) -> None:
    for c, p in programs(name):
        rules, _ = rules_for(machine(name), c.expression)
        e = c.expression
        for level, tile in enumerate(p.tiles[:-1]):
            if not rules.clips(level):
                kept = [keeps_shape(n, s, c.eps) for n, s in zip(e.extents, tile.spatial)]
                assert all(kept)
        whole = p.tiles[-2] if name == "cpu" else p.tile(0)
        done = prod(-(-n // s) * s for n, s in zip(e.extents, whole.spatial))
        assert done <= prod(e.extents[: e.spatial]) * (1 + c.eps) ** e.spatial * (1 + 1e-9)


@on_every_device
def test_property_5_no_room_is_overrun_padding_included(name: str) -> None:
    for c, p in programs(name):
        rules, _ = rules_for(machine(name), c.expression)
        for level in range(len(rules.levels)):
            for room in rules.rooms(p.tiles[level:], level):
                assert room.fits, room
        assert len(p.tile(0).padding) in (0, len(c.expression.inputs))


@pytest.mark.few(2)
@pytest.mark.parametrize("score", ["paper", "artifact"])
@on_every_device
def test_property_6_the_axis_taken_has_the_best_score_of_those_left(name: str, score: str) -> None:
    growth = Growth(score=score, shrink=False)  # type: ignore[arg-type]
    for c in every(name, growth):
        by_parent: dict[int, list[float]] = {}
        for s in c.steps:
            if s.axis and s.before is not None and c.policy == "compute bound":
                taken = by_parent.setdefault(s.parent, [])
                assert not taken or s.score <= taken[-1]
                taken.append(s.score)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_property_6_intensity_never_falls_along_the_best_axis(m: int, n: int, k: int) -> None:
    tile = RTile(expression_of(matmul(4096, 4096, 4096)), (m, n, k))
    scores = reuse_scores(tile, (None,) * 3, "artifact")
    best = max(range(2), key=lambda d: scores[d])
    assert tile.with_size(best, tile.shape[best] + 1).intensity >= tile.intensity


@on_gpus
def test_property_7_regular_results_compute_longer_than_they_load_in_every_level(name: str) -> None:
    found = 0
    for c, p in programs(name):
        if c.policy == "memory bound" or p.border:
            continue
        rules, _ = rules_for(machine(name), c.expression)
        assert rules.compute_us(p.tile(0), 0) > rules.memory_us(p.tile(0), 0)
        found += 1
    assert found > 10


@given(st.integers(1, 300), st.integers(1, 16), st.sampled_from((4, 8, 16, 32)), st.data())
def test_property_8_padded_rows_are_free_of_conflicts(
    inner: int, read: int, banks: int, data: st.DataObject
) -> None:
    read = min(read, banks, inner)
    rows = data.draw(st.integers(1, banks // read))
    padded = inner + bank_padding(inner, read, banks)
    assert bank_conflicts(rows, padded, read, banks) == 1
    words = [(r * inner + i) % banks for r in range(rows) for i in range(read)]
    counted = max(words.count(b) for b in set(words))
    assert bank_conflicts(rows, inner, read, banks) == counted


def test_property_8_four_rows_of_four_banks_collide_until_they_are_padded() -> None:
    assert bank_conflicts(3, 4, 1, 4) == 3
    assert bank_conflicts(3, 5, 1, 4) == 1


@given(st.integers(0, 6), st.integers(0, 6), st.integers(4, 200))
def test_property_9_traffic_is_the_closed_form(log_m: int, log_n: int, k: int) -> None:
    m, n = 2**log_m, 2**log_n
    e = expression_of(matmul(256, 512, k))
    tile = RTile(e, (m, n, k))
    grid = (256 // m) * (512 // n)
    assert operator_traffic(tile) == 4 * (m * k + k * n + m * n) * grid
    if n < 64:
        assert operator_traffic(RTile(e, (m, 2 * n, k))) <= operator_traffic(tile)


@on_every_device
def test_property_10_results_are_unique_few_enough_and_the_same_each_time(name: str) -> None:
    for number, c in enumerate(every(name)):
        shapes = [tuple(t.shape for t in p.tiles) for p in c.results]
        assert len(set(shapes)) == len(shapes) <= 10
        if number % 5 == 0:
            again = construct((*KERNELS, *BIG)[number], machine(name), SIZES, PLAIN)
            assert again.results == c.results and again.steps == c.steps


@on_every_device
def test_property_11_shrinking_ends_with_work_for_every_unit_or_nothing_to_cut(name: str) -> None:
    units = machine(name).units
    for _, p in programs(name):
        small = shrink_tiles(p, units)
        assert small.grid >= units or all(n == 1 for n in small.tile(0).spatial)
        assert (small is p) == (p.grid >= units or all(n == 1 for n in p.tile(0).spatial))
        kept = shrink_tiles(p, units, 2)
        assert kept.tiles[-2:] == p.tiles[-2:]


def test_property_12_fused_axes_keep_the_elements_and_their_order() -> None:
    fused = fuse_axes(expression_of(relu(17, 11, 3)))
    assert fused.expression.extents == (561,)
    assert fused.groups == (("e0", "e1", "e2"),)
    assert fused.expression.inputs[0].shape == (561,)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_property_12_fusion_moves_every_point_to_the_same_address(kernel: Kernel) -> None:
    e = expression_of(kernel)
    fused = fuse_axes(e)
    assert prod(fused.expression.extents) == prod(e.extents)
    assert [a for g in fused.groups for a in g] == list(e.axes)
    rng = np.random.default_rng(0)
    for _ in range(20):
        point = {a: int(rng.integers(n)) for a, n in zip(e.axes, e.extents, strict=True)}
        merged = []
        for group in fused.groups:
            value = 0
            for a in group:
                value = value * e.extents[e.position(a)] + point[a]
            merged.append(value)
        old = addresses(e, tuple(point.values()))
        assert old == addresses(fused.expression, tuple(merged))


def addresses(e: Expression, point: tuple[int, ...]) -> list[int]:
    """Where each tensor is touched, row by row; constants of an index left out."""
    found = []
    for access in reads_of(e):
        flat = 0
        for walk, n in zip(access.dims, access.shape, strict=True):
            flat = flat * n + sum(step * point[axis] for axis, step in walk)
        found.append(flat)
    return found


def test_property_13_is_the_golden_ten() -> None:
    found = construct(matmul(4096, 4096, 4096), device("v100"))
    assert found.results[0].tile(0).shape == (128, 64, 8) and len(found.results) == 10


ODD = (
    matmul(13, 37, 29), matmul(1, 101, 67), conv(1, 13, 5, 19, 3), conv(2, 9, 7, 11, 1),
    depthwise(1, 11, 13, 3), reduction(7, 31), relu(3, 5, 7),
)  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("kernel", ODD, ids=lambda k: k.name)
def test_property_14_generated_code_is_right_for_sizes_that_no_tile_divides(kernel: Kernel) -> None:
    kernel = normalise(kernel)
    rng = np.random.default_rng(1)
    arrays = {n: rng.standard_normal(kernel.shape(n)).astype(np.float32) for n in kernel.inputs}
    found = [c for c in cpu_candidates(kernel, DEVICE, ShapeEnv(), SIZES) if not c.refused]
    assert found
    want = evaluate_kernel(kernel, [arrays[n] for n in kernel.inputs], SIZES)
    for candidate in found[:2]:
        assert isinstance(candidate.value, Tiling)
        out = run_kernel(kernel, candidate.value, arrays)
        np.testing.assert_allclose(out, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (512, 512, 512), (128, 1000, 2048)])
@on_every_device
def test_property_15_constructing_runs_nothing_and_looks_at_few_tiles(
    name: str, shape: tuple[int, int, int]
) -> None:
    """A tile takes 0.1 ms or so to look at; `tests/benchmarks` has the times."""
    with counters.delta() as did:
        made = construct(matmul(*shape), machine(name))
    assert did.kernel_compiles == 0 and did.runs == 0
    assert sum(round.visited for round in made.rounds) <= 1000 and made.results


@given(st.integers(1, 5000), st.integers(1, 200), st.integers(1, 4))
def test_waves_count_every_copy_once(grid: int, units: int, beside: int) -> None:
    waves = Waves(grid, units, beside)
    assert sum(waves.copies(w) for w in range(waves.waves)) == grid
    assert 0 < waves.last <= waves.places and 0 < waves.efficiency <= 1


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.sampled_from(GPUS))
def test_any_product_has_tiles_that_fit_or_none(m: int, n: int, k: int, name: str) -> None:
    found = construct(matmul(m, n, k), machine(name), SIZES, Growth(top_k=3))
    for p in found.results:
        assert p.grid >= 1 and p.threads >= 1
