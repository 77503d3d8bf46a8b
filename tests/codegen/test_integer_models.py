"""Products of small integers with zero points, against exact sums and onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer import tensor

CODES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
RNG = np.random.default_rng(3)


def drawn(dtype: str, *shape: int) -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return RNG.integers(low, high, shape).astype(dtype)


def model(
    op: str, inputs: dict[str, tuple[str, list[Any]]], given: dict[str, Any], **attrs: Any
) -> Any:
    names = [n for n in ("a", "b", "za", "zb") if n in inputs or n in given]
    node = helper.make_node(op, names, ["y"], **attrs)
    values = [helper.make_tensor_value_info(n, CODES[t], s) for n, (t, s) in inputs.items()]
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in given.items()]
    y = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    graph = helper.make_graph([node], "g", values, [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run(proto: Any, values: dict[str, np.ndarray], path: Path) -> np.ndarray:
    onnx.save(proto, path / "m.onnx")
    found = explorer.compile(path / "m.onnx").run(values)["y"]
    assert isinstance(found, np.ndarray)
    return found


def exact(a: np.ndarray, b: np.ndarray, za: Any, zb: Any) -> np.ndarray:
    """The sums modulo 2 ** 32."""
    left, right = (np.asarray(x, np.int64) for x in (a, b))
    za, zb = (np.asarray(z, np.int64) for z in (za, zb))
    za = za.reshape(-1, 1) if za.ndim == 1 and za.size > 1 else za
    return np.asarray((left - za) @ (right - zb)).astype(np.int32)


KINDS = [(a, b) for a in CODES for b in CODES]


@pytest.mark.few(2)
@pytest.mark.parametrize(("left", "right"), KINDS)
@pytest.mark.parametrize("constant", [True, False], ids=["weights", "two inputs"])
def test_matrix_products_are_exact(left: str, right: str, constant: bool, tmp_path: Path) -> None:
    a, b = drawn(left, 7, 19), drawn(right, 19, 13)
    for za, zb in ((0, 0), (3, 0), (101, 77)):
        points = {"za": np.array(za, left), "zb": np.array(zb, right)}
        inputs: dict[str, tuple[str, list[Any]]] = {"a": (left, [7, 19])}
        if not constant:
            inputs["b"] = (right, [19, 13])
        given = points | ({"b": b} if constant else {})
        values = {"a": a} if constant else {"a": a, "b": b}
        got = run(model("MatMulInteger", inputs, given), values, tmp_path)
        np.testing.assert_array_equal(got, exact(a, b, za, zb))


@pytest.mark.parametrize("right", CODES)
def test_zero_points_may_differ_by_row_and_column(right: str, tmp_path: Path) -> None:
    a, b = drawn("uint8", 9, 11), drawn(right, 11, 17)
    za, zb = drawn("uint8", 9), drawn(right, 17)
    proto = model("MatMulInteger", {"a": ("uint8", [9, 11])}, {"b": b, "za": za, "zb": zb})
    np.testing.assert_array_equal(run(proto, {"a": a}, tmp_path), exact(a, b, za, zb))


@pytest.mark.parametrize("left", CODES)
def test_a_zero_point_may_be_computed_by_the_model(left: str, tmp_path: Path) -> None:
    b = drawn("int8", 11, 17)
    inputs: dict[str, tuple[str, list[Any]]] = {"a": (left, ["rows", 11]), "za": (left, [1])}
    proto = model("MatMulInteger", inputs, {"b": b})
    for rows in (1, 5, 40):
        a, za = drawn(left, rows, 11), drawn(left, 1)
        got = run(proto, {"a": a, "za": za}, tmp_path)
        np.testing.assert_array_equal(got, exact(a, b, za[0], 0))


def test_all_extents_may_be_symbols(tmp_path: Path) -> None:
    inputs: dict[str, tuple[str, list[Any]]] = {
        "a": ("uint8", ["m", "k"]),
        "b": ("int8", ["k", "n"]),
    }
    proto = model("MatMulInteger", inputs, {"za": np.array(9, np.uint8)})
    for m, k, n in ((3, 5, 40), (17, 8, 9), (1, 1, 1), (2, 33, 16)):
        a, b = drawn("uint8", m, k), drawn("int8", k, n)
        got = run(proto, {"a": a, "b": b}, tmp_path)
        np.testing.assert_array_equal(got, exact(a, b, 9, 0))


def test_sums_wrap_where_they_pass_the_largest_number(tmp_path: Path) -> None:
    depth = 140_000  # 255 * 127 * depth > 2 ** 32
    a, b = np.full((2, depth), 255, np.uint8), np.full((depth, 9), 127, np.int8)
    proto = model("MatMulInteger", {"a": ("uint8", [2, depth])}, {"b": b})
    np.testing.assert_array_equal(run(proto, {"a": a}, tmp_path), exact(a, b, 0, 0))


CONVOLUTIONS: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
    ((1, 3, 9, 7), (9, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 8, 7, 7), (17, 8, 1, 1), {}),
    ((1, 5, 8, 9), (32, 5, 3, 2), {"strides": [2, 1], "pads": [0, 1, 2, 0]}),
    ((1, 8, 9, 9), (16, 4, 3, 3), {"group": 2, "dilations": [2, 2]}),
    ((1, 12, 7, 7), (12, 1, 3, 3), {"group": 12, "pads": [1, 1, 1, 1]}),
    ((1, 4, 21), (9, 4, 5), {"pads": [2, 2]}),
)


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: str(c))
@pytest.mark.parametrize("right", CODES)
def test_convolutions_equal_those_of_onnxruntime(
    case: tuple[Any, Any, Any], right: str, tmp_path: Path
) -> None:
    shape, weight, attrs = case
    a, b = drawn("uint8", *shape), drawn(right, *weight)
    for za, zb in ((0, 0), (200, 0), (77, 5)):
        given = {"b": b, "za": np.array(za, np.uint8), "zb": np.array(zb, right)}
        proto = model("ConvInteger", {"a": ("uint8", list(shape))}, given, **attrs)
        (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"a": a})
        np.testing.assert_array_equal(run(proto, {"a": a}, tmp_path), want)


@pytest.mark.parametrize("target", ["cpu", "cpu-avx2"])
@pytest.mark.parametrize(("depth", "columns"), [(64, 512), (8, 128), (12, 64), (10, 64), (8, 50)])
def test_bytes_that_are_no_constant_are_arranged_by_words(
    depth: int, columns: int, target: str
) -> None:
    @explorer.trace
    def product(x: tensor("uint8", 3, depth), w: tensor("int8", depth, columns)) -> Any:  # type: ignore[valid-type]
        return x.astype("int32") @ w.astype("int32")

    random = np.random.default_rng(0)
    x = random.integers(0, 256, (3, depth)).astype(np.uint8)
    w = random.integers(-128, 128, (depth, columns)).astype(np.int8)
    c = explorer.compile(product, target=target)
    (got,) = c.run({"x": x, "w": w}).values()
    np.testing.assert_array_equal(got, x.astype(np.int32) @ w.astype(np.int32))
    whole = depth % 4 == 0 and columns % 16 == 0
    assert any("& 255) << 24" in code.source for code in c.codes.values()) == whole
