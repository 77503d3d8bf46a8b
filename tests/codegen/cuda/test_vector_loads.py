"""Copies to shared memory load four neighbours at once where these begin at a multiple."""

from __future__ import annotations

import re

import numpy as np
import pytest

import explorer
from explorer.codegen.cuda.assemble import assemble, disassembler, sass, why_not
from explorer.codegen.cuda.build import BlockCode, print_block
from explorer.codegen.cuda.simulated import launch
from explorer.devices.catalogue import device
from explorer.ir.affine import var
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, axes
from explorer.runtime.cuda.driver import SimulatedDriver
from explorer.runtime.cuda.run import ProgramRun
from tests.codegen.cases import ENV
from tests.codegen.cuda.launched import A100
from tests.tile.gpu.banks.test_pad_banks import block_of, canonical_block, product

UNITS = 3


def code_of(
    rows: int, columns: int, depth: int, tile: int = 16, register: int = 4, aligned: bool = True
) -> BlockCode:
    k = product(rows, columns, depth)
    block = canonical_block(k, block_of(tile, register, 64, 16))
    return print_block(k, A100, ENV, {}, block, aligned)


def loads_of(code: BlockCode) -> set[str]:
    """The arrays of which four elements are loaded at once."""
    return set(re.findall(r"load4\((\w+),", code.source))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "wide"),
    [
        (32, 48, 64, {"x", "w"}),
        (31, 48, 64, {"w"}),  # the last tile of rows is cut, which no row of w is
        (32, 47, 64, {"x"}),  # rows of w begin anywhere
        (32, 48, 62, {"w"}),
        (31, 47, 61, set()),
    ],
)
def test_rows_that_begin_at_a_multiple_are_loaded_by_fours(
    rows: int, columns: int, depth: int, wide: set[str]
) -> None:
    code, rng = code_of(rows, columns, depth), np.random.default_rng(0)
    own = {t.local: t.name for t in code.tensors}
    assert {own[n] for n in loads_of(code)} <= {"x", "w"}
    assert {own[n] for n in loads_of(code)} >= wide - ({"x"} if rows == 31 else set())
    k = product(rows, columns, depth)
    x, w = (rng.normal(size=k.shape(t)).astype(np.float32) for t in k.inputs)
    for each in (code, code_of(rows, columns, depth, aligned=False)):
        (found,) = launch(each, k, (x, w), {}, 1)
        np.testing.assert_allclose(found, x @ w, 1e-4, 1e-4)
    assert not loads_of(code_of(rows, columns, depth, aligned=False))


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(20))
def test_random_products_are_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, depth = (int(4 * n) for n in rng.integers(1, 12, 3))
    rows += int(rng.integers(0, 2))
    code = code_of(rows, columns, depth, int(rng.choice([8, 16])), int(rng.choice([1, 2, 4])))
    k = product(rows, columns, depth)
    x, w = (rng.normal(size=k.shape(t)).astype(np.float32) for t in k.inputs)
    (found,) = launch(code, k, (x, w), {}, seed)
    np.testing.assert_allclose(found, x @ w, 1e-4, 1e-4)


@pytest.mark.parametrize("first", [0, 3, 4])
def test_a_part_of_a_tensor_begins_where_it_begins(first: int) -> None:
    """Columns of x from `first` on: its rows begin at a multiple of four, or not."""
    a, k = axes("a", (32, 48)), Axis("k", 64)
    read = (Read("x", (var("a0"), var("k") + first)), Read("w", (var("k"), var("a1"))))
    tensors = (TensorSpec("x", (32, 72)), TensorSpec("w", (64, 48)), TensorSpec("y", (32, 48)))
    compute = Compute("y", a, Apply("mul", read), (k,), "sum")
    kernel = Kernel("part", tensors, (compute,), ("x", "w"), ("y",))
    block = canonical_block(kernel, block_of(16, 4, 64, 16))
    code = print_block(kernel, A100, ENV, {}, block)
    own = {t.local: t.name for t in code.tensors}
    assert ("x" in {own[n] for n in loads_of(code)}) == (first % 4 == 0)
    rng = np.random.default_rng(first)
    x, w = (rng.normal(size=kernel.shape(t)).astype(np.float32) for t in kernel.inputs)
    (found,) = launch(code, kernel, (x, w), {})
    np.testing.assert_allclose(found, x[:, first : first + 64] @ w, 1e-4, 1e-4)


@explorer.trace
def stepped(
    x: explorer.tensor("float32", "steps", 4, 13),  # type: ignore[valid-type,no-untyped-def]
    w: explorer.tensor("float32", 4, 4),  # type: ignore[valid-type]
):
    h = x[0]
    for row in x:
        h = explorer.np.tanh(w @ row + h)
    return h


def test_rows_that_a_loop_comes_to_begin_anywhere() -> None:
    """52 elements from one to the next are a multiple; the program as one kernel is right."""
    c = explorer.compile(stepped, target="cuda-sim")
    run = ProgramRun(c.device_program({"steps": 5}, units=UNITS), SimulatedDriver(UNITS, 1))
    rng = np.random.default_rng(0)
    given = {
        "x": rng.normal(size=(5, 4, 13)).astype(np.float32),
        "w": rng.normal(size=(4, 4)).astype(np.float32),
    }
    (got,), (want,) = run.run(given).values(), explorer.compile(stepped).run(given).values()
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_where_a_value_begins_elsewhere_no_block_loads_by_fours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from explorer.runtime.cuda import program

    c = explorer.compile("zoo:small_bert", target="cuda-sim")
    before = c.device_program(units=UNITS)
    assert any(loads_of(b) for b in before.blocks.values())
    address = program.DeviceProgram.address
    monkeypatch.setattr(program.DeviceProgram, "address", lambda p, name: address(p, name) + 4)
    after = c.device_program(units=UNITS)
    assert not any(loads_of(b) for b in after.blocks.values())


@pytest.mark.parametrize("sheet", ["a100", "h100"])
def test_the_gpu_loads_128_bits(sheet: str) -> None:
    gpu = device(sheet)
    if why := why_not(gpu):
        pytest.skip(why)
    k = product(256, 256, 256)
    block = canonical_block(k, block_of(64, 4, 256, 16))
    found = assemble(print_block(k, gpu, ENV, {}, block), gpu)
    apart = assemble(print_block(k, gpu, ENV, {}, block, aligned=False), gpu)
    assert "ld.global.v4.f32" in found.ptx and "ld.global.v4.f32" not in apart.ptx
    assert found.spilled_bytes == apart.spilled_bytes == 0
    assert found.occupancy.blocks >= apart.occupancy.blocks
    if disassembler():
        assert re.search(r"LDG\.E\.128", sass(found.cubin))
