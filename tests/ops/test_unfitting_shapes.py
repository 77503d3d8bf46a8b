"""Arguments whose shapes do not fit each other are refused before any element is read, whether the
shapes are known when compiling or only when running: a kernel reads no memory that is not its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper, save

import explorer
from explorer.errors import IronworksError, VerifyError
from explorer.ir.affine import var
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ops.verify_kernel import verify_kernel

TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}


def x(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def i(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int64)


GROUPS = {"num_groups": 2}
CASES: list[tuple[str, list[np.ndarray], dict[str, Any], int]] = [
    ("GatherElements", [x(1, 7, 1), i(8, 2, 6)], {"axis": 1}, 17),
    ("GatherElements", [x(4, 7), i(5, 7)], {"axis": 1}, 17),
    ("GatherElements", [x(4, 7), i(5, 7, 1)], {"axis": 1}, 17),
    ("GatherND", [x(4, 7, 3), i(5, 1)], {"batch_dims": 1}, 17),
    ("GatherND", [x(4, 7, 3), i(3, 1)], {"batch_dims": 1}, 17),
    ("ScatterElements", [x(4, 7), i(5, 7), x(5, 7)], {"axis": 1}, 17),
    ("ScatterElements", [x(4, 7), i(4, 7), x(3, 7)], {"axis": 1}, 17),
    ("ScatterElements", [x(4, 7), i(4, 7), x(4, 6)], {"axis": 1, "reduction": "add"}, 17),
    ("ScatterND", [x(4, 7), i(5, 1), x(4, 7)], {}, 17),
    ("ScatterND", [x(4, 7), i(5, 1), x(5, 6)], {}, 17),
    ("ScatterND", [x(4, 7), i(5, 1), x(5)], {}, 17),
    ("ScatterND", [x(4, 7), i(5, 2), x(5, 7)], {}, 17),
    ("ArgMax", [x(4, 0)], {"axis": 1}, 17),
    ("ArgMin", [x(4, 0)], {"axis": 1}, 17),
    ("ArgMax", [x(0, 3)], {"axis": 0}, 17),
    ("MatMul", [x(4, 7), x(6, 2)], {}, 17),
    ("Gemm", [x(4, 7), x(7, 2), x(3, 2)], {}, 17),
    ("Concat", [x(4, 7), x(3, 7)], {"axis": 1}, 17),
    ("Conv", [x(1, 3, 8), x(4, 2, 3)], {}, 17),
    ("Conv", [x(1, 3, 8), x(4, 3, 3), x(5)], {}, 17),
    ("BatchNormalization", [x(2, 3, 4), x(2), x(3), x(3), x(3)], {}, 17),
    ("InstanceNormalization", [x(2, 3, 4), x(2), x(3)], {}, 17),
    ("LayerNormalization", [x(2, 3, 4), x(5)], {}, 17),
    ("GroupNormalization", [x(2, 4, 4), x(3), x(4)], GROUPS, 21),
    ("RMSNormalization", [x(2, 3, 4), x(5)], {}, 24),
    ("GRU", [x(5, 2, 3), x(1, 6, 3), x(1, 6, 3)], {"hidden_size": 2}, 17),
    ("GRU", [x(5, 2, 3), x(1, 6, 4), x(1, 6, 2)], {"hidden_size": 2}, 17),
    ("LSTM", [x(5, 2, 3), x(1, 8, 3), x(1, 8, 2), x(1, 15)], {"hidden_size": 2}, 17),
    ("TensorScatter", [x(2, 1, 4, 8), x(2, 1, 5, 8)], {}, 24),
    ("TensorScatter", [x(2, 1, 4, 8), x(2, 1, 2, 7)], {}, 24),
]


@pytest.mark.few(30)
@pytest.mark.parametrize("known", [True, False], ids=["compiling", "running"])
@pytest.mark.parametrize(("op", "args", "attributes", "opset"), CASES)
def test_shapes_that_do_not_fit_are_refused(
    op: str,
    args: list[np.ndarray],
    attributes: dict[str, Any],
    opset: int,
    known: bool,
    tmp_path: Path,
) -> None:
    feed = {f"x{n}": a for n, a in enumerate(args)}
    inputs = [
        helper.make_tensor_value_info(
            name, TYPES[a.dtype.kind], a.shape if known else [f"{name}_{d}" for d in range(a.ndim)]
        )
        for name, a in feed.items()
    ]
    node = helper.make_node(op, list(feed), ["y"], **attributes)
    graph = helper.make_graph([node], "unfitting", inputs, [ValueInfoProto(name="y")])
    versions = [helper.make_opsetid("", opset)]
    save(helper.make_model(graph, opset_imports=versions, ir_version=10), tmp_path / "m.onnx")
    with pytest.raises(IronworksError, match=f"{op}|match_cast|bounded to 1"):
        explorer.compile(explorer.load(tmp_path / "m.onnx")).run(feed)


@pytest.mark.parametrize(("extent", "ok"), [(6, True), (5, False)])
def test_a_kernel_that_reads_past_a_tensor_is_not_well_formed(extent: int, ok: bool) -> None:
    index = (var("i") * 2 + 1,)
    compute = Compute("y", (Axis("i", 3),), Read("x", index))
    kernel = Kernel(
        "past", (TensorSpec("x", (extent,)), TensorSpec("y", (3,))), (compute,), ("x",), ("y",)
    )
    if ok:
        verify_kernel(kernel)
    else:
        with pytest.raises(VerifyError, match="reads 'x' at 1 to 5, and it has 5 elements"):
            verify_kernel(kernel)


def test_a_kernel_that_writes_past_a_tensor_is_not_well_formed() -> None:
    compute = Compute("y", (Axis("i", 3),), Read("x", (var("i"),)), store=(var("i") + 1,))
    kernel = Kernel(
        "past", (TensorSpec("x", (3,)), TensorSpec("y", (3,))), (compute,), ("x",), ("y",)
    )
    with pytest.raises(VerifyError, match="writes at 1 to 3, and it has 3 elements"):
        verify_kernel(kernel)


@pytest.mark.parametrize(("whole", "rows"), [("batch", 2), (3, "rows"), ("batch", "rows")])
def test_a_run_decides_whether_fewer_rows_of_indices_fit(
    whole: int | str, rows: int | str, tmp_path: Path
) -> None:
    info = helper.make_tensor_value_info
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    inputs = [info("x", TensorProto.FLOAT, [whole, 7]), info("i", TensorProto.INT64, [rows, 4])]
    graph = helper.make_graph([node], "rows", inputs, [ValueInfoProto(name="y")])
    versions = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=versions, ir_version=10), tmp_path / "m.onnx")
    c = explorer.compile(explorer.load(tmp_path / "m.onnx"))
    rng = np.random.default_rng(0)
    data, index = rng.standard_normal((3, 7)).astype(np.float32), rng.integers(-7, 7, (2, 4))
    found = c.run({"x": data, "i": index})["y"]
    np.testing.assert_array_equal(found, np.take_along_axis(data[:2], index, 1))
    refused = data[:1] if whole == "batch" else data
    with pytest.raises(IronworksError):
        c.run({"x": refused, "i": index if whole == "batch" else i(4, 4)})


def compiled(
    path: Path, op: str, inputs: dict[str, list[Any]], *more: np.ndarray, **attributes: Any
) -> explorer.Compilation:
    """One operator of inputs whose extents may be symbols, and of constants after them."""
    info = helper.make_tensor_value_info
    names = [*inputs, *(f"c{n}" for n in range(len(more)))]
    node = helper.make_node(op, names, ["y"], **attributes)
    kinds = {"s": TensorProto.INT64}
    given = [info(n, kinds.get(n, TensorProto.FLOAT), shape) for n, shape in inputs.items()]
    constants = [numpy_helper.from_array(a, f"c{n}") for n, a in enumerate(more)]
    graph = helper.make_graph([node], "one", given, [ValueInfoProto(name="y")], constants)
    versions = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=versions, ir_version=10), path)
    return explorer.compile(explorer.load(path))


@pytest.mark.parametrize(
    ("shape", "wanted", "fits"),
    [
        ([1, 6, "n"], [3, 4], {2}),
        ([1, 6, "n"], [-1, 4], {2, 4, 6}),
        (["n", "m"], [3, 2], {2}),
    ],
)
def test_a_run_decides_whether_elements_fill_a_shape(
    shape: list[Any], wanted: list[int], fits: set[int], tmp_path: Path
) -> None:
    """They were cut off, or read past, where they did not."""
    c = compiled(tmp_path / "m.onnx", "Reshape", {"x": shape}, np.array(wanted))
    rng = np.random.default_rng(0)
    for n in range(1, 7):
        known = {"n": n, "m": 3}
        data = rng.standard_normal([known.get(d, d) for d in shape]).astype(np.float32)
        if n in fits:
            np.testing.assert_array_equal(c.run({"x": data})["y"], data.reshape(wanted))
        else:
            with pytest.raises(IronworksError, match="must be"):
                c.run({"x": data})


def test_strings_fill_a_shape_by_the_library_that_holds_them(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    node = helper.make_node("Reshape", ["x", "c"], ["y"])
    constant = numpy_helper.from_array(np.array([4]), "c")
    given = [info("x", TensorProto.STRING, ["n", "m"])]
    graph = helper.make_graph([node], "one", given, [ValueInfoProto(name="y")], [constant])
    versions = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=versions, ir_version=10), tmp_path / "m.onnx")
    c = explorer.compile(explorer.load(tmp_path / "m.onnx"))
    found = c.run({"x": np.array([["a", "b"], ["c", "d"]], object)})["y"]
    assert found.tolist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("target", "fits"), [([4, 6], True), ([1, 1], True), ([3, 6], False)])
def test_a_run_decides_whether_a_tensor_expands(
    target: list[int], fits: bool, tmp_path: Path
) -> None:
    c = compiled(tmp_path / "m.onnx", "Expand", {"x": [4, 6], "s": [2]})
    given = {"x": x(4, 6), "s": np.array(target)}
    if fits:
        np.testing.assert_array_equal(c.run(given)["y"], x(4, 6))
    else:
        with pytest.raises(IronworksError, match=r"\[4, 6\] and \[3, 6\] do not broadcast"):
            c.run(given)


@pytest.mark.parametrize("op", ["Conv", "Pad"])
def test_inputs_too_small_for_what_is_cut_from_them_are_refused(op: str, tmp_path: Path) -> None:
    """No policy is to blame that there are no tasks of -1 rows."""
    more = x(3, 2, 3) if op == "Conv" else np.array([0, 0, -1, 0, 0, -1])
    c = compiled(tmp_path / "m.onnx", op, {"x": [1, 2, "n"]}, more)
    assert c.run({"x": x(1, 2, 5)})["y"].shape == (1, 3 if op == "Conv" else 2, 3)
    assert c.run({"x": x(1, 2, 2)})["y"].size == 0
    with pytest.raises(IronworksError, match="n = 1: give larger inputs"):
        c.run({"x": x(1, 2, 1)})
