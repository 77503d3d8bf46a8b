"""What lanes of a warp share of a reduction is reduced by shuffles, through no memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.codegen.cuda.build import print_block
from explorer.codegen.cuda.simulated import launch
from explorer.codegen.cuda.simulator import run_block_source
from explorer.errors import CheckFailed
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_program import For, Map, Shuffle, Sync, TileProgram
from explorer.ir.tile_traversal import statements
from explorer.tile.hazards import race
from explorer.tile.interpret import Interpreter
from explorer.tile.verify import shared_bytes, verify
from tests.codegen.cases import ENV, Case, softmax
from tests.codegen.cuda.launched import A100
from tests.tile.gpu.blocks import V100, case, is_right, made
from tests.tile.gpu.test_missing_syncs import without
from tests.tile.gpu.test_share_reductions import reduced, steps


def shuffles(p: TileProgram) -> list[Shuffle]:
    return [s for s in statements(p.body) if isinstance(s, Shuffle)]


@pytest.mark.few(16)
@pytest.mark.parametrize("combiner", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1, 64), (2, 96), (5, 224)])
def test_lanes_make_the_same(combiner: str, dtype: str, shape: tuple[int, int]) -> None:
    k = reduced(combiner, dtype, shape)
    x = (np.random.default_rng(0).integers(0, 2, shape) + 1).astype(dtype)
    if dtype.startswith("float"):
        x[0, 40], x[-1, 7] = np.nan, np.inf
    with np.errstate(all="ignore"):
        want = COMBINERS[combiner].numpy.reduce(x, axis=1, dtype=x.dtype)
        y = np.full(shape[:1], 7).astype(dtype)
        program = steps(k)["place syncs"]
        Interpreter(program, {"x": x, "y": y}, {}, seed=3).run()
        (printed,) = launch(print_block(k, A100, ENV, {}), k, [x], {}, 5)
    assert shuffles(program)
    np.testing.assert_allclose(y.astype(float), want.astype(float), 2e-5)
    np.testing.assert_allclose(printed.astype(float), want.astype(float), 2e-5)


def test_they_need_no_memory_and_no_sync() -> None:
    found = steps(reduced("sum", "float32", (2, 96)))
    apart, lanes = found["distribute over threads"], found["place syncs"]
    assert shared_bytes(apart, V100) > 0 == shared_bytes(lanes, V100)
    assert [s.lanes for s in shuffles(lanes)] == [32]
    assert not any(isinstance(s, Sync) for s in statements(lanes.body))


@pytest.mark.parametrize(
    ("dtype", "shape"), [("float16", (2, 96)), ("int8", (2, 96)), ("float32", (3, 97))]
)
def test_what_no_lane_can_read_of_another_stays(dtype: str, shape: tuple[int, int]) -> None:
    """Narrow elements, and a prime, which no lanes share."""
    assert not shuffles(steps(reduced("sum", dtype, shape))["place syncs"])


@pytest.mark.parametrize("c", [softmax(2, 16, {}), case("layer norm batch 64")])
def test_a_shuffle_is_no_sync_of_memory(c: Case) -> None:
    """Each Sync that is taken out is found, and shows as a wrong value."""
    program = made(c)["place syncs"]
    assert [s.lanes for s in shuffles(program)] == [4, 4] and is_right(c, program)
    for n in range(sum(isinstance(s, Sync) for s in statements(program.body))):
        broken = without(program, n)
        assert "no Sync is between" in race(broken)
        assert not all(is_right(c, broken, seed) for seed in range(4))


def test_the_checker_knows_warps() -> None:
    program = steps(reduced("sum", "float32", (2, 96)))["place syncs"]
    verify(program, V100)
    (shuffle,) = shuffles(program)
    stored = next(s.target for s in statements(program.body) if isinstance(s, Map))
    for found, why in (
        (replace(shuffle, lanes=64), "64 threads shuffle"),
        (replace(shuffle, lanes=24), "24 threads shuffle"),
        (replace(shuffle, target=stored), "is not in a register"),
    ):
        body = tuple(found if s is shuffle else s for s in program.body)
        with pytest.raises(CheckFailed, match=why):
            verify(replace(program, body=body), V100)
    with pytest.raises(CheckFailed, match="but 32 threads are not whole warps"):
        verify(program, replace(V100, lanes=48))
    with pytest.raises(CheckFailed, match="a Sync or shuffle is in a distributed loop"):
        loop = program.body[0]
        assert isinstance(loop, For)
        verify(replace(program, body=(replace(loop, body=(*loop.body, shuffle)),)), V100)


def test_lanes_that_never_come_are_found() -> None:
    source = (
        "def kernel(y):\n"
        "    x = float32(cuda.threadIdx.x)\n"
        "    if cuda.threadIdx.x < 2:\n"
        "        x = cuda.shfl_xor_sync(0xFFFFFFFF, x, 1)\n"
        "    y[cuda.threadIdx.x] = x\n"
    )
    with pytest.raises(CheckFailed, match="never reach a shuffle"):
        run_block_source(source, 1, 4, 0, {"y": np.zeros(4, np.float32)})
    y = np.zeros(64, np.float32)
    run_block_source(source.replace("< 2", "< 64"), 1, 64, 0, {"y": y})
    assert (y == (np.arange(64) ^ 1)).all()
