"""Dead code, common subexpressions, constants, and batch norms behind convolutions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from explorer.frontends.load import load
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from explorer.transforms.simplify.fold_batch_norm import Linear, fold_batch_norm
from explorer.transforms.simplify.fold_constants import fold_constants
from explorer.transforms.simplify.redundancy import remove_dead_code, share_common_subexpressions
from tests.transforms.programs import LIGHT, keeps_values, kernels, legalized, weights
from tests.tuning.models import written

node = helper.make_node


def test_what_nothing_reads_goes_and_its_reason_stays(tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["unused"], name="exp"), node("Relu", ["x"], ["y"], name="relu")]
    before = legalized(tmp_path, nodes, {"x": (3,)}, ["y"])
    after = keeps_values(remove_dead_code, before)
    assert kernels(after) == ["relu"]
    assert dict(after.dropped)["exp"] == "nothing reads it"


def test_equal_expressions_are_computed_once(tmp_path: Path) -> None:
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("Exp", ["x"], ["b"]),
        node("Add", ["a", "c1"], ["d"]),
        node("Add", ["b", "c2"], ["e"]),
        node("Mul", ["d", "e"], ["y"]),
    ]
    constants = {"c1": weights(3), "c2": weights(3)}
    before = legalized(tmp_path, nodes, {"x": (3,)}, ["y"], constants)
    after = keeps_values(share_common_subexpressions, before)
    assert kernels(after) == ["exp", "add", "mul"]
    assert sum(len(b.origin) for b in after.main.body) == 5


def test_outputs_that_are_equal_are_both_given(tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["a"]), node("Exp", ["x"], ["b"])]
    before = legalized(tmp_path, nodes, {"x": (3,)}, ["a", "b"])
    keeps_values(share_common_subexpressions, before)


def test_constants_are_computed_when_compiling(tmp_path: Path) -> None:
    nodes = [
        node("Exp", ["c"], ["a"], name="exp"),
        node("Transpose", ["a"], ["b"], name="transpose"),
        node("MatMul", ["x", "b"], ["y"]),
    ]
    before = legalized(tmp_path, nodes, {"x": (2, 4)}, ["y"], {"c": weights(3, 4)})
    after = keeps_values(fold_constants, before)
    assert kernels(after) == ["matmul"]
    assert {"exp", "transpose"} <= dict(after.dropped).keys()


def test_a_constant_that_would_grow_is_left_to_the_run(tmp_path: Path) -> None:
    shape = np.array([4096, 512], np.int64)
    nodes = [node("Expand", ["c", "shape"], ["a"]), node("Add", ["x", "a"], ["y"])]
    before = legalized(
        tmp_path, nodes, {"x": (4096, 512)}, ["y"], {"c": weights(512), "shape": shape}
    )
    assert kernels(fold_constants(before)) == kernels(before)


@pytest.mark.parametrize(("last", "folds"), [("Sin", True), ("Abs", False)])
def test_what_takes_long_is_computed_when_compiling_though_it_grows(
    last: str, folds: bool, tmp_path: Path
) -> None:
    """A filter bank of a resampler: a row and a column become a sine of their sums."""
    nodes = [
        node("Add", ["row", "column"], ["t"]),
        node(last, ["t"], ["w"]),
        node("Neg", ["w"], ["u"]),
        node("MatMul", ["x", "u"], ["y"]),
    ]
    constants = {"row": weights(640), "column": weights(640, 1)}
    before = deduce(written(tmp_path, nodes, {"x": (2, 640)}, ["y"], constants).program)
    after = keeps_values(fold_constants, before)
    assert [b.op_call.op for b in after.main.body][-1] == "MatMul"
    assert (len(after.main.body) == 1) is folds


@pytest.mark.parametrize(
    ("kept", "shape", "folds"),
    [
        (np.float16, (1024, 1024), True),  # 2 MiB become 4
        (np.int8, (1024, 1024), False),  # 1 MiB become 4: what is quantised stays so
        (np.float32, (1024, 1024), True),
    ],
)
def test_large_weights_of_16_bits_are_cast_when_compiling(
    kept: type, shape: tuple[int, int], folds: bool, tmp_path: Path
) -> None:
    nodes = [node("Cast", ["c"], ["w"], to=1), node("MatMul", ["x", "w"], ["y"])]
    before = legalized(tmp_path, nodes, {"x": (2, 1024)}, ["y"], {"c": np.ones(shape, kept)})
    assert (kernels(fold_constants(before)) == ["matmul"]) is folds


def norm(x: str, y: str, n: int, constants: dict[str, np.ndarray]) -> object:
    names = [f"{y}_{part}" for part in ("scale", "bias", "mean", "variance")]
    for i, name in enumerate(names):
        constants[name] = weights(n, seed=i + 7)
    constants[names[3]] = np.abs(constants[names[3]]) + 0.5
    return node("BatchNormalization", [x, *names], [y])


def test_a_batch_norm_and_a_scale_become_weights(tmp_path: Path) -> None:
    constants = {
        "w": weights(6, 3, 3, 3), "b": weights(6), "s": weights(6), "t": weights(6, 1, 1),
        "axes": np.array([1, 2], np.int64),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w", "b"], ["a"], name="conv"),
        norm("a", "n", 6, constants),
        node("Unsqueeze", ["s", "axes"], ["s1"]),
        node("Mul", ["n", "s1"], ["m"], name="scale"),
        node("Add", ["m", "t"], ["q"], name="shift"),
        node("Relu", ["q"], ["y"]),
    ]
    before = fold_constants(legalized(tmp_path, nodes, {"x": ("n", 3, 8, 8)}, ["y"], constants))
    after = keeps_values(fold_batch_norm, before)
    assert kernels(after) == ["conv", "relu"]
    assert {"conv", "scale", "shift"} <= after.main.body[0].origin


def test_grouped_and_depthwise_convolutions_take_norms_in(tmp_path: Path) -> None:
    for groups, channels in ((2, 4), (4, 4), (2, 6)):
        constants = {"w": weights(channels, 4 // groups, 3, 3)}
        nodes = [node("Conv", ["x", "w"], ["a"], group=groups), norm("a", "y", channels, constants)]
        before = legalized(tmp_path, nodes, {"x": (2, 4, 5, 5)}, ["y"], constants)
        assert kernels(keeps_values(fold_batch_norm, before)) == ["conv"]


def test_matrix_products_take_scales_in(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Mul", ["s", "a"], ["b"]),
             node("Sub", ["b", "t"], ["y"])]  # fmt: skip
    constants = {"w": weights(4, 5), "s": weights(5), "t": weights(5, seed=1)}
    before = legalized(tmp_path, nodes, {"x": ("n", 4)}, ["y"], constants)
    assert kernels(keeps_values(fold_batch_norm, before)) == ["matmul"]


def test_a_norm_whose_input_others_read_stays(tmp_path: Path) -> None:
    constants = {"w": weights(4, 4, 1, 1)}
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        norm("a", "n", 4, constants),
        node("Add", ["a", "n"], ["y"]),
    ]
    before = legalized(tmp_path, nodes, {"x": (1, 4, 5, 5)}, ["y"], constants)
    assert kernels(fold_batch_norm(before)) == kernels(before)


def test_a_scale_by_data_is_not_folded(tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Mul", ["a", "s"], ["y"])]
    before = legalized(
        tmp_path, nodes, {"x": (1, 4, 5, 5), "s": (1, 4, 1, 1)}, ["y"], {"w": weights(4, 4, 1, 1)}
    )
    assert kernels(fold_batch_norm(before)) == ["conv", "mul"]


def test_resnet_has_no_batch_norm_left() -> None:
    program = legalize(deduce(load(str(LIGHT / "light_resnet50.onnx")).program))
    after = remove_dead_code(fold_batch_norm(fold_constants(program)))
    verify(after)
    assert kernels(program).count("batch_norm") == 53
    assert kernels(after).count("batch_norm") == 0


def test_forms_follow_one_another() -> None:
    assert Linear(2.0, 1.0).then(Linear(3.0, 5.0)) == Linear(6.0, 8.0)


def test_integers_are_shared_only_with_integers(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["a"], to=TensorProto.INT64), node("Add", ["a", "c"], ["y"])]
    before = legalized(
        tmp_path, nodes, {"x": (3,)}, ["y"], {"c": np.array([1, 2, 3], np.int64)},
        {"y": TensorProto.INT64},
    )  # fmt: skip
    keeps_values(share_common_subexpressions, before)
