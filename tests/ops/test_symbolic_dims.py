"""Operators over dims that are symbols give what they give over numbers, under every binding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.errors import IronworksError, ShapeError
from explorer.frontends.load import load
from explorer.ir.dims import symbol
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.validate import difference
from explorer.relax import deduce, legalize
from tests.ops.one_operator import agree, oracle
from tests.strategies.onnx import symbolic

SEEDS = 240
TOLERANCE = 2e-3  # of the largest value: float16 is summed in another order over symbols
IMAGE = ("n", 2, "p", "q")


def kernels_of(model: onnx.ModelProto, path: Path) -> Program:
    """Return the model as kernels; its symbols may be 0."""
    onnx.save(model, path)
    names = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim}
    bounds: Any = {name: (0, None) for name in names if name}
    return legalize(deduce(load(path, bounds=bounds).program))


def means_the_same(case: symbolic.SymbolicCase, folder: Path) -> int:
    """Hold a case against itself with numbers, under each binding; return how many were held."""
    count, program = 0, None
    for sizes in case.sizes:
        feeds = case.feeds(sizes)
        try:
            wanted = evaluate(kernels_of(case.at(sizes), folder / "numbers.onnx"), feeds)
        except IronworksError:  # a constant does not fit these sizes, or there is no place left
            continue
        if program is None:
            program = kernels_of(case.symbolic, folder / "symbols.onnx")
        problem = difference(wanted, evaluate(program, feeds), TOLERANCE)
        assert not problem, f"{dict(sizes)}: {problem}"
        count += 1
    return count


@pytest.mark.parametrize("part", range(4))
def test_one_operator_gives_over_symbols_what_it_gives_over_numbers(
    part: int, tmp_path: Path
) -> None:
    every = [symbolic.cases.of(seed) for seed in range(part, SEEDS, 4)]
    assert sum(means_the_same(case, tmp_path) for case in every) > SEEDS / 4


def one(op: str, dims: Sequence[Any], weights: Sequence[np.ndarray] = (), **attrs: Any) -> Any:
    """Return a model of one operator of `x` and of constants."""
    constants = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    outputs = ["y", "places"] if op == "TopK" else ["y"]
    node = helper.make_node(op, ["x", *(c.name for c in constants)], outputs, **attrs)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    graph = helper.make_graph([node], op, [x], [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def runs_like_the_oracle(model: onnx.ModelProto, shapes: Sequence[Any], folder: Path) -> None:
    """Machine code gives what onnxruntime does, and a check of every step finds nothing."""
    onnx.save(model, folder / "model.onnx")
    compiled = explorer.compile(folder / "model.onnx", check=True)
    assert not [s.checked for s in compiled.snapshots if isinstance(s.checked, str)]
    for shape in shapes:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (right,) = oracle(model, {"x": x})
        agree(compiled.run({"x": x})["y"], right, 1e-5, f"{shape}")


SAME = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}
CEIL = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
IMAGES = [(1, 2, 5, 5), (2, 2, 6, 7), (1, 2, 3, 8)]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("form", [SAME, CEIL], ids=["same_lower", "ceil_mode"])
def test_a_pool_of_symbolic_extents_has_the_windows_of_numbers(
    op: str, form: dict[str, Any], tmp_path: Path
) -> None:
    runs_like_the_oracle(one(op, IMAGE, **form), IMAGES, tmp_path)


def test_an_average_of_dilated_windows_counts_their_elements(tmp_path: Path) -> None:
    form = {**CEIL, "dilations": [2, 1], "count_include_pad": 1}
    runs_like_the_oracle(one("AveragePool", IMAGE, **form), IMAGES, tmp_path)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "NOTSET"])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_transposed_convolution_fills_a_shape_that_is_given(
    mode: str, stride: int, tmp_path: Path
) -> None:
    weight = np.random.default_rng(1).standard_normal((2, 3, 3, 2)).astype(np.float32)
    shape, form = [4 * stride, 3 * stride + 1], {"strides": [stride] * 2, "auto_pad": mode}
    model = one("ConvTranspose", IMAGE, [weight], output_shape=shape, **form)
    runs_like_the_oracle(model, [(1, 2, 5, 5), (2, 2, 4, 6)], tmp_path)


@pytest.mark.parametrize("rows", [33, "m"])
def test_each_row_has_a_zero_point_of_its_own(rows: int | str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((33, 7), (7, 5)))
    zero = rng.integers(0, 99, 33).astype(np.uint8)
    constants = [numpy_helper.from_array(v, n) for v, n in ((b, "b"), (zero, "z"))]
    node = helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"])
    given = helper.make_tensor_value_info("a", TensorProto.UINT8, [rows, 7])
    result = [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([node], "g", [given], result, constants)
    program = kernels_of(helper.make_model(graph, ir_version=9), tmp_path / "model.onnx")
    wanted = (a.astype(np.int32) - zero[:, None]) @ b.astype(np.int32)
    np.testing.assert_array_equal(evaluate(program, {"a": a})["y"], wanted)


def test_the_axes_of_a_reduction_are_kept_where_a_branch_decides_the_rank(tmp_path: Path) -> None:
    value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=None)
    sides = [
        helper.make_graph([node], node.op_type, [], [value(node.output[0])])
        for node in (
            helper.make_node("Squeeze", ["x", "zero"], ["s"]),
            helper.make_node("Identity", ["x"], ["i"]),
        )
    ]
    branch = helper.make_node("If", ["c"], ["v"], then_branch=sides[0], else_branch=sides[1])
    mean = helper.make_node("ReduceMean", ["v"], ["y"], axes=[-1])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    constants = [numpy_helper.from_array(np.array([0]), "zero")]
    graph = helper.make_graph([branch, mean], "g", inputs, [value("y")], constants)
    opset = [helper.make_opsetid("", 16)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    program = kernels_of(model, tmp_path / "model.onnx")
    x = np.arange(4, dtype=np.float32)[None]
    for c, shape in ((True, (1,)), (False, (1, 1))):
        found = evaluate(program, {"x": x, "c": np.array(c)})["y"]
        assert found.shape == shape and found.item() == 1.5


def test_the_largest_of_fewer_elements_are_refused(tmp_path: Path) -> None:
    program = kernels_of(one("TopK", ["n", "p"], [np.array([3])]), tmp_path / "top.onnx")
    (y,) = program.main.outputs
    assert str(y.tensor.dims[1]) == "3"
    assert evaluate(program, {"x": np.ones((2, 4), np.float32)})["y"].shape == (2, 3)
    with pytest.raises(ShapeError, match="must be max"):
        evaluate(program, {"x": np.ones((2, 2), np.float32)})


def test_a_squeeze_of_all_ones_has_the_rank_that_the_run_gives_it(tmp_path: Path) -> None:
    runs_like_the_oracle(one("Squeeze", ["n", 1, 3]), [(4, 1, 3), (1, 1, 3)], tmp_path)


def test_a_squeeze_of_dims_that_are_never_one_has_kernels(tmp_path: Path) -> None:
    onnx.save(one("Squeeze", ["n", 1, 3]), tmp_path / "model.onnx")
    model = load(tmp_path / "model.onnx", bounds={"n": (2, 9)})
    assert not legalize(deduce(model.program)).library_calls


@pytest.mark.parametrize("scale", [1.7, 0.6, 2.3])
def test_aligned_corners_are_those_of_the_resized_tensor(scale: float, tmp_path: Path) -> None:
    form = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    scales = np.array([1, 1, 1, scale], np.float32)
    model = one("Resize", [1, 1, 1, 4], [np.array([], np.float32), scales], **form)
    runs_like_the_oracle(model, [(1, 1, 1, 4)], tmp_path)


def test_a_pad_of_an_unknown_mode_is_refused_before_it_runs(tmp_path: Path) -> None:
    onnx.save(one("Pad", ["n", 3], [np.array([0, 1, 0, 1])], mode="nosuch"), tmp_path / "p.onnx")
    with pytest.raises(ShapeError, match="mode must be one of constant, edge, reflect, wrap"):
        explorer.compile(tmp_path / "p.onnx", until="typed")


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_a_pad_that_repeats_elements_is_refused_where_there_are_none(
    mode: str, tmp_path: Path
) -> None:
    pads = np.array([1, 0, 1, 0])
    program = kernels_of(one("Pad", ["n", 3], [pads], mode=mode), tmp_path / "pad.onnx")
    assert evaluate(program, {"x": np.ones((2, 3), np.float32)})["y"].shape == (4, 3)
    with pytest.raises(ShapeError, match="nothing in dim 0"):
        evaluate(program, {"x": np.ones((0, 3), np.float32)})


@pytest.mark.parametrize("form", [("asymmetric", "floor"), ("half_pixel", "round_prefer_floor")])
def test_whole_scales_of_the_nearest_place_repeat_what_is_there(
    form: tuple[str, str], tmp_path: Path
) -> None:
    names = ("coordinate_transformation_mode", "nearest_mode")
    attrs = {"mode": "nearest", **dict(zip(names, form, strict=True))}
    scales = [np.array([], np.float32), np.array([1, 1, 2, 3], np.float32)]
    made = one("Resize", ["n", 2, "h", "w"], scales, **attrs)
    runs_like_the_oracle(made, [(1, 2, 3, 4), (2, 2, 1, 1)], tmp_path)
    onnx.save(made, tmp_path / "typed.onnx")
    typed = deduce(load(tmp_path / "typed.onnx").program)
    assert typed.main.outputs[0].tensor.dims[2:] == (2 * symbol("h"), 3 * symbol("w"))


def test_places_that_are_counted_along_a_dim_are_as_many_as_it_has(tmp_path: Path) -> None:
    """Frames of a window, whose number of a symbol alone could be negative, and its mask."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["frames"], strides=[3]),
        helper.make_node("Reshape", ["frames", "shape"], ["parts"]),
        helper.make_node("Shape", ["parts"], ["count"], start=3),
        helper.make_node("Squeeze", ["count"], ["n"]),
        helper.make_node("Range", ["zero", "n", "one"], ["places"]),
        helper.make_node("Less", ["places", "limit"], ["mask"]),
        helper.make_node("Where", ["mask", "parts", "nothing"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["r", 1, "q"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = {
        "w": np.arange(40, dtype=np.float32).reshape(4, 1, 10),
        "shape": np.array([0, 2, 2, -1]),
        **{name: np.array(n) for name, n in (("zero", 0), ("one", 1), ("limit", 2))},
        "nothing": np.array(0, np.float32),
    }
    known = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    program = kernels_of(model, tmp_path / "frames.onnx")
    assert not program.library_calls
    assert str(program.main.outputs[0].tensor.dims[3]) == "floor(q/3 - 10/3) + 1"
    for rows, length in ((1, 10), (2, 25), (0, 30), (1, 8)):
        given = np.random.default_rng(0).random((rows, 1, length), np.float32)
        count = (length - 10) // 3 + 1
        frames = np.array([given[:, 0, 3 * f : 3 * f + 10] for f in range(count)])
        products = frames.reshape(count, rows, 10) @ constants["w"][:, 0].T
        right = products.transpose(1, 2, 0).reshape(rows, 2, 2, count)
        right[..., 2:] = 0
        np.testing.assert_allclose(evaluate(program, {"x": given})["y"], right, rtol=1e-5)


def two(op: str, shapes: Sequence[Any], dtype: int, **attrs: Any) -> Any:
    """Return a model of one operator of two inputs."""
    inputs = [helper.make_tensor_value_info(n, dtype, s) for n, s in zip("ab", shapes)]
    node = helper.make_node(op, ["a", "b"], ["y"], **attrs)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("rows", [(5, 2), ("n", "m")])
def test_each_image_has_a_grid_of_its_own(rows: tuple[Any, Any], tmp_path: Path) -> None:
    shapes = (rows[0], 1, 2, 4), (rows[1], 3, 2, 2)
    feeds = {"a": np.ones((5, 1, 2, 4), np.float32), "b": np.zeros((2, 3, 2, 2), np.float32)}
    with pytest.raises(ShapeError, match=r"5 images and 2 grids|must be m = 2 and is 5"):
        evaluate(kernels_of(two("GridSample", shapes, TensorProto.FLOAT), tmp_path / "m"), feeds)


def test_places_are_reflected_at_an_image_of_one_element(tmp_path: Path) -> None:
    attrs = {"align_corners": 1, "padding_mode": "reflection"}
    shapes = ("n", 1, 2, "p"), ("n", 3, 2, 2)
    program = kernels_of(two("GridSample", shapes, TensorProto.FLOAT, **attrs), tmp_path / "m")
    feeds = {"a": np.ones((1, 1, 2, 1), np.float32), "b": np.full((1, 3, 2, 2), 0.3, np.float32)}
    np.testing.assert_allclose(evaluate(program, feeds)["y"], 1, rtol=1e-6)


def test_channels_are_as_many_as_weights_take(tmp_path: Path) -> None:
    weight = np.ones((1, 2, 1, 1), np.float32)
    model = one("DeformConv", ["n", "c", 3, 3], [weight, np.zeros((1, 2, 3, 3), np.float32)])
    model.opset_import[0].version = 19
    program = kernels_of(model, tmp_path / "model.onnx")
    assert evaluate(program, {"x": np.ones((1, 2, 3, 3), np.float32)})["y"].shape == (1, 1, 3, 3)
    with pytest.raises(ShapeError, match="must be 2 and is 3"):
        evaluate(program, {"x": np.ones((1, 3, 3, 3), np.float32)})


def test_an_index_below_an_axis_is_refused(tmp_path: Path) -> None:
    model = one("GatherElements", ["n"], [np.array([-3, 1])])
    program = load_imported(model, tmp_path / "model.onnx")
    assert evaluate(program, {"x": np.arange(3, dtype=np.float32)})["y"].tolist() == [0, 1]
    with pytest.raises(ShapeError, match="index -3 is out of bounds for an axis of 2"):
        evaluate(program, {"x": np.arange(2, dtype=np.float32)})


def load_imported(model: onnx.ModelProto, path: Path) -> Program:
    """Return the operators of a model as they stand in it."""
    onnx.save(model, path)
    return load(path).program


def test_a_resize_of_half_floats_to_given_sizes_stays_one(tmp_path: Path) -> None:
    model = one("Resize", ["n", "p"], [np.array([], np.float32)] * 2 + [np.array([5, 4])])
    model.graph.node[0].attribute.append(helper.make_attribute("mode", "linear"))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    program = deduce(load_imported(model, tmp_path / "model.onnx"))
    y = evaluate(program, {"x": np.ones((3, 2), np.float16)})["y"]
    assert (y.dtype, y.shape) == (np.float16, (5, 4))


def test_a_signal_shorter_than_a_frame_has_no_frames(tmp_path: Path) -> None:
    model = one("STFT", ["n", "p", "q"], [np.array(3), np.hanning(5).astype(np.float32)])
    program = kernels_of(model, tmp_path / "model.onnx")
    assert evaluate(program, {"x": np.ones((2, 4, 1), np.float32)})["y"].shape == (2, 0, 3, 2)
    assert evaluate(program, {"x": np.ones((2, 8, 1), np.float32)})["y"].shape == (2, 2, 3, 2)


@pytest.mark.parametrize("padding", [{}, {"pads": [2, 2]}])
def test_a_window_that_does_not_fit_is_told_before_it_is_filled(
    padding: dict[str, Any], tmp_path: Path
) -> None:
    op = "ConvTranspose" if padding else "Conv"
    model = one(op, ["n", 1, "p"], [np.ones((1, 1, 3), np.float32)], **padding)
    program = kernels_of(model, tmp_path / "model.onnx")
    with pytest.raises(ShapeError, match=r"would have the extents \[2, 1, -1\] for n = 2, p = 1"):
        evaluate(program, {"x": np.ones((2, 1, 1), np.float32)})


def test_a_check_tries_sizes_that_the_operators_take(tmp_path: Path) -> None:
    """A sum stretches a symbol of 1 where a file is read, and no more where its extent is known."""
    w = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "p"])
    nodes = [
        helper.make_node("Add", ["x", "w"], ["s"]),
        helper.make_node("MatMul", ["s", "t"], ["y"]),
    ]
    t = numpy_helper.from_array(np.ones((4, 2), np.float32), "t")
    graph = helper.make_graph(nodes, "g", [x], [onnx.ValueInfoProto(name="y")], [w, t])
    opset = [helper.make_opsetid("", 19)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    snapshots = explorer.compile(tmp_path / "m.onnx", until="legalized", check=True).snapshots
    assert {s.checked for s in snapshots} <= {True, None} and snapshots[0].checked


def test_heads_of_rows_whose_lengths_are_symbols_have_hints(tmp_path: Path) -> None:
    """A part of a symbol, a divisor, is 0 where its hint is halved too often."""
    made = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"q{3 * i + d}" for d in range(3)])
        for i, name in enumerate(("q", "k", "v"))
    ]
    heads = {"q_num_heads": 6, "kv_num_heads": 3}
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], **heads)
    graph = helper.make_graph([node], "g", made, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    program = kernels_of(model, tmp_path / "heads.onnx")
    shapes = {"q": (3, 1, 24), "k": (3, 4, 12), "v": (3, 4, 3)}
    feeds = {n: np.random.default_rng(0).random(s, np.float32) for n, s in shapes.items()}
    assert evaluate(program, feeds)["y"].shape == (3, 1, 6)
