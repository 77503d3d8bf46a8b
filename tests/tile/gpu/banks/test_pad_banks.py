"""Arrays in shared memory are laid out so that warps wait as little as the exact count allows, and
the count of a tile program is that of the source that is printed of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.codegen.cuda.bank_accesses import accesses
from explorer.codegen.cuda.build import BlockCode, print_block
from explorer.codegen.cuda.simulated import launch
from explorer.cost.thread_blocks import thread_blocks
from explorer.devices.catalogue import device
from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling, thread_block
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, axes
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import TileProgram
from explorer.ir.tile_traversal import loads, statements
from explorer.tile.gpu.bank_accesses import bank_accesses, waits
from explorer.tile.gpu.demand import demand_of
from explorer.tile.gpu.pad_banks import layouts, pad_banks
from explorer.tile.gpu.rewrites import block_steps
from explorer.tile.verify import shared_bytes
from tests.codegen.cases import ENV

A100, V100 = device("a100"), device("v100")
MODELS = (
    ("zoo:tiny_bert", "a100"),
    ("zoo:small_bert", "h100"),
    ("tests/data/tiny_resnet18.onnx", "v100"),
)


def blocks_of(model: str, target: str) -> dict[str, BlockCode]:
    c = explorer.compile(model, target=target, until="planned")
    return {b.code.source: b.code for b in c.blocks if b.code is not None}


@pytest.fixture(scope="module")
def blocks() -> list[BlockCode]:
    return [code for m in MODELS for code in blocks_of(*m).values()]


def counted(code: BlockCode) -> Counter[tuple[str, bool, str]]:
    """By array and kind of access: cycles and the least of them, from the source."""
    found: Counter[tuple[str, bool, str]] = Counter()
    for a in accesses(code).accesses:
        found[a.array, a.store, "cycles"] += sum(a.cycles) * a.times
        found[a.array, a.store, "least"] += sum(a.least) * a.times
    return found


def by_steps(p: TileProgram) -> Counter[tuple[str, bool, str]]:
    found: Counter[tuple[str, bool, str]] = Counter()
    for name, asked in bank_accesses(p).items():
        for a in asked:
            found[name, a.store, "cycles"] += a.cycles
            found[name, a.store, "least"] += a.least
    return found


def read_anywhere(p: TileProgram) -> set[str]:
    """The arrays of which an element is read at a place that is computed."""
    return {f.buffer.name for s in statements(p.body) for f in loads(s) if f.dynamic}


@pytest.mark.exhaustive
def test_steps_tell_what_the_source_does(blocks: list[BlockCode]) -> None:
    """Equal where every loop is whole; a last chunk that is cut is counted as if it were. Of an
    array that is read where data say, as at the edge of a filtered convolution, they tell nothing.
    """
    equal = 0
    for code in blocks:
        found, anywhere = by_steps(code.tile_program), read_anywhere(code.tile_program)
        want = {key: n for key, n in counted(code).items() if key[0] not in anywhere}
        assert found.keys() == want.keys()
        assert all(found[key] >= n for key, n in want.items())
        equal += sum(found[key] == n for key, n in want.items())
    assert equal > 0.8 * sum(len(by_steps(c.tile_program)) for c in blocks)


@pytest.mark.parametrize(("model", "most"), [(MODELS[0], 1.0), (MODELS[1], 1.0), (MODELS[2], 1.5)])
def test_products_write_their_operands_without_conflicts(
    model: tuple[str, str], most: float
) -> None:
    """But windows of three axes, rows of one of which can be apart."""
    stores = Counter[str]()
    for code in blocks_of(*model).values():
        for (_, store, kind), n in counted(code).items():
            stores[kind] += n * code.grid if store else 0
    assert 0 < stores["cycles"] <= most * stores["least"]


def product(rows: int, columns: int, depth: int) -> Kernel:
    a, k = axes("a", (rows, columns)), Axis("k", depth)
    read = (Read("x", (var("a0"), var("k"))), Read("w", (var("k"), var("a1"))))
    tensors = (
        *(TensorSpec("x", (rows, depth)), TensorSpec("w", (depth, columns))),
        TensorSpec("y", (rows, columns)),
    )
    compute = Compute("y", a, Apply("mul", read), (k,), "sum")
    return normalise(Kernel("product", tensors, (compute,), ("x", "w"), ("y",)))


def block_of(tile: int, register: int, threads: int = 128, chunk: int = 32) -> Tiling:
    return thread_block(
        (("a0", tile), ("a1", 16)), threads, (("a0", register), ("a1", 1)), (("k", chunk),)
    )


def canonical_block(k: Kernel, block: Tiling) -> Tiling:
    """Under the names that a printed block has."""
    new = canonical(k)[1]
    parts = (block.tile, block.register, block.shared)
    tile, register, shared = (tuple((new[a], n) for a, n in part) for part in parts)
    return replace(block, tile=tile, register=register, shared=shared)


def steps_of(rows: int, tile: int, register: int, gpu: Device = A100) -> dict[str, TileProgram]:
    return dict(block_steps(product(rows, 64, 64), block_of(tile, register), ENV, gpu))


@pytest.mark.parametrize("gpu", [A100, V100], ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("tile", "register", "along"),
    [(16, 2, (4, 4)), (16, 4, (2, 4)), (64, 4, (2, 4)), (8, 1, (8, 4))],
)
def test_rows_and_lanes_are_those_that_the_count_says(
    gpu: Device, tile: int, register: int, along: tuple[int, int]
) -> None:
    """Of a product whose left operand is copied along what is summed, four at a time: where rows
    are read by twos or fours few lanes copy along one, where they are read one by one all do, to
    rows an odd number apart.
    """
    steps = steps_of(64, tile, register, gpu)
    before, after = steps["interleave threads"], steps["pad banks"]
    was, now = (
        sum(a.cycles for x in bank_accesses(p).values() for a in x) for p in (before, after)
    )
    assert now < was
    left = next(x for name, x in bank_accesses(after).items() if "_x" in name)
    assert all(a.cycles == a.least for a in left)
    assert max(a.together for a in left) == register
    store = next(a for a in left if a.store)
    assert (store.lanes[-1][0], store.own[-1][0] if store.own else 1) == along


def test_the_policy_tells_what_it_did_not_take() -> None:
    before = steps_of(64, 16, 2)["interleave threads"]
    left = next(x for name, x in bank_accesses(before).items() if "_x" in name)
    found = layouts(left, None, A100)
    assert found[-1].is_plain and [x.cycles for x in found] == sorted(x.cycles for x in found)
    assert len({(x.pitch, x.pad) for x in found}) == len(found) > 1


def test_padding_costs_no_resident_block() -> None:
    """Where rows apart would leave a multiprocessor one block fewer they stay together."""
    before = steps_of(64, 16, 2)["interleave threads"]
    used = shared_bytes(before, A100)
    tight = replace(A100, unit_shared_bytes=4 * used + 16, block_shared_bytes=used + 4)
    assert shared_bytes(pad_banks(before, tight), tight) == used
    assert shared_bytes(pad_banks(before, A100), A100) > used


@pytest.mark.few(8)
@pytest.mark.parametrize("seed", range(24))
def test_random_blocks_are_right_in_the_simulator(seed: int) -> None:
    """Odd sizes, halves and doubles: what is written is read where it was written."""
    rng = np.random.default_rng(seed)
    k = product(*(int(rng.integers(3, 40)) for _ in range(3)))
    tile, register = int(rng.choice([4, 8, 16])), int(rng.choice([1, 2, 4]))
    threads, chunk = int(rng.choice([32, 64, 128])), int(rng.choice([4, 8, 16, 32]))
    block = canonical_block(k, block_of(tile, register, threads, chunk))
    code = print_block(k, A100, ENV, {}, block)
    assert bank_accesses(code.tile_program)  # it is staged
    x, w = (rng.normal(size=k.shape(t)).astype(np.float32) for t in k.inputs)
    (found,) = launch(code, k, (x, w), {}, seed)
    np.testing.assert_allclose(found, x @ w, 1e-4, 1e-4)


def test_conflicts_are_priced() -> None:
    steps = steps_of(64, 16, 2)
    bad, good = (demand_of(steps[n], A100) for n in ("interleave threads", "pad banks"))
    assert bad.conflicts > 0 == good.conflicts
    slow, fast = (
        thread_blocks(A100, "", replace(good, conflicts=n), (1e3, 1e3)) for n in (bad.conflicts, 0)
    )
    waited = bad.conflicts / A100.clock_ghz / 1e3
    assert slow.compute_us == pytest.approx(fast.compute_us + waited)
    assert slow.alone_us == pytest.approx(fast.alone_us + waited)


def test_a_request_of_lanes_by_steps() -> None:
    assert waits(((32, 32),), 1, 4) == (32, 1)
    assert waits(((4, 1), (8, 36)), 1, 4) == (1, 1)
    assert waits(((32, 2),), 2, 4) == (2, 2)
    assert waits(((64, 1),), 1, 2) == (2, 2)
