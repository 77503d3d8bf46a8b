"""What is done once for several tasks in a row is the same as if each had done it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from explorer.codegen.build import build_kernel, print_kernel
from explorer.ir.affine import Affine, affine, var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import (
    Buffer,
    Fetch,
    Find,
    Grid,
    Load,
    Map,
    Span,
    Statement,
    TileProgram,
)
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from explorer.tile.rewriting.map_groups import hoist, levels
from tests.tile.programs import HERE


def convolution(height: int, width: int, channels: int, filters: int) -> Kernel:
    """3x3 with a border of one, channels last; weights are an input, so tasks pack them."""
    axes = (Axis("h", height), Axis("w", width), Axis("o", filters))
    reduce = (Axis("kh", 3), Axis("kw", 3), Axis("c", channels))
    x = Read("x", (affine({"h": 1, "kh": 1}, -1), affine({"w": 1, "kw": 1}, -1), var("c")), 0.0)
    w = Read("w", (var("kh"), var("kw"), var("o"), var("c")))
    specs = (
        TensorSpec("x", (height, width, channels)),
        TensorSpec("w", (3, 3, filters, channels)),
        TensorSpec("y", (height, width, filters)),
    )
    compute = Compute("y", axes, Apply("mul", (x, w)), reduce, "sum")
    return Kernel("conv", specs, (compute,), ("x", "w"), ("y",))


TILING = Tiling((("h", 2), ("o", 16)), Micro(4, 1, 16))


def test_a_border_copy_depends_on_rows_alone_and_packing_on_columns_alone() -> None:
    program = lower(normalise(convolution(5, 4, 3, 40)), TILING)
    found = dict(zip((type(s).__name__ for s in program.body), levels(program), strict=True))
    assert [g.axis for g in program.grid] == ["h", "o"]
    assert found["Fill"] == found["Load"] == 1
    assert found["Panels"] == 2  # it stores to memory
    assert found["Pack"] == 2  # it needs the columns, which change with every task


def test_the_border_is_copied_by_the_first_task_of_a_row() -> None:
    source, _, _ = print_kernel(convolution(5, 4, 3, 40), TILING, ShapeEnv(), HERE)
    assert source.count("if task == first or urem(task, 3) == 0:") == 1  # fill and copy


@pytest.mark.parametrize("parts", [1, 2, 3, 9])
def test_any_range_of_tasks_gives_what_each_task_alone_would(parts: int) -> None:
    kernel = convolution(5, 4, 3, 40)
    code = build_kernel(kernel, TILING, ShapeEnv(), HERE)
    random = np.random.default_rng(0)
    arrays = {
        "x": random.standard_normal((5, 4, 3)).astype(np.float32),
        "w": random.standard_normal((3, 3, 40, 3)).astype(np.float32),
        "y": np.full((5, 4, 40), np.nan, np.float32),
    }
    keep = [
        np.array(a.values, np.int64)
        if a.kind == "table"
        else arrays[a.name]
        if a.kind == "tensor"
        else np.full(int(str(a.elements)) * a.item_bytes // 4 + 64, np.nan, np.float32)
        for a in code.arguments
    ]
    block = np.array([k.ctypes.data for k in keep], np.int64)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(code.address)
    for first in range(0, 9, parts):
        run(first, min(first + parts, 9), block.ctypes.data)
    padded = np.pad(arrays["x"], ((1, 1), (1, 1), (0, 0)))
    expected = sum(
        padded[i : i + 5, j : j + 4] @ arrays["w"][i, j].T for i in range(3) for j in range(3)
    )
    assert np.allclose(arrays["y"], expected, atol=1e-5)


def test_what_needs_a_row_that_data_chooses_is_done_by_every_task() -> None:
    ids, x = Buffer("ids", "input", 3, "int64"), Buffer("x", "input", 30)
    scratch, y = Buffer("t", "scratch", 5), Buffer("y", "output", 15)
    i, o = Span("i", Affine(), 5, 5), Span("o", var("t_o"), 1, 3)
    row = Find("_found0", Fetch(ids, var("t_o")), 6)
    copy = Map(Fetch(scratch, var("i")), (i,), Fetch(x, var("_found0") * 5 + var("i")))
    last = Map(Fetch(y, var("o") * 5 + var("i")), (o, i), Fetch(scratch, var("i")))
    program = TileProgram((Grid("t_o", "o", 1, 3),), (row, copy, last), (ids, x, y, scratch))
    assert levels(program) == (1, 1, 1)
    values = {"ids": np.array([4, 0, 2]), "x": np.arange(30, dtype=np.float32)}
    out = np.full(15, np.nan, np.float32)
    Interpreter(hoist(program, HERE), {**values, "y": out}, {}).run()
    assert out.reshape(3, 5)[:, 0].tolist() == [20.0, 0.0, 10.0]


def test_scratch_that_is_written_again_is_written_by_every_task() -> None:
    scratch = Buffer("halo", "scratch", 5)
    x, y = Buffer("x", "input", 10), Buffer("y", "output", 30)
    body: list[Statement] = []
    for part in (0, 1):
        i = Span("i", Affine(), 5, 5)
        o = Span("o", var("t_o"), 1, 3)
        body.append(Load(Fetch(scratch, var("i")), Fetch(x, var("i") + 5 * part), (i,)))
        target = Fetch(y, var("o") * 10 + var("i") + 5 * part)
        body.append(Map(target, (o, i), Fetch(scratch, var("i"))))
    program = TileProgram((Grid("t_o", "o", 1, 3),), tuple(body), (x, y, scratch))
    assert levels(program) == (1, 1, 1, 1)
    once = TileProgram(program.grid, program.body[:2], program.buffers)
    assert levels(once) == (0, 1)
