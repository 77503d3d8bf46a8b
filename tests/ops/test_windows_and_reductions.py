"""Pools, reductions, normalisations and softmax, over odd shapes and edges, by every stage."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import explorer
from tests.ops.one_operator import Case, check

random = np.random.default_rng(2)
INF = np.inf


def r(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return random.uniform(0.5, 1.5, shape).astype(np.float32)


EDGES = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]}
POOLS = [
    Case("MaxPool", [r(2, 3, 8, 9)], {"kernel_shape": [3, 2]}, free=(2,)),
    Case("MaxPool", [r(2, 3, 8, 9)], EDGES),
    Case("MaxPool", [r(2, 3, 8, 9)], {**EDGES, "ceil_mode": 1}),
    Case("MaxPool", [r(2, 3, 8, 8)], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Case("MaxPool", [r(1, 2, 9, 9)], {"kernel_shape": [2, 3], "dilations": [2, 3]}),
    Case(
        "MaxPool",
        [r(1, 2, 9, 9)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
        free=(9,),
    ),
    Case(
        "MaxPool",
        [r(1, 2, 9, 8)],
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    Case("MaxPool", [r(1, 2, 9)], {"kernel_shape": [3]}, note="1d"),
    Case(
        "MaxPool",
        [r(1, 3, 4)],
        {"kernel_shape": [3], "pads": [0, 1]},
        note="as many places as results",
    ),
    Case("MaxPool", [r(1, 2, 4, 5, 6)], {"kernel_shape": [2, 2, 2]}, note="3d"),
    *(
        Case(
            "MaxPool",
            [random.choice([-128, -128, 0, 1], (2, 3, 3, 4)).astype(np.int8)],
            {"kernel_shape": [2, 2], "pads": [1] * 4, "storage_order": order},
            outputs=2,
            note=f"places where padding is as large and several are largest, order {order}",
        )
        for order in (0, 1)
    ),
    Case("AveragePool", [r(2, 3, 8, 9)], {"kernel_shape": [3, 2]}, free=(2,)),
    Case("AveragePool", [r(2, 3, 8, 9)], EDGES),
    Case("AveragePool", [r(2, 3, 8, 9)], {**EDGES, "count_include_pad": 1}),
    Case("AveragePool", [r(2, 3, 8, 9)], {**EDGES, "ceil_mode": 1}, opset=19),
    Case(
        "AveragePool", [r(2, 3, 8, 9)], {**EDGES, "ceil_mode": 1, "count_include_pad": 1}, opset=19
    ),
    Case(
        "AveragePool",
        [r(2, 3, 7, 7)],
        {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2]},
        free=(7,),
    ),
    Case("AveragePool", [r(2, 3, 7, 7)], {"kernel_shape": [7, 7]}, note="whole"),
    *(
        Case(
            "AveragePool",
            [r(1, 2, *extents)],
            {"kernel_shape": [3, 3], "strides": steps, "auto_pad": mode, "count_include_pad": 1},
            note=f"padding that counts, {mode}",
        )
        for mode in ("SAME_LOWER", "SAME_UPPER")
        for extents, steps in (((1, 1), [1, 1]), ((4, 5), [1, 1]), ((4, 5), [2, 2]))
    ),
    Case(
        "AveragePool",
        [r(1, 2, 4, 6)],
        {
            "kernel_shape": [3, 3],
            "strides": [2, 2],
            "auto_pad": "SAME_UPPER",
            "ceil_mode": 1,
            "count_include_pad": 1,
        },
        opset=19,
        note="padding that counts, rounded up",
    ),
    Case("GlobalAveragePool", [r(2, 3, 5, 4)], free=(2,)),
    Case("GlobalAveragePool", [r(2, 3, 5, 4)], free=(5, 4)),
    Case("GlobalMaxPool", [r(2, 3, 5, 4)]),
    Case("GlobalAveragePool", [r(2, 3, 5)], note="1d"),
]
AXES = np.array([-1, 0])
REDUCTIONS = [
    Case(f"Reduce{kind}", [positive(2, 3, 5), AXES], {"keepdims": keep}, (1,), (2, 5))
    for kind in (
        "Sum",
        "Mean",
        "Max",
        "Min",
        "Prod",
        "L1",
        "L2",
        "SumSquare",
        "LogSum",
        "LogSumExp",
    )
    for keep in (0, 1)
] + [
    Case("ReduceSum", [r(2, 3, 5)], note="all"),
    Case("ReduceSum", [r(2, 3, 5)], {"keepdims": 0}, note="all-gone"),
    Case("ReduceSum", [r(2, 3, 5)], {"noop_with_empty_axes": 1}, note="none"),
    Case("ReduceSum", [r(2, 3, 5)], {"axes": [1]}, opset=11),
    Case("ReduceMean", [r(2, 3, 5)], {"axes": [1, 2], "keepdims": 0}, opset=11),
    Case("ReduceMax", [np.arange(12).reshape(3, 4)], {"axes": [1]}, opset=13, note="integers"),
    Case(
        "ReduceMax",
        [np.array([[1, INF], [-INF, 2]], np.float32), np.array([1])],
        known=(1,),
        note="infinite",
    ),
    Case("ArgMax", [r(3, 5, 4)], {"axis": 1}, free=(3,)),
    Case(
        "ArgMax",
        [np.array([[1, 3, 3], [2, 2, 2]], np.float32)],
        {"axis": -1, "keepdims": 0},
        note="ties",
    ),
    Case(
        "ArgMax",
        [np.array([[1, 3, 3], [2, 2, 2]], np.float32)],
        {"axis": 1, "select_last_index": 1},
        note="last",
    ),
    Case("ArgMin", [r(3, 5, 4)], {"axis": 0, "keepdims": 0}, free=(3,)),
    Case("ArgMax", [r(0, 3, 0)], {"axis": 2, "keepdims": 0}, note="empty"),
    Case("ArgMin", [r(0, 0)], {"axis": 1, "select_last_index": 1}, note="empty"),
    Case("CumSum", [r(3, 5), np.array(1)], known=(1,), free=(5,)),
    Case(
        "CumSum", [np.arange(15).reshape(3, 5), np.array(-2)], {"reverse": 1, "exclusive": 1}, (1,)
    ),
    Case("CumSum", [r(3, 5), np.array(0)], {"exclusive": 1}, (1,)),
    Case("CumSum", [r(3, 5), np.array(1)], {"reverse": 1}, (1,)),
]
MASKED = np.array([[0, -INF, 1], [2, 3, -INF], [-1e30, 0, 88]], np.float32)
SOFTMAXES = [
    Case("Softmax", [r(3, 5)], free=(3, 5)),
    Case("Softmax", [r(3, 5, 2)], {"axis": 1}),
    Case("Softmax", [r(3, 5, 2)], {"axis": 1}, opset=9),
    Case("Softmax", [r(3, 5, 2)], opset=9, note="default"),
    Case("Softmax", [MASKED], note="masked"),
    Case("LogSoftmax", [r(3, 5)], free=(5,)),
    Case("LogSoftmax", [r(3, 5, 2)], {"axis": 0}, opset=11),
]
CHANNELS = [positive(3), r(3), r(3), positive(3)]
NORMS = [
    Case("BatchNormalization", [r(2, 3, 4, 5), *CHANNELS], {"epsilon": 1e-3}, (1, 2, 3, 4), (2,)),
    Case("BatchNormalization", [r(2, 3, 4, 5), *CHANNELS], note="by-data"),
    Case("BatchNormalization", [r(2, 3), *CHANNELS], known=(1, 2, 3, 4), note="2d"),
    Case("LayerNormalization", [r(2, 3, 5), positive(5), r(5)], free=(2, 3)),
    Case("LayerNormalization", [r(2, 3, 5), positive(3, 5), r(3, 5)], {"axis": 1, "epsilon": 1e-2}),
    Case("LayerNormalization", [r(2, 3, 5), positive(5)], free=(5,)),
    Case("LayerNormalization", [r(2, 3, 5), positive(5), r(5)], outputs=3, note="moments"),
    Case("RMSNormalization", [r(2, 3, 5), positive(5)], opset=23, free=(2,)),
    Case("InstanceNormalization", [r(2, 3, 4, 5), positive(3), r(3)], free=(2,)),
    Case("GroupNormalization", [r(2, 6, 4, 5), positive(6), r(6)], {"num_groups": 3}, opset=21),
    Case("LRN", [r(2, 7, 3, 4)], {"size": 5, "alpha": 0.2, "beta": 0.75, "bias": 1.5}, free=(2,)),
    Case("LRN", [r(2, 7, 3, 4)], {"size": 3, "alpha": 0.2, "beta": 0.6}),
    Case("LpNormalization", [r(3, 5)], {"p": 1, "axis": 0}),
    Case("LpNormalization", [r(3, 5)]),
]


WHOLE = np.array([[-7, 2, 2, -1, 0], [9, 3, 100, 90, 80], [1, 0, -1, -2, -2]])
REDUCTIONS += [
    Case(op, [WHOLE.astype(t), np.array([axis])], {}, (1,), note=f"{t}-{axis}")
    for op in ("ReduceMean", "ReduceL2", "ReduceL1", "ReduceSumSquare", "ReduceSum")
    for t in ("int32", "int64")
    for axis in (0, 1)
]


def ids(cases: list[Case]) -> list[str]:
    return [f"{i}-{c.name}" for i, c in enumerate(cases)]


@pytest.mark.parametrize("case", POOLS, ids=ids(POOLS))
def test_a_pool_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", REDUCTIONS, ids=ids(REDUCTIONS))
def test_a_reduction_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", SOFTMAXES, ids=ids(SOFTMAXES))
def test_a_softmax_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", NORMS, ids=ids(NORMS))
def test_a_normalisation_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_a_padded_mean_of_float64_is_of_float64(tmp_path: Path) -> None:  # onnxruntime has none
    info = helper.make_tensor_value_info
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3], pads=[1, 1])
    inputs, outputs = (
        [info("x", TensorProto.DOUBLE, [1, 1, 5])],
        [info("y", TensorProto.DOUBLE, None)],
    )
    graph = helper.make_graph([node], "mean", inputs, outputs)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]), tmp_path / "m.onnx")
    x = np.random.default_rng(0).standard_normal((1, 1, 5))
    want = [x[0, 0, max(0, i - 1) : i + 2].mean() for i in range(5)]
    found = explorer.compile(explorer.load(tmp_path / "m.onnx")).run({"x": x})["y"]
    np.testing.assert_allclose(found[0, 0], want, rtol=1e-14)
