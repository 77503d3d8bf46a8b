"""The next chunk comes to registers while one is worked on, and threads' points are interleaved."""

from __future__ import annotations

import pytest

from explorer.devices.catalogue import device
from explorer.ir.decisions.tiling import Block
from explorer.ir.kernels.normal import normalise
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.tile_programs.elements import REGISTER
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, Sync
from explorer.ir.tile_programs.traversal import dealt
from explorer.tile.gpu.rewrites import block_steps
from tests.codegen.cases import linear
from tests.tile.gpu.blocks import is_right

H100 = device("h100")


def product(rows: int, depth: int, columns: int, at_once: int) -> dict[str, TileProgram]:
    """The steps of x @ w in tiles of 32 x 32, 4 x 4 a thread."""
    kernel = normalise(linear(rows, depth, columns, "relu", {}).kernel)
    main = kernel.computes[0]
    (i, j), (k,) = (a.name for a in main.axes), (a.name for a in main.reduce)
    out = [a.name for a in kernel.computes[-1].axes]
    block = Block(((out[0], 32), (out[1], 32)), 64, ((i, 4), (j, 4)), ((k, at_once),), ())
    return dict(block_steps(kernel, block, ShapeEnv(), H100))


def registers(p: TileProgram) -> dict[str, int]:
    return {b.name: int(b.size) for b in p.buffers if b.level == REGISTER}


def test_a_chunk_is_on_its_way_while_one_is_worked_on() -> None:
    steps = product(64, 96, 64, 16)
    before, after = (
        registers(steps["interleave threads"]),
        registers(steps["prefetch in registers"]),
    )
    made = {name: n for name, n in after.items() if name not in before}
    assert sorted(made.values()) == [8, 8]  # 32 x 16 of each operand over 64 threads
    program = steps["place syncs"]
    (chunks,) = (s for s in program.body if isinstance(s, For) and s.threads is None)
    kinds = [
        "sync" if isinstance(s, Sync) else "coming" if s.threads is None else dealt(s)[1][0]
        for s in chunks.body
        if isinstance(s, Sync | For)
    ]
    order = [k if isinstance(k, str) else type(k).__name__ for k in kinds]
    assert order == ["Map", "Map", "coming", "sync", "Reduce", "sync"]
    coming = next(s for s in chunks.body if isinstance(s, For) and s.threads is None)
    assert coming.span.clip_high and coming.span.extent == chunks.span.size == 6
    first = [s for s in program.body if isinstance(s, For) and s.threads is not None]
    assert len(first) == 4  # zeros, the first chunk of both operands, what is stored


@pytest.mark.parametrize(
    ("depth", "at_once"),
    [(16, 16), (90, 16)],  # one chunk; the last one has a part of it
)
def test_it_stays_where_it_would_not_help(depth: int, at_once: int) -> None:
    steps = product(64, depth, 64, at_once)
    assert steps["prefetch in registers"] == steps["interleave threads"]


def test_neighbours_have_neighbouring_points() -> None:
    """What two threads beside each other store lies beside each other; of an axis that a tile cuts
    at the edge, each has a part of its own, as before.
    """
    for columns, apart in ((64, 1), (70, 4)):
        program = product(64, 96, columns, 16)["place syncs"]
        last = program.body[-1]
        assert isinstance(last, For)
        loops, (store,) = dealt(last)
        assert isinstance(store, Map)
        at = store.target.offset
        for x in store.spans:
            at = at.substitute({x.axis: x.base})
        assert at.factor(loops[-1].span.axis) == apart


@pytest.mark.parametrize("shape", [(64, 96, 64), (33, 96, 64), (64, 96, 70), (2, 48, 130)])
def test_what_is_made_is_right(shape: tuple[int, int, int]) -> None:
    """With whole tiles, and with edges of both axes."""
    assert is_right(linear(*shape, "relu", {}), product(*shape, 16)["place syncs"], 3)
