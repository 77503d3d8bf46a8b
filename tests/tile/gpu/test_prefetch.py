"""The next chunk comes to registers while one is worked on, and threads' points are interleaved."""

from __future__ import annotations

import pytest

from explorer.devices.catalogue import device
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import thread_block
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import REGISTER, For, Map, Reduce, Sync, TileProgram
from explorer.ir.tile_traversal import distributed_loops, loads, statements
from explorer.tile.gpu.rewrites import block_steps
from tests.codegen.cases import linear
from tests.tile.gpu.blocks import is_right

H100 = device("h100")


def product(
    rows: int, depth: int, columns: int, at_once: int, own: int = 4
) -> dict[str, TileProgram]:
    """The steps of x @ w in tiles of 32 x 32, 4 x 4 a thread, or `own` columns."""
    kernel = normalise(linear(rows, depth, columns, "relu", {}).kernel)
    main = kernel.computes[0]
    (i, j), (k,) = (a.name for a in main.axes), (a.name for a in main.reduce)
    out = [a.name for a in kernel.computes[-1].axes]
    sizes = (out[0], 32), (out[1], 8 * own)
    block = thread_block(sizes, 64, ((i, 4), (j, own)), ((k, at_once),))
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
        "sync"
        if isinstance(s, Sync)
        else "coming"
        if s.threads is None
        else distributed_loops(s)[1][0]
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
    assert steps["prefetch in registers"] == steps["pad banks"]


@pytest.mark.parametrize(
    ("columns", "own", "apart", "groups"),
    [
        (64, 4, 4, {1: 4}),  # what one thread reads and stores at once
        (64, 8, 4, {1: 4, 32: 2}),  # two of these, as far apart as eight threads reach
        (96, 6, 2, {1: 2, 16: 3}),
        (70, 4, 4, {1: 4}),  # a tile cuts the edge: each has a part of its own, as before
    ],
)
def test_threads_have_groups_of_neighbours(
    columns: int, own: int, apart: int, groups: dict[int, int]
) -> None:
    """`groups`: the steps between a thread's points, with how many there are."""
    program = product(64, 96, columns, 16, own)["place syncs"]
    last = program.body[-1]
    assert isinstance(last, For)
    loops, (store,) = distributed_loops(last)
    assert isinstance(store, Map)
    thread, at = loops[-1].span.axis, store.target.offset
    spans = {x.axis: x for x in store.spans}
    for x in store.spans:
        at = at.substitute({x.axis: x.base + var(x.axis)})
    assert at.factor(thread) == apart
    mine = {at.factor(a): x.size for a, x in spans.items() if at.factor(a) in groups}
    assert mine == groups


def test_operands_lie_so_that_groups_are_read_at_once() -> None:
    """Points of a row are neighbours, rows begin with a group, and those of the operand that is
    copied along what is summed in other banks.
    """
    program = product(64, 96, 64, 16)["place syncs"]
    x, w = (b for b in program.buffers if b.kind == "scratch" and b.level != REGISTER)
    assert (x.size, w.size) == (16 * 36 - 4, 16 * 32)  # no padding behind the last row
    reduced = next(s for s in statements(program.body) if isinstance(s, Reduce))
    for f in (f for f in loads(reduced) if f.buffer.level != REGISTER):
        points = [a for a in f.offset.variables if a.endswith("_e")]
        assert [f.offset.factor(a) for a in points] == [1]
        others = [n for name, n in f.offset.terms if name not in points]
        assert all(isinstance(n, int) and n % 4 == 0 for n in others)


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(64, 96, 64), (33, 96, 64), (64, 96, 70), (2, 48, 130)])
def test_what_is_made_is_right(shape: tuple[int, int, int]) -> None:
    """With whole tiles, and with edges of both axes."""
    assert is_right(linear(*shape, "relu", {}), product(*shape, 16)["place syncs"], 3)
