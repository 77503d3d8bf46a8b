"""Convolutions by minimal filtering: the same values at every size, and only where it pays."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.errors import BadOption
from explorer.frontends.load import load
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Apply, Kernel, Read
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from explorer.transforms.minimal_filters import F2, F4, ROW3, ROW4, MinimalFilter
from explorer.transforms.tile_transforms import window_sum
from explorer.transforms.winograd import ALGORITHMS as WAYS
from explorer.transforms.winograd import Algorithm, Winograd, apply_algorithm
from explorer.transforms.winograd import Options as ConvolutionOptions
from tests.codegen.running import run_kernel
from tests.transforms.convolutions import (
    SHAPES,
    Shape,
    chain,
    direct,
    kernel_of,
    model,
    values_of,
    with_filters,
)

W2, W4 = WAYS["f2"], WAYS["f4"]
ALGORITHMS = st.sampled_from([W2, W4])
NUMBERS = st.fractions(-9, 9, max_denominator=9)
UNKNOWN = ShapeEnv((SymbolBound("batch", 1, 8),))


def made(kernel: Kernel, way: Algorithm) -> Kernel:
    new = apply_algorithm(kernel, kernel.computes[0], way)
    assert isinstance(new, Kernel), new
    return new


def gap(want: np.ndarray, got: np.ndarray) -> float:
    return float(np.abs(want - got).max() / np.abs(want).max())


@pytest.mark.parametrize("by", [F2, F4, ROW3, ROW4])
@given(data=st.data())
@settings(max_examples=20)
def test_the_transforms_filter_exactly(by: MinimalFilter, data: st.DataObject) -> None:
    d = data.draw(st.lists(NUMBERS, min_size=by.points, max_size=by.points))
    g = data.draw(st.lists(NUMBERS, min_size=by.taps, max_size=by.taps))

    def times(matrix: tuple[tuple[Fraction, ...], ...], v: list[Fraction]) -> list[Fraction]:
        return [sum((a * b for a, b in zip(r, v, strict=True)), Fraction()) for r in matrix]

    pairs = zip(times(by.filter, g), times(by.input, d), strict=True)
    want = [sum(d[i + k] * g[k] for k in range(by.taps)) for i in range(by.outputs)]
    assert times(by.output, [a * b for a, b in pairs]) == want


@pytest.mark.parametrize("by", [F2, F4, ROW3, ROW4])
def test_the_transforms_of_data_are_exact_in_float32(by: MinimalFilter) -> None:
    for row in (*by.input, *by.output):
        assert all(Fraction(float(np.float32(float(x)))) == x for x in row)


@given(shape=SHAPES, by=ALGORITHMS)
@settings(max_examples=20)
def test_every_size_has_the_values_of_the_direct_sum(shape: Shape, by: Algorithm) -> None:
    kernel = kernel_of(shape)
    values = values_of(kernel, {})
    new = made(kernel, by)
    got = direct(new, with_filters(kernel, by, values), {})
    assert gap(direct(kernel, values, {}), got) < 1e-5


@given(shape=SHAPES, by=ALGORITHMS, data=st.data())
@settings(max_examples=12)
def test_every_tile_stays_in_its_buffers(shape: Shape, by: Algorithm, data: st.DataObject) -> None:
    small = replace(shape, channels=shape.channels % 7 + 1, outputs=shape.outputs % 10 + 8)
    kernel = kernel_of(small)
    values = values_of(kernel, {})
    new = made(kernel, by)
    parts = [c for c in new.computes if c.out == new.output]
    every = [
        a for a in parts[-1].axes[:-1] if all(a.name in {b.name for b in p.axes} for p in parts)
    ]
    cut = tuple((a.name, data.draw(st.integers(1, 4))) for a in every if data.draw(st.booleans()))
    program = lower(new, Tiling(cut, Micro(data.draw(st.integers(1, 6)), 1)))
    want = direct(kernel, values, {})
    out = np.full(want.shape, np.nan, np.float32)
    run = Interpreter(program, {**with_filters(kernel, by, values), "y": out}, {})
    run.run()
    assert gap(want, run.arrays["y"].reshape(want.shape)) < 1e-5


@pytest.mark.few(2)
@pytest.mark.parametrize("by", [W2, W4])
@pytest.mark.parametrize(
    "shape",
    [Shape(7, 7), Shape(13, 13, 5, 40), Shape(14, 9, 17, 33), Shape(6, 11, pads=(0, 1, 1, 0))],
)
def test_machine_code_has_the_values_of_the_direct_sum(shape: Shape, by: Algorithm) -> None:
    kernel = kernel_of(replace(shape, batch=symbol("batch")))
    new = made(kernel, by)
    last = [c for c in new.computes if c.out == "y"][-1]
    tiling = Tiling(tuple((a.name, 1 + (a.name != "n")) for a in last.axes[:2]), Micro(4, 2))
    for batch in (1, 3):
        sizes = {"batch": batch}
        values = values_of(kernel, sizes)
        arrays = with_filters(kernel, by, values)
        got = run_kernel(new, tiling, arrays, sizes, UNKNOWN)
        assert gap(direct(kernel, values, sizes), got) < 1e-5


def drawn_sizes(data: st.DataObject) -> tuple[Shape, dict[str, int]]:
    """An image of which height, width or both are symbols, and values of those."""
    names = data.draw(st.sampled_from([("qq",), ("zz",), ("qq", "zz"), ("qq", "qq")]))
    sizes = {n: data.draw(st.integers(1, 19)) for n in names}
    dims = [symbol(n) for n in names]
    high, wide = (dims * 2)[:2] if names != ("qq",) else (dims[0], 7)
    if names == ("zz",):
        high = 6
    return Shape(high, wide, data.draw(st.integers(1, 9)), data.draw(st.integers(8, 20))), sizes


IMAGE = ShapeEnv((SymbolBound("qq", 1, 64, 14), SymbolBound("zz", 1, 64, 14)))


@given(by=ALGORITHMS, data=st.data())
@settings(max_examples=12)
def test_an_image_of_run_time_sizes_has_the_values_of_the_direct_sum(
    by: Algorithm, data: st.DataObject
) -> None:
    shape, sizes = drawn_sizes(data)
    kernel = kernel_of(shape)
    values = values_of(kernel, sizes)
    new = made(kernel, by)
    want, given = direct(kernel, values, sizes), with_filters(kernel, by, values)
    assert gap(want, direct(new, given, sizes)) < 1e-5
    last = [c for c in new.computes if c.out == "y"][-1]
    over = [a.name for a in last.axes if a.name.startswith("t")]
    cut = tuple((n, data.draw(st.integers(1, 4))) for n in over if data.draw(st.booleans()))
    program = lower(new, Tiling(cut, Micro(data.draw(st.integers(1, 6)), 1)), IMAGE)
    out = np.full(want.shape, np.nan, np.float32)
    run = Interpreter(program, {**given, "y": out}, sizes)
    run.run()
    assert gap(want, run.arrays["y"].reshape(want.shape)) < 1e-5


@pytest.mark.few(2)
@pytest.mark.parametrize("algorithm", ["f2", "f4", "auto"])
@pytest.mark.parametrize("size", [("qq", "zz"), ("qq", 13), (12, "zz"), ("qq", "qq")])
def test_a_model_of_run_time_sizes_agrees_with_onnxruntime(
    algorithm: str, size: tuple[str | int, str | int], tmp_path: Path
) -> None:
    path = chain(tmp_path / "chain.onnx", *size, (3, 3), 3)
    c = compile(path, options=Options(convolution=ConvolutionOptions(algorithm)))
    if algorithm != "auto":
        label = WAYS[algorithm].label
        assert [a.chosen for a in c.program.decisions.algorithms].count(label) >= 2
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(2)
    for n, q, z in ((1, 1, 1), (2, 5, 3), (1, 12, 13), (1, 31, 34), (0, 4, 4)):
        given = {"qq": q, "zz": q if size == ("qq", "qq") else z}
        h, w = (d if isinstance(d, int) else given[d] for d in size)
        x = rng.standard_normal((n, 24, h, w)).astype(np.float32)
        (want,) = session.run(None, {"x": x})
        got = c.run({"x": x})["y"]
        assert got.shape == want.shape
        assert not n or gap(want, got) < 1e-5


@pytest.mark.few(4)
@pytest.mark.parametrize("algorithm", ["f2", "f4", "auto"])
@pytest.mark.parametrize("size", [(1, 1), (5, 15), (12, 13)])
def test_a_model_agrees_with_onnxruntime_at_every_batch(
    algorithm: str, size: tuple[int, int], tmp_path: Path
) -> None:
    path = model(tmp_path / "conv.onnx", Shape(*size, 24, 40))
    c = compile(path, options=Options(convolution=ConvolutionOptions(algorithm)))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(2)
    for batch in (1, 3):
        x = rng.standard_normal((batch, 24, *size)).astype(np.float32)
        (want,) = session.run(None, {"x": x})
        assert gap(want, c.run({"x": x})["y"]) < 1e-5


def test_errors_are_small_also_at_many_channels() -> None:
    """How small is a matter of the order of sums, which differs between machines."""
    kernel = kernel_of(Shape(12, 12, 512, 16))
    values = values_of(kernel, {})
    wide = {n: v.astype(np.float64) for n, v in values.items()}
    taps = np.pad(wide["x"], ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = (
        taps[:, i : i + 12, j : j + 12] @ wide["g"][:, :, i, j].T
        for i in range(3)
        for j in range(3)
    )
    want = np.maximum(sum(parts) + wide["b"] + wide["r"], 0)
    errors = []
    for by in (W2, W4):
        new = made(kernel, by)
        errors.append(gap(want, direct(new, with_filters(kernel, by, values), {})))
    assert gap(want, direct(kernel, values, {})) < errors[0] < errors[1] < 1e-5


@pytest.mark.parametrize("by", [W2, W4])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_so_wherever_the_direct_sum_has_it(
    by: Algorithm, value: float
) -> None:
    kernel = kernel_of(Shape(11, 11))
    values = values_of(kernel, {})
    values["x"][0, 4, 6, 3] = value
    values["r"][:] = 100.0  # so that the last step, max(., 0), hides no infinity above
    new = made(kernel, by)
    want = np.isnan(direct(kernel, values, {})) | np.isposinf(direct(kernel, values, {}))
    got = direct(new, with_filters(kernel, by, values), {})
    assert want.any() and not np.isfinite(got[want]).any()
    assert np.isfinite(got[:, :2]).all() and np.isfinite(got[:, 9:]).all()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"strides": [2, 2]}, "moves by one"),
        ({"dilations": [2, 2], "pads": [2, 2, 2, 2]}, "moves by one"),
    ],
)
def test_other_convolutions_stay_direct_and_say_why(
    more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    path = model(tmp_path / "conv.onnx", Shape(12, 12, 32, 32), **more)
    c = compile(path, options=Options(convolution=ConvolutionOptions("f4")), until="WELDED")
    found = c.program.decisions.algorithms
    assert all(a.chosen == "direct" for a in found)
    assert not found or any(why in x.refused for x in found[0].candidates)


def test_a_refusal_says_whether_the_weights_or_the_image_are_to_blame() -> None:
    kernel = kernel_of(Shape(12, 12))
    summed = kernel.computes[0]
    variable = replace(kernel, constants=frozenset("b"))
    inside = replace(kernel, inputs=tuple(n for n in kernel.inputs if n != "x"))
    for find in {w.find for w in WAYS.values()}:
        assert find(variable, summed) == "its weights are not constant"
        assert find(inside, summed) == "its image is computed in the same kernel"


def test_weights_of_which_a_diagonal_is_read_are_not_filtered() -> None:
    kernel = kernel_of(Shape(12, 12))
    summed, product = kernel.computes[0], kernel.computes[0].expr
    assert isinstance(product, Apply) and isinstance(product.args[1], Read)
    weight = product.args[1]
    twice = replace(weight, index=(weight.index[0], *weight.index))
    tensors = tuple(
        replace(t, shape=(t.shape[0], *t.shape)) if t.name == "g" else t for t in kernel.tensors
    )
    changed = replace(summed, expr=replace(product, args=(product.args[0], twice)))
    kernel = replace(kernel, tensors=tensors, computes=(changed, *kernel.computes[1:]))
    assert window_sum(kernel, changed) == "its weights are not read dim by dim"


@pytest.mark.exhaustive
@pytest.mark.parametrize("algorithm", ["f2", "f4"])
def test_grouped_channels_are_filtered_group_by_group(algorithm: str) -> None:
    """The windows of ResNeXt that move by one; its first one has three channels."""
    made = load("zoo:small_resnext29")
    c = compile(made, options=Options(convolution=ConvolutionOptions(algorithm)))
    label = f"F({algorithm[1]}x{algorithm[1]}, 3x3)"
    grouped = [a for a in c.program.decisions.algorithms if "groups" in a.binding]
    assert [a.chosen for a in grouped].count(label) >= 3
    assert {a.chosen for a in grouped} == {"direct", label}  # two of them move by two
    inputs = c.random_inputs({})
    want = compile(made, options=Options(convolution=ConvolutionOptions("direct"))).run(inputs)
    for name, found in c.run(inputs).items():
        assert gap(want[name], found) < 1e-5


def priced(cost: dict[int, float]) -> Winograd:
    """Minimal filtering with a price for kernels by how many computes they have."""
    return Winograd(price=lambda kernel, env: cost[min(len(kernel.computes), 20)])


@pytest.mark.parametrize(
    ("direct_us", "f2_us", "f4_us", "chosen"),
    [
        (100.0, 60.0, 50.0, "F(4x4, 3x3)"),
        (100.0, 60.0, 70.0, "F(2x2, 3x3)"),
        (100.0, 95.0, 91.0, "direct"),
        (100.0, float("inf"), float("inf"), "direct"),
        (float("inf"), float("inf"), float("inf"), "direct"),
    ],
)
def test_the_fastest_is_taken_where_it_gains_enough(
    direct_us: float, f2_us: float, f4_us: float, chosen: str
) -> None:
    kernel = kernel_of(Shape(12, 12))
    f2, f4 = (len(made(kernel, by).computes) for by in (W2, W4))
    cost = {len(kernel.computes): direct_us, min(f2, 20): f2_us, min(f4, 20): f4_us}
    ranked = priced(cost).candidates(kernel, kernel.computes[0], ShapeEnv())
    assert ranked[0].label == chosen
    assert all(c.refused or c.cost_us <= direct_us for c in ranked)
    assert all(c.label == "direct" or c.refused or c.cost_us < np.inf for c in ranked)
    assert {c.label for c in ranked} == {"direct", *(w.label for w in WAYS.values())}


def test_the_option_direct_leaves_the_program_as_it_was(tmp_path: Path) -> None:
    program = compile(model(tmp_path / "conv.onnx", Shape(12, 12)), until="LEGALIZED").program
    off = Winograd(options=ConvolutionOptions("direct"))
    assert off(program) is program
    assert Winograd()(program) != program


def test_options_that_mean_nothing_are_refused() -> None:
    with pytest.raises(BadOption, match="found 'fast'"):
        ConvolutionOptions("fast")
    with pytest.raises(BadOption, match="margin") as error:
        ConvolutionOptions(margin=1.0)
    found = (error.value.where, error.value.expected, error.value.actual)
    assert found == ("convolution.margin", "0 or more and below 1", "1.0")


def test_weights_that_are_not_finite_are_used_as_they_are(tmp_path: Path) -> None:
    program = compile(model(tmp_path / "conv.onnx", Shape(12, 12)), until="LEGALIZED").program
    constants = dict(program.constants)
    name = next(n for n, c in constants.items() if c.array.ndim == 4)
    array = constants[name].array.copy()
    array.flat[7] = np.inf
    constants[name] = type(constants[name])(array)
    after = Winograd(options=ConvolutionOptions("f4"))(replace(program, constants=constants))
    assert [a.chosen for a in after.decisions.algorithms] == ["direct"]
    assert after.functions == program.functions


def test_every_algorithm_that_was_weighed_stands_in_the_decisions(tmp_path: Path) -> None:
    c = compile(model(tmp_path / "conv.onnx", Shape(12, 12)), until="WELDED")
    (decision,) = c.program.decisions.algorithms
    assert decision.chosen == decision.candidates[0].label
    assert len(decision.candidates) == 1 + len(WAYS)
    assert c.program.decisions.algorithm(decision.binding) == decision
