"""Thread blocks of Roller's tiles: what holds of every grid, on every sheet."""

from itertools import pairwise
from math import prod

import pytest

from explorer.cost.bind_kernel import bind_kernel
from explorer.devices.catalogue import device
from explorer.ir.affine import var
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, apply, at
from explorer.ir.kernels.normal import normalise
from explorer.rammer.device_sheet_kernels import choose_pair
from explorer.roller.blocks.candidates import alone_us, block_refusal
from explorer.roller.blocks.gpu_candidates import _BlockSearch, estimate_us, grids
from explorer.roller.blocks.thread_block import thread_block_steps
from explorer.roller.construct.construct import Growth, construct
from explorer.roller.construct.shrink import finer
from explorer.roller.policy import candidates
from explorer.tile.gpu.block import why_not_blocks
from explorer.tile.gpu.rewrites import unsynced
from explorer.tile.verify import shared_bytes
from tests.codegen.cases import ENV, linear, softmax, specs
from tests.codegen.several_outputs import beside, product
from tests.codegen.test_scans import fold
from tests.roller.operators import KERNELS, lookup, matmul, relu
from tests.tile.gpu.blocks import SMALL, is_right

V100 = device("v100")


@pytest.fixture
def whole_sums(monkeypatch):
    """Grids in which no threads share a sum."""
    monkeypatch.setattr(_BlockSearch, "_share_sums", lambda *_: None)


@pytest.fixture
def every(whole_sums, monkeypatch):
    """Grids that are weighed, whether they could be chosen or not."""

    def all_of(blocks):
        weighed = [w for w in blocks.weighed_blocks.values() if w is not None]
        return tuple(blocks.of(w.block, w.label) for w in weighed)

    monkeypatch.setattr(_BlockSearch, "_choose", all_of)


@pytest.mark.few(14)
@pytest.mark.parametrize("name", ["v100", "mi50", "ipu"])
@pytest.mark.parametrize("kernel", KERNELS[:3] + KERNELS[8:], ids=lambda k: k.name)
def test_every_kernel_has_grids_that_fit_every_sheet(kernel, name):
    sheet = device(name)
    found = grids(normalise(kernel), sheet)
    assert found and len(set(found)) == len(found)
    for b in found:
        assert b.grid >= 1 and 1 <= b.threads <= sheet.block_threads
        assert b.shared_bytes <= sheet.block_shared_bytes
        assert b.alone_us >= b.compute_us > 0 and b.memory_us > 0
        assert 1 <= b.resident(sheet) <= sheet.unit_blocks


def test_grids_are_rollers_cut_finer_step_by_step_and_as_they_were(every, monkeypatch):
    monkeypatch.setattr(_BlockSearch, "_fuller", lambda *_: iter(()))
    made = construct(matmul(1, 1024, 256), V100).results[0]
    found = {b.grid for b in grids(normalise(matmul(1, 1024, 256)), V100)}
    assert made.grid == 128 and made.shrunk_from and found == {128, 64, 32, 16}


def test_a_tile_is_cut_finer_along_the_axes_that_blocks_share_out() -> None:
    """Rows alone: all columns stay in each block, and rows are halved until 80 units have some."""
    made = construct(matmul(784, 64, 128), V100, None, Growth(top_k=1, shrink=False)).results[0]
    ways = list(finer(made, V100.units, [0]))
    rows = [p.tile(0).spatial[0] for p in ways]
    assert ways[0] is made and len(ways) > 1
    assert all(b == -(-a // 2) for a, b in pairwise(rows))
    assert -(-784 // rows[-1]) >= V100.units > -(-784 // rows[-2])
    assert {p.tile(0).spatial[1] for p in ways} == {made.tile(0).spatial[1]}
    assert list(finer(made, V100.units, [])) == [made]


def test_all_blocks_together_move_each_operand_once_at_least():
    kernel = normalise(matmul(512, 1024, 256))
    bound = bind_kernel(kernel, {})
    once = 4 * sum(prod(t.shape) for t in bound.tensors)
    near = V100.all_gb_per_s(V100.levels[1]) * 1e3
    for b in grids(kernel, V100):
        assert b.grid * b.memory_us * near >= once


def test_constants_that_do_not_stay_in_cache_are_slower_to_load(every):
    kernel = normalise(matmul(1, 1024, 256))
    kernel = type(kernel)(
        kernel.name, kernel.tensors, kernel.computes, kernel.inputs, kernel.output, frozenset("b")
    )
    warm, cold = (grids(kernel, V100, cold=c)[0] for c in (False, True))
    assert cold.memory_us > 3 * warm.memory_us and cold.alone_us > warm.alone_us


def test_work_past_the_end_of_an_axis_counts():
    even, odd = grids(normalise(relu(4096)), V100)[0], grids(normalise(relu(4097)), V100)[0]
    assert odd.grid * odd.compute_us >= even.grid * even.compute_us


def test_lanes_with_nothing_to_do_take_their_warps_turns_and_registers(every) -> None:
    """8 outputs for 8 threads, 32 for 32: as much of a multiprocessor, and a quarter is done."""
    found = {b.threads: b for b in reversed(grids(normalise(matmul(1, 1024, 256)), V100))}
    few, full = found[8], found[32]
    assert few.registers == full.registers and few.resident(V100) == full.resident(V100)
    assert [1024 // b.grid for b in (few, full)] == [8, 64]  # outputs of a block
    assert full.compute_us < 2.2 * few.compute_us  # two outputs a thread, and all lanes at work


def test_a_multiply_add_is_two_operations() -> None:
    """No grid of a large product is done before the arithmetic of the device is."""
    m, n, k = 2048, 2048, 512
    least = 2 * m * n * k / (V100.reached_gflops_per_unit * V100.units * 1e3)
    found = grids(normalise(matmul(m, n, k)), V100)
    assert min(b.whole_us(V100) for b in found) >= least


def test_what_shared_memory_holds_in_between_is_priced() -> None:
    """Of a softmax a block keeps what it made, of which Roller's tile of a sum knows nothing."""
    kernel = normalise(softmax(64, 500, {}).kernel)
    for b in grids(kernel, V100):
        assert b.block is not None
        program = unsynced(kernel, b.block, ShapeEnv(), V100)
        assert b.shared_bytes == shared_bytes(program, V100) >= 4 * 500


def test_what_has_no_thread_blocks_is_priced_alone() -> None:
    """Rows of y lie where those of x do, which another block may not have read yet."""
    axes = (Axis("i", 64), Axis("j", 500))
    tensors = (TensorSpec("x", (65, 500)), TensorSpec("y", (65, 500)))
    read = Read("x", (var("i") + 1, var("j")))
    made = Compute("y", axes, read, store=(var("i"), var("j")))
    kernel = Kernel("shifted", tensors, (made,), ("x",), ("y",), updates=(("y", "x"),))
    found = grids(kernel, V100)
    assert why_not_blocks(kernel) and found and all(b.block is None for b in found)


def test_a_running_reduction_has_thread_blocks() -> None:
    """One thread a row: of 4,000 rows units have more to do than of one."""
    found = grids(normalise(fold((4000, 300), 1)), V100)
    assert found and all(b.block is not None and b.grid >= 4000 // 512 for b in found)


def cheap_before_product(n: int, k: int) -> Kernel:
    """y = max(x, 0) @ b in one kernel: what is made first is read by every column."""
    p, j, r = Axis("p", k), Axis("n", n), Axis("k", k)
    first = Compute("t", (p,), apply("max", at("x", (p,)), 0.0))
    product = Apply("mul", (at("t", (r,)), at("b", (r, j))))
    last = Compute("u", (j,), product, (r,), "sum")
    after = Compute("y", (j,), apply("max", at("u", (j,)), 0.0))
    tensors = specs(x=(k,), t=(k,), b=(k, n), u=(n,), y=(n,))
    return Kernel("chain", tensors, (first, last, after), ("x", "b"), ("y",))


def test_blocks_do_a_little_twice_where_units_would_have_no_work(whole_sums: None) -> None:
    kernel = normalise(cheap_before_product(4096, 2048))
    best = choose_pair(grids(kernel, V100), V100).fastest
    assert best.grid >= V100.units
    alone = choose_pair(grids(normalise(matmul(1, 4096, 2048)), V100), V100).fastest
    assert best.whole_us(V100) < 1.5 * alone.whole_us(V100)


def test_rows_that_are_looked_up_are_what_moves() -> None:
    far = V100.all_gb_per_s(V100.levels[-1]) * 1e3
    for b in grids(normalise(lookup(16, 32, 1 << 20)), V100):
        assert b.grid * b.memory_us * far <= 4 * 16 * 32 * 4


HELD = (1, 2, 3, 4)
TWO_WAVES = (matmul(320, 64, 512), matmul(1, 1024, 512), matmul(257, 100, 300))


@pytest.mark.parametrize("kernel", TWO_WAVES, ids=lambda k: k.name)
def test_neighbours_fill_the_last_wave(kernel, whole_sums, monkeypatch):
    """However many blocks a multiprocessor holds, none ends later for them."""
    found = grids(normalise(kernel), V100)
    monkeypatch.setattr(_BlockSearch, "_fuller", lambda *_: iter(()))
    plain = grids(normalise(kernel), V100)
    for held in HELD:
        now, before = (
            min(b.whole_us(V100, held) for b in some if b.resident(V100) >= held)
            for some in (found, plain)
        )
        assert now <= before


@pytest.mark.few(1)
@pytest.mark.parametrize("c", [linear(96, 24, 33, "relu", {}), softmax(7, 33, {})])
def test_blocks_of_neighbours_are_right(c):
    k = normalise(c.kernel)
    plain = {b.block for b in grids(k, SMALL)}
    assert len(plain) > 1
    for block in plain:
        program = thread_block_steps(k, SMALL, ENV, {}, block)[-1][1]
        assert is_right(c, program), block


@pytest.mark.parametrize("kernel", [*TWO_WAVES, matmul(1, 4096, 2048)], ids=lambda k: k.name)
def test_what_kernels_are_compared_by_is_near_the_best_grid(kernel):
    """Welder asks it of each merge, and it looks at fewer blocks."""
    k = normalise(kernel)
    best = min(b.whole_us(V100) for b in grids(k, V100))
    assert 0.9 * best <= estimate_us(k, V100) <= 1.25 * best


@pytest.mark.parametrize("gpu", ["v100", "a100"])
@pytest.mark.parametrize("kernel", [product(17, 9, 9), beside(17, 9, 9), product(300, 300, 8)])
def test_kernels_with_several_outputs_have_grids(kernel: Kernel, gpu: str) -> None:
    assert choose_pair(grids(normalise(kernel), device(gpu)), device(gpu)).fastest.block is not None


def test_what_is_made_for_no_elements_takes_no_time() -> None:
    i, j, over = Axis("i", 4), Axis("j", 0), Axis("k", 0)
    total = Compute("t", (), Read("x", (var("k"),)), (over,), "sum")
    out = Compute("y", (i, j), apply("add", Read("t", ()), 1.0))
    shapes = {"x": (0,), "t": (), "y": (4, 0)}
    specs = tuple(TensorSpec(n, s) for n, s in shapes.items())
    kernel = normalise(Kernel("nothing", specs, (total, out), ("x",), ("y",)))
    assert alone_us(kernel, V100, {}) == 0.0


@pytest.mark.parametrize("name", ["v100", "h100", "mi50"])
@pytest.mark.parametrize("columns", [1, 3, 5, 12, 100])
def test_every_candidate_is_legal_by_the_rule_that_policies_keep(columns, name):
    sheet, kernel = device(name), normalise(linear(1000, 16, columns, "relu", {}).kernel)
    offered = list(candidates(kernel, sheet, ShapeEnv(), {}, 1000))
    assert offered
    for c in offered:
        assert not c.refused and not block_refusal(kernel, c.value, sheet, {}), c.label
