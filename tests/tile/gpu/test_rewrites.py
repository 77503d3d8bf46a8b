"""Every rewrite of a thread block keeps what it computes, on odd sizes, and what it makes is proved
free of races.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.codegen.cuda.build import print_block
from explorer.codegen.cuda.simulated import launch
from explorer.devices.catalogue import device
from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import thread_block
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, TensorSpec, at, axes
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import For, Reduce, Sync, TileProgram
from explorer.ir.tile_traversal import distributed_loops, statements
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.roller.blocks.thread_block import block_of, thread_block_steps
from explorer.roller.construct.construct import construct
from explorer.tile.gpu.rewrites import REWRITES, block_steps
from explorer.tile.interpret import Interpreter
from explorer.tile.verify import shared_bytes
from tests.codegen.cases import CASES, ENV, Case, attention, conv, linear
from tests.codegen.test_scans import fold
from tests.tile.gpu.blocks import SMALL, V100, case, first_block, is_right, made

QUICK = (
    "linear 5x7x9", "linear 17x13x31", "linear 1x5x9", "conv 1x7x7x3", "conv 1x7x8x5", "pool 8 5",
    "softmax 2 33", "layer norm 7 19", "attention 1 16", "transpose (3, 5, 7)", "concat (3, 5)",
    "gather", "mask", "integers", "narrow sum float16",
)  # fmt: skip
SHORT = [c for c in CASES if c.name.startswith(QUICK)]


def syncs(p: TileProgram) -> int:
    return sum(isinstance(s, Sync) for s in statements(p.body))


@pytest.mark.few(2)
@pytest.mark.parametrize("c", SHORT, ids=lambda c: c.name)
def test_every_rewrite_keeps_the_values(c: Case) -> None:
    found = made(c)
    assert [*found] == ["lower", *(name for name, _ in REWRITES)]
    for name, program in found.items():
        assert is_right(c, program), name


@pytest.mark.exhaustive
@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_every_case_keeps_its_values(c: Case) -> None:
    for name, program in made(c).items():
        assert is_right(c, program, 1), name


@pytest.mark.parametrize("sheet", ["v100", "mi50", "ipu"])
def test_blocks_of_a_data_sheet_are_right(sheet: str) -> None:
    """One row, one column, primes, and less than a warp: blocks reach past every end."""
    gpu = device(sheet)
    for c in (linear(1, 1, 1, "none", {}), linear(13, 11, 7, "relu", {})):
        assert is_right(c, made(c, gpu)["place syncs"])


@pytest.mark.few(20)
@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_every_kernel_is_served(c: Case) -> None:
    found = made(c, V100)
    assert syncs(found["place syncs"]) <= syncs(found["stage in shared memory"])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (33, 130)])
def test_a_running_reduction_is_one_threads_along_its_axis(
    shape: tuple[int, int], axis: int
) -> None:
    """Whole, whatever its tile would cut, in order and from the end, with and without itself."""
    for exclusive in (False, True):
        for backwards in (False, True):
            k = normalise(fold(shape, axis, exclusive=exclusive, backwards=backwards))
            x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
            want = evaluate_kernel(k, [x], {})
            for block in (None, thread_block((("a0", 2), ("a1", 3)), 64)):
                code = print_block(k, replace(SMALL, capability=80), ENV, {}, block)
                (found,) = launch(code, k, (x,), {}, 1)
                np.testing.assert_allclose(found, want, 1e-5, 1e-5)


def test_what_is_not_served_is_told() -> None:
    with pytest.raises(BadOption, match="has no elements"):
        made(linear(0, 3, 5, "relu", {}))  # nothing is launched: there is no block to look at


def test_a_part_is_written_over_what_is_there() -> None:
    """y takes over the memory of `old`, of which no block reads anything, and keeps the rest."""
    a = axes("a", (5, 7))
    store = (var("a0"), var("a1") + 4)
    part = Compute("y", a, Apply("neg", (at("x", a),)), store=store)
    tensors = (TensorSpec("x", (5, 7)), TensorSpec("old", (5, 13)), TensorSpec("y", (5, 13)))
    k = Kernel("part", tensors, (part,), ("x", "old"), ("y",), updates=(("y", "old"),))
    x, y = np.ones((5, 7), np.float32), np.full((5, 13), 3, np.float32)
    for name, program in thread_block_steps(k, SMALL, ENV, {}):
        out = y.copy()
        Interpreter(program, {"x": x, "y": out}, {}).run()
        assert (out[:, 4:11] == -1).all() and (out[:, :4] == 3).all() and out[0, 12] == 3, name


def over_old(expr: Expr, rows: int, first: int) -> Kernel:
    """Rows of y, from `first` on, over those of `old`."""
    a = axes("a", (rows, 13))
    made = Compute("y", a, expr, store=(var("a0") + first, var("a1")))
    tensors = (TensorSpec("old", (5, 13)), TensorSpec("y", (5, 13)))
    return Kernel("over", tensors, (made,), ("old",), ("y",), updates=(("y", "old"),))


def test_what_is_written_over_may_be_read_where_no_other_block_writes() -> None:
    """Rows that none writes, or each element by the thread that writes it."""
    old = np.arange(65, dtype=np.float32).reshape(5, 13)
    other = Apply("neg", (Read("old", (var("a0"), var("a1"))),))
    mine = Apply("neg", (Read("old", (var("a0") + 3, var("a1"))),))
    for k, source in ((over_old(other, 2, 3), old[:2]), (over_old(mine, 2, 3), old[3:])):
        code = print_block(k, replace(SMALL, capability=80), ENV, {})
        (found,) = launch(code, k, (old,), {})
        assert (found == [*old[:3], *-source]).all() and (old[3:] > 0).all()


def test_what_other_blocks_write_over_is_not_read() -> None:
    for rows, first, shift in ((2, 3, 2), (3, 1, 0), (4, 0, 1)):
        expr = Apply("neg", (Read("old", (var("a0") + shift, var("a1"))),))
        with pytest.raises(BadOption, match="y is written over old"):
            thread_block_steps(over_old(expr, rows, first), SMALL, ENV, {})


def test_two_products_make_parts_of_one_result() -> None:
    """Each has sums, operands and shares of its own, in other shapes: no two go by one name."""

    def part(width: int, first: int, w: str, depth: int) -> Compute:
        (i, j), k = axes("a", (6, width)), Axis("k", depth)
        read = (Read("x", (var("a0"), var("k"))), Read(w, (var("k"), var("a1"))))
        store = (var("a0"), var("a1") + first)
        return Compute("y", (i, j), Apply("mul", read), (k,), "sum", store=store)

    for depth in (5, 300):  # in registers, and shared by several threads
        tensors = (
            *(TensorSpec("x", (6, depth)), TensorSpec("v", (depth, 8))),
            *(TensorSpec("w", (depth, 7)), TensorSpec("y", (6, 15))),
        )
        made_of = (part(8, 0, "v", depth), part(7, 8, "w", depth))
        k = Kernel("parts", tensors, made_of, ("x", "v", "w"), ("y",))
        rng = np.random.default_rng(depth)
        x, v, w = (rng.normal(size=t.shape).astype(np.float32) for t in tensors[:3])
        want = x @ np.concatenate([v, w], 1)
        for gpu in (SMALL, V100):
            for name, program in thread_block_steps(normalise(k), gpu, ENV, {}):
                names = [b.name for b in program.buffers]
                assert len({*names}) == len(names), name
            y = np.full((6, 15), np.nan, np.float32)
            Interpreter(program, {"x": x, "v": v, "w": w, "y": y}, {}, depth).run()
            np.testing.assert_allclose(y, want, 1e-4, 1e-4)


def test_a_product_is_in_three_levels() -> None:
    """Roller's block, its threads' register tiles and its depth are in the program. Operands lie so
    that threads read several at once, in no more room than Roller's padded rows.
    """
    c = linear(512, 300, 256, "relu", {})
    k = normalise(c.kernel)
    roller = construct(k, V100)
    block, found = block_of(k, roller.fused, roller.results[0]), made(c, V100)
    program = found["place syncs"]
    outer, inner = roller.results[0].tiles[:2]
    assert tuple(g.tile for g in program.grid) == outer.spatial
    loops = next(s for s in program.body if isinstance(s, For) and s.threads is not None)
    counts = [x.threads.count for x in distributed_loops(loops)[0] if x.threads is not None]
    assert np.prod(counts) == block.threads == roller.results[0].threads
    assert [n for _, n in block.register] == list(inner.spatial)
    (product,) = (s for s in statements(program.body) if isinstance(s, Reduce))
    assert product.onto and product.over[0].size == outer.reduced[0]
    assert 0 < shared_bytes(program, V100) <= outer.footprint_bytes
    assert syncs(program) == 2


def test_a_convolution_comes_to_shared_memory_with_its_border() -> None:
    program = made(conv(9, 9, 5, 17, 3, 1, 1), V100)["place syncs"]
    (product,) = (s for s in statements(program.body) if isinstance(s, Reduce))
    names = {b.name for b in program.buffers if b.level == "L1"}
    assert len(names) == 2 and "where" not in str(product.expr)


def test_what_a_clip_leaves_out_meets_nobody() -> None:
    """Rows of 3 in shared memory, of which each thread has 2: what is past a row's end would lie in
    the next one, and no thread comes there.
    """
    c = attention(1, 3, 2, 8, {"oh": 1})
    k = normalise(c.kernel)
    assert dict(first_block(k, SMALL).register)["j"] == 2
    assert is_right(c, made(c)["place syncs"])


def test_what_does_not_fit_stays_where_it_is() -> None:
    tight = replace(SMALL, block_shared_bytes=64)
    c = case("linear 5x7x9")
    k = normalise(c.kernel)
    block = first_block(k, SMALL)
    program = dict(block_steps(k, block, ENV, tight))["place syncs"]
    assert not any(b.level == "L1" for b in program.buffers) and not syncs(program)
    assert is_right(c, program)


def test_a_block_of_one_warp_syncs_its_warp() -> None:
    program = made(case("softmax 2 33"), replace(SMALL, lanes=16))["place syncs"]
    assert {s.scope for s in statements(program.body) if isinstance(s, Sync)} == {"warp"}
