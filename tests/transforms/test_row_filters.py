"""Long windows filtered along one dim: the same values at every size, stride and group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, save

from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, apply
from explorer.ir.kernels.normal import normalise
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from explorer.transforms.row_filters import row_sum
from explorer.transforms.winograd import ALGORITHMS, Algorithm, apply_algorithm
from explorer.transforms.winograd import Options as ConvolutionOptions
from tests.codegen.running import run_kernel
from tests.examples import examples
from tests.transforms.convolutions import chain, direct, values_of, with_filters
from tests.transforms.test_winograd import gap

WAYS = st.sampled_from([ALGORITHMS["row3"], ALGORITHMS["row4"]])
TALL, WIDE = 1, 2  # dims of the image


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """`y = max(conv(x, g) + b, 0)`, channels last, the window long in one dim."""
    taps = [draw(st.integers(1, 3)), draw(st.integers(4, 11))]
    steps = [draw(st.integers(1, 3)), 1]
    if draw(st.booleans()):
        taps.reverse()
        steps.reverse()
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    ins, outs = draw(st.integers(1, 6)), draw(st.integers(8, 20))
    out = [draw(st.integers(1, 11)) for _ in range(2)]
    before = [draw(st.integers(0, k)) for k in taps]
    image = [max(1, s * (o - 1) + k - 2 * b) for s, o, k, b in zip(steps, out, taps, before)]
    return convolution(taps, steps, out, image, before, groups, ins, outs)


def convolution(
    taps: list[int],
    steps: list[int],
    out: list[int],
    image: list[int],
    before: list[int],
    groups: int,
    ins: int,
    outs: int,
) -> Kernel:
    group = (Axis("q", groups),) if groups > 1 else ()
    axes = (Axis("n", 2), Axis("h", out[0]), Axis("w", out[1]), *group, Axis("o", outs))
    over = (Axis("kh", taps[0]), Axis("kw", taps[1]), Axis("c", ins))
    channel, column = var("c"), var("o")
    if group:
        channel, column = var("q") * ins + channel, var("q") * outs + column
    h = var("h") * steps[0] + var("kh") - before[0]
    w = var("w") * steps[1] + var("kw") - before[1]
    data = Read("x", (var("n"), h, w, channel), 0.0)
    weight = Read("g", (column, var("c"), var("kh"), var("kw")))
    shape = (2, *out, groups * outs)
    after = (*axes[:3], Axis("p", shape[-1]))
    total = apply("add", Read("acc", tuple(var(a.name) for a in after)), Read("b", (var("p"),)))
    tensors = (
        TensorSpec("x", (2, *image, groups * ins)),
        TensorSpec("g", (shape[-1], ins, *taps)),
        TensorSpec("b", shape[-1:]),
        TensorSpec("acc", shape),
        TensorSpec("y", shape),
    )
    store = (var("n"), var("h"), var("w"), column) if group else ()
    computes = (
        Compute("acc", axes, Apply("mul", (data, weight)), over, "sum", store),
        Compute("y", after, apply("max", total, 0.0)),
    )
    return Kernel("conv", tensors, computes, ("x", "g", "b"), ("y",), frozenset("gb"))


def made(kernel: Kernel, way: Algorithm) -> Kernel:
    new = apply_algorithm(kernel, kernel.computes[0], way)
    assert isinstance(new, Kernel), new
    return new


@given(kernels(), WAYS)
@settings(max_examples=examples(40), deadline=None)
def test_every_size_has_the_values_of_the_direct_sum(kernel: Kernel, way: Algorithm) -> None:
    values = values_of(kernel, {})
    got = direct(made(kernel, way), with_filters(kernel, way, values), {})
    assert np.abs(direct(kernel, values, {}) - got).max() <= 2e-5


@given(kernels(), WAYS, st.data())
@settings(max_examples=15, deadline=None)
def test_every_tile_stays_in_its_buffers(
    kernel: Kernel, way: Algorithm, data: st.DataObject
) -> None:
    new = made(kernel, way)
    parts = [c for c in new.computes if c.out == new.output]
    every = [
        a.name
        for a in parts[-1].axes[:-1]
        if all(a.name in [b.name for b in p.axes] for p in parts)
    ]
    cut = tuple((name, data.draw(st.integers(1, 4))) for name in every if data.draw(st.booleans()))
    interpreted(kernel, way, Tiling(cut, Micro(data.draw(st.integers(1, 6)), 1)))


@pytest.mark.parametrize("before", [[0, 0], [1, 0], [2, 1], [4, 0]])
def test_an_image_of_one_row_has_room_for_its_border_in_every_tile(before: list[int]) -> None:
    kernel = convolution([4, 1], [1, 1], [6, 1], [1, 1], before, 1, 1, 8)
    interpreted(kernel, ALGORITHMS["row3"], Tiling((("tw", 1),), Micro(1, 1)))


@pytest.mark.few(2)
@pytest.mark.parametrize("way", ["row3", "row4"])
@pytest.mark.parametrize("size", [("qq", "zz"), ("qq", 13), (12, "zz")])
def test_a_model_of_run_time_sizes_agrees_with_onnxruntime(
    way: str, size: tuple[str | int, str | int], tmp_path: Path
) -> None:
    path = chain(tmp_path / "chain.onnx", *size, (3, 7), 3)
    c = compile(path, options=Options(convolution=ConvolutionOptions(way)))
    label = ALGORITHMS[way].label
    assert [a.chosen for a in c.program.decisions.algorithms].count(label) >= 2
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(2)
    for n, q, z in ((1, 1, 1), (2, 5, 3), (1, 12, 13), (1, 31, 34), (0, 4, 4)):
        h, w = (d if isinstance(d, int) else {"qq": q, "zz": z}[d] for d in size)
        x = rng.standard_normal((n, 24, h, w)).astype(np.float32)
        (want,) = session.run(None, {"x": x})
        got = c.run({"x": x})["y"]
        assert got.shape == want.shape
        assert not n or gap(want, got) < 1e-5


def interpreted(kernel: Kernel, way: Algorithm, tiling: Tiling) -> None:
    """Every tile, element by element: none leaves a buffer, all have the direct sum's values."""
    new, values = made(kernel, way), values_of(kernel, {})
    program = lower(new, tiling)
    want = direct(kernel, values, {})
    out = np.full(want.shape, np.nan, np.float32)
    run = Interpreter(program, {**with_filters(kernel, way, values), "y": out}, {})
    run.run()
    assert np.abs(want - run.arrays["y"].reshape(want.shape)).max() <= 2e-5


@pytest.mark.few(6)
@pytest.mark.parametrize("way", ["row3", "row4"])
@pytest.mark.parametrize("cut", [(), (("n", 1),), (("n", 1), ("h", 2)), (("w", 3),)])
@pytest.mark.parametrize(
    "shape",
    [
        ([1, 4], [1, 1], [1, 1], [1, 4], [0, 0], 1, 1, 8),
        ([3, 11], [2, 1], [7, 13], [15, 13], [1, 5], 1, 5, 20),
        ([9, 2], [1, 3], [11, 5], [11, 14], [4, 1], 2, 3, 16),
    ],
)
def test_machine_code_has_the_values_of_the_direct_sum(
    shape: tuple[Any, ...], cut: tuple[tuple[str, int], ...], way: str
) -> None:
    """Borders in the dim that is not filtered: a part of the tiles once wiped the one before it."""
    kernel, by = convolution(*shape), ALGORITHMS[way]
    new, values = made(kernel, by), values_of(kernel, {})
    named = {a.name for c in new.computes if c.out == "y" for a in c.axes}
    tiling = Tiling(tuple(c for c in cut if c[0] in named), Micro(4, 1))
    got = run_kernel(new, tiling, with_filters(kernel, by, values))
    assert gap(direct(kernel, values, {}), got) < 1e-5


WINDOWS: tuple[tuple[tuple[int, int], dict[str, object]], ...] = (
    ((5, 5), {"pads": [2, 2, 2, 2]}),
    ((21, 11), {"pads": [10, 5, 10, 5], "strides": [2, 1]}),
    ((7, 1), {"pads": [3, 0, 3, 0]}),
    ((1, 7), {"pads": [0, 3, 0, 3], "dilations": [1, 1]}),
    ((3, 6), {"pads": [2, 0, 2, 5], "dilations": [2, 1]}),
    ((5, 4), {"group": 2}),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("way", "window", "more"),
    [
        pytest.param(way, *model, marks=pytest.mark.exhaustive if (m + w) % 2 else ())
        for w, way in enumerate(("row3", "row4"))
        for m, model in enumerate(WINDOWS)  # each in one of the ways every time
    ],
)
def test_a_model_agrees_with_onnxruntime_at_every_batch(
    way: str, window: tuple[int, int], more: dict[str, object], tmp_path: Path
) -> None:
    rng, groups = np.random.default_rng(1), int(str(more.get("group", 1)))
    weights = (rng.standard_normal((24, 8 // groups, *window)) * 0.05).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "g"], ["c"], **more),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 8, 37, 23))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "conv", [x], [y], [numpy_helper.from_array(weights, "g")])
    path = str(tmp_path / "conv.onnx")
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    c = compile(path, options=Options(convolution=ConvolutionOptions(way)))
    assert [a.chosen for a in c.program.decisions.algorithms] == [ALGORITHMS[way].label]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (1, 3):
        data = rng.standard_normal((batch, 8, 37, 23)).astype(np.float32)
        assert gap(session.run(None, {"x": data})[0], c.run({"x": data})["y"]) < 1e-5


def test_the_longer_dim_is_filtered_and_strides_are_not() -> None:
    def place(taps: list[int], steps: list[int]) -> int | str:
        kernel = convolution(taps, steps, [8, 8], [40, 40], [0, 0], 1, 4, 16)
        found = row_sum(kernel, normalise(kernel).computes[0])
        return found if isinstance(found, str) else found.place

    assert place([5, 7], [1, 1]) == WIDE and place([7, 5], [1, 1]) == TALL
    assert place([5, 7], [1, 2]) == TALL and place([5, 7], [2, 1]) == WIDE
    assert "moves by one" in str(place([5, 7], [2, 2])) and "taps" in str(place([3, 3], [1, 1]))
