"""Channels lie last after the layout pass, at the border nothing changes, and no value does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import explorer
import explorer.np as enp
from explorer.frontends.load import load
from explorer.ir.affine import var
from explorer.ir.calls import KernelCall, MatchCast
from explorer.ir.dims import evaluate_shape
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import Program
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate, evaluate_kernel
from explorer.relax import deduce, legalize
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.copies.index_maps import copy_map
from explorer.transforms.layout import ChooseLayout
from explorer.transforms.memory_order import Order, permute
from tests.examples import examples
from tests.transforms.programs import LIGHT, Shape, keeps_values, kernels, legalized, views, weights

node = helper.make_node


def block(tmp_path: Path, shape: Shape = ("n", 4, 8, 8)) -> Program:
    """conv, relu, depthwise conv, pool, concat, 1x1 conv of two groups, mean, flatten, gemm."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"]),
        node("Conv", ["r", "w2"], ["d"], group=8, pads=[1, 1, 1, 1]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Concat", ["d", "p"], ["c"], axis=1),
        node("Conv", ["c", "w3"], ["e"], group=2, strides=[2, 2]),
        node("AveragePool", ["e"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["m"], ["f"]),
        node("Gemm", ["f", "w4"], ["y"], transB=1),
    ]
    constants = {
        "w1": weights(8, 4, 3, 3), "b1": weights(8), "w2": weights(8, 1, 3, 3, seed=1),
        "w3": weights(6, 8, 1, 1, seed=2), "w4": weights(5, 24, seed=3),
    }  # fmt: skip
    return legalized(tmp_path, nodes, {"x": shape}, ["y"], constants)


def kernel_of(program: Program, name: str, place: int = 0) -> Kernel:
    found = [b.expr.kernel for b in program.main.body if isinstance(b.expr, KernelCall)]
    return [k for k in found if k.name == name][place]


@pytest.mark.parametrize("shape", [(2, 4, 8, 8), ("n", 4, 8, 8)])
def test_channels_lie_last_in_every_kernel(tmp_path: Path, shape: Shape) -> None:
    after = keeps_values(ChooseLayout(), block(tmp_path, shape))
    n = after.main.params[0].type
    assert isinstance(n, Tensor)
    for binding in after.main.body[:-1]:
        assert isinstance(binding.var.type, Tensor) and binding.var.type.dims[0] == n.dims[0]
    assert kernel_of(after, "conv").shape("y")[1:] == (8, 8, 8)
    assert kernel_of(after, "concat").shape("y")[1:] == (8, 8, 16)
    assert kernel_of(after, "max_pool").shape("x")[1:] == (8, 8, 8)


def test_convolutions_are_contractions_only_when_channels_lie_last(tmp_path: Path) -> None:
    before = block(tmp_path)
    after = ChooseLayout()(before)
    assert contraction(kernel_of(before, "conv").computes[0]) is None
    for place in (0, 2):
        assert contraction(kernel_of(after, "conv", place).computes[0]) is not None


def test_depthwise_weights_move_and_packed_weights_stay(tmp_path: Path) -> None:
    after = ChooseLayout()(block(tmp_path))
    assert kernel_of(after, "conv", 0).shape("weight") == (8, 4, 3, 3)
    assert kernel_of(after, "conv", 1).shape("weight")[-1] == 8


def test_a_flattened_image_is_summed_where_it_lies(tmp_path: Path) -> None:
    after = ChooseLayout()(block(tmp_path))
    assert views(after) == 0
    assert len(kernel_of(after, "gemm").computes[0].reduce) == 3


def test_an_image_of_few_channels_is_read_where_it_lies(tmp_path: Path) -> None:
    assert kernels(ChooseLayout()(block(tmp_path))).count("transpose") == 0


def test_an_image_of_many_channels_is_copied_once_at_the_border(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Conv", ["a", "w2"], ["b"]),
        node("GlobalAveragePool", ["b"], ["y"]),
    ]
    constants = {"w1": weights(16, 16, 3, 3), "w2": weights(4, 16, 3, 3, seed=1)}
    before = legalized(tmp_path, nodes, {"x": (1, 16, 6, 6)}, ["y"], constants)
    assert kernels(keeps_values(ChooseLayout(), before)).count("transpose") == 1


def test_an_output_keeps_its_layout(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["y"]), node("Relu", ["y"], ["z"])]
    before = legalized(tmp_path, nodes, {"x": (1, 3, 6, 6)}, ["y", "z"], {"w": weights(4, 3, 3, 3)})
    after = keeps_values(ChooseLayout(), before)
    assert kernels(after) == ["conv", "transpose", "relu", "transpose"]


@pytest.mark.parametrize("group", [1, 8])
def test_windows_between_transposes_are_walked_as_their_results_lie(
    tmp_path: Path, group: int
) -> None:
    nodes = [
        node("Transpose", ["x"], ["f"], perm=[0, 3, 1, 2]),
        node("Conv", ["f", "w", "b"], ["c"], pads=[1, 1, 1, 1], group=group),
        node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2]),
        node("Transpose", ["m"], ["y"], perm=[0, 2, 3, 1]),
    ]
    constants = {"w": weights(8, 8 // group, 3, 3), "b": weights(8)}
    before = fold_copies(legalized(tmp_path, nodes, {"x": (1, 6, 7, 8)}, ["y"], constants))
    after = keeps_values(ChooseLayout(), before)
    for name in ("conv", "max_pool"):
        for c in kernel_of(after, name).computes:
            assert c.axes[-1].extent == 8 and c.target[-1] == var(c.axes[-1].name)


def test_an_output_of_one_pixel_needs_no_copy(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("GlobalAveragePool", ["a"], ["y"])]
    before = legalized(tmp_path, nodes, {"x": (1, 3, 6, 6)}, ["y"], {"w": weights(4, 3, 3, 3)})
    after = keeps_values(ChooseLayout(), before)
    assert views(after) == 1 and kernels(after).count("transpose") == 0


def test_a_program_without_convolution_is_left_alone(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])]
    before = legalized(tmp_path, nodes, {"x": (2, 3, 4, 5)}, ["y"], {"w": weights(5, 6)})
    assert ChooseLayout()(before).functions == before.functions


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1"])
def test_light_models_have_no_copy(name: str) -> None:
    program = legalize(deduce(load(str(LIGHT / f"light_{name}.onnx")).program))
    assert kernels(ChooseLayout()(fold_copies(program))).count("transpose") == 0


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_a_permuted_kernel_computes_the_permuted_result(x: list[int], y: list[int]) -> None:
    from explorer.ir.affine import var
    from explorer.ir.kernel import Axis, Compute, Read, TensorSpec, apply

    axes = tuple(Axis(n, e) for n, e in zip("nchw", (2, 3, 5, 4), strict=True))
    window = Read("x", (var("n"), var("c"), var("h") + var("k") - 1, var("w")), 0.0)
    computes = (
        Compute("t", axes, window, (Axis("k", 3),), "sum"),
        Compute("y", axes, apply("mul", Read("t", tuple(var(a.name) for a in axes)), 2.0)),
    )
    shape = (2, 3, 5, 4)
    specs = tuple(TensorSpec(n, shape) for n in ("x", "t", "y"))
    before = Kernel("k", specs, computes, ("x",), ("y",))
    orders: dict[str, Order] = {"x": tuple(x), "y": tuple(y)}
    after, moved = permute(before, orders, before.constants)
    data = weights(*shape)
    assert not moved
    assert after.computes[-1].axes == tuple(axes[d] for d in y)
    wanted = evaluate_kernel(before, [data], {}).transpose(y)
    np.testing.assert_array_equal(evaluate_kernel(after, [data.transpose(x)], {}), wanted)
    assert evaluate_shape(after.shape("y"), {}) == wanted.shape


def normed(tmp_path: Path, shape: Shape = ("n", 5, 3, 40)) -> Program:
    """conv, layer norm over the channels, conv; then attention among channels, and a projection:
    all of it by reshapes and transposes of images, as exporters write it.
    """
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Reshape", ["a", "flat"], ["f"]),
        node("Transpose", ["f"], ["t"], perm=[0, 2, 1]),
        node("LayerNormalization", ["t", "scale", "bias"], ["l"]),
        node("Transpose", ["l"], ["u"], perm=[0, 2, 1]),
        node("Reshape", ["u", "image"], ["i"]),
        node("Conv", ["i", "w2"], ["q"], pads=[1, 1, 1, 1]),
        node("Reshape", ["q", "heads"], ["h"]),
        node("Transpose", ["h"], ["ht"], perm=[0, 1, 3, 2]),
        node("MatMul", ["h", "ht"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "h"], ["v"]),
        node("Reshape", ["v", "image"], ["vi"]),
        node("Conv", ["vi", "w3"], ["y"]),
    ]
    constants = {
        "w1": weights(8, 5, 3, 3), "w2": weights(8, 8, 3, 3, seed=1), "w3": weights(3, 8, 1, 1),
        "scale": weights(8, seed=2), "bias": weights(8, seed=3),
        "flat": np.array([0, 8, -1]), "image": np.array([0, 8, 3, 40]),
        "heads": np.array([0, 2, 4, -1]),
    }  # fmt: skip
    return legalized(tmp_path, nodes, {"x": shape}, ["y"], constants)


def moves_only(program: Program) -> list[str]:
    """The kernels that compute nothing."""
    found = [b for b in program.main.body if isinstance(b.expr, KernelCall)]
    return [b.var.name for b in found if copy_map(b) is not None]


@pytest.mark.parametrize("shape", [(2, 5, 3, 40), ("n", 5, 3, 40)])
def test_pixels_that_are_rows_for_a_while_stay_pixels(tmp_path: Path, shape: Shape) -> None:
    before = fold_copies(normed(tmp_path, shape))
    after = fold_copies(keeps_values(ChooseLayout(), before))
    assert moves_only(after) == []
    calls = [b.expr for b in after.main.body if isinstance(b.expr, KernelCall)]
    images = [
        e.kernel for e in calls if len(e.kernel.computes) == 3 and e.kernel.computes[1].reduce
    ]
    assert [k.shape(k.output)[1:] for k in images] == [(3, 40, 8)]


def test_a_program_in_order_stays_what_it_was() -> None:
    """Heads of attention are parts of rows, which look like windows: nothing of them moves."""
    c = explorer.compile("zoo:small_bert", until="legalized")
    step = c.snapshot("put channels last")
    assert step.after.functions == step.before.functions


def test_what_a_match_cast_says_of_an_image_changes_no_order(tmp_path: Path) -> None:
    """The sides of an image and of one that is enlarged again are equal where the run says so."""
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("MaxPool", ["a"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["half", "", "scales"], ["large"]),
        node("Concat", ["large", "a"], ["c"], axis=1),
        node("Conv", ["c", "w2"], ["y"]),
    ]
    constants = {
        "w1": weights(8, 4, 3, 3),
        "w2": weights(8, 16, 1, 1, seed=1),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    shape = ("n", 4, "h", "w")
    before = legalized(tmp_path, nodes, {"x": shape}, ["y"], constants)
    after = ChooseLayout()(before)
    casts = [b for b in after.main.body if isinstance(b.expr, MatchCast)]
    assert casts and all(b.var.tensor.dims[-1] == 8 for b in casts)
    copies = [b for b in after.main.body if isinstance(b.expr, KernelCall)]
    assert sum(b.expr.kernel.name == "transpose" for b in copies) == 1  # of what it gives
    for sides in ((4, 6), (2, 2)):
        x = weights(2, 4, *sides, seed=2)
        (wanted,), (found,) = (evaluate(p, {"x": x}).values() for p in (before, after))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def traced(images: tuple[int, ...], weights: tuple[int, ...], learn: bool, **window: Any) -> Any:
    """Two convolutions with a Relu between, or the gradients of their sum by weights and image."""

    def model(x: Any, w: Any, v: Any) -> Any:
        return enp.conv(enp.relu(enp.conv(x, w, **window)), v)

    def loss(x: Any, w: Any, v: Any) -> Any:
        y = model(x, w, v)
        return (y * y).sum()

    used = explorer.grad(loss, argnums=(0, 1, 2)) if learn else model
    one = (weights[0], weights[0], 1, 1)
    kinds = [explorer.tensor("float32", *shape) for shape in (images, weights, one)]
    return explorer.trace(used)(*kinds)


@pytest.mark.few(1)
@pytest.mark.parametrize("learn", [False, True])
def test_what_is_multiplied_is_dense_in_channels_and_inputs_stay_as_they_are(learn: bool) -> None:
    model = traced((2, 16, 9, 9), (32, 16, 3, 3), learn, strides=2, padding=1)
    c = explorer.compile(model, check=True)
    laid = c.snapshot("put channels last").after.main
    assert [p.tensor.dims for p in laid.params] == [
        p.tensor.dims for p in model.program.main.params
    ]
    found = 0
    for b in laid.body:
        if isinstance(b.expr, KernelCall) and b.expr.kernel.name in ("conv", "d_x", "d_weight"):
            for compute in b.expr.kernel.computes:
                found += 1
                column = compute.axes[-1].name
                assert compute.target[-1].bare == column, b.name
    assert found == (10 if learn else 2)


@given(st.data())
@settings(max_examples=examples(15, few=2), deadline=None)
def test_random_windows_equal_the_interpreter(data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 1, 2, 3]), "groups")
    each, made = (data.draw(st.integers(1, 5), n) for n in ("channels", "made"))
    height, width = (data.draw(st.integers(3, 8), n) for n in ("height", "width"))
    kernel = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)), "kernel")
    window = {
        "strides": data.draw(st.integers(1, 3), "strides"),
        "padding": data.draw(st.integers(0, 2), "padding"),
        "groups": groups,
    }
    images = (data.draw(st.integers(1, 3), "batch"), each * groups, height, width)
    weights = (made * groups, each, *kernel)
    learn = data.draw(st.booleans(), "learn")
    model = traced(images, weights, learn, **window)
    c = explorer.compile(model, check=True)
    inputs = c.random_inputs()
    right = evaluate(model.program, inputs)
    for name, got in c.run(inputs).items():
        scale = float(np.abs(right[name]).max(initial=1.0))
        np.testing.assert_allclose(got / scale, right[name] / scale, atol=2e-5, err_msg=name)


def test_heads_beside_channels_are_no_window() -> None:
    """Keys are read at `head * 16 + k` in a product of values: nothing of it slides."""
    c = explorer.compile("zoo:small_conformer", until="legalized")
    laid = c.snapshot("put channels last").after.main
    products = [
        b for b in laid.body if isinstance(b.expr, KernelCall) and b.expr.kernel.name == "matmul"
    ]
    assert products
    assert not [b.name for b in products if b.name.endswith("channels_last")]
