"""Integers that only a run knows: one program for all their values, and every call equal to
onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import explorer
from explorer.errors import ShapeError
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from tests.ops.one_operator import agree, oracle

Inputs = Sequence[Any]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def data(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Numbers that are all different, of both signs."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 % 23 - 11) / 4).astype(dtype).reshape(shape)


@dataclass(frozen=True)
class Calls:
    """One operator and the inputs of several calls, of equal ranks; the extents of `data` arguments
    are symbols, those of the others numbers.
    """

    op: str
    calls: Sequence[Inputs]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    data: Sequence[int] = (0,)
    outputs: int = 1
    opset: int = 19
    note: str = ""

    @property
    def name(self) -> str:
        attrs = "-".join(f"{k}={v}" for k, v in self.attrs.items()).replace(" ", "")
        return "-".join(p for p in (self.op, self.note, attrs) if p)


def model(case: Calls) -> onnx.ModelProto:
    first = case.calls[0]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(first)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="node", **case.attrs)
    inputs = [
        helper.make_tensor_value_info(
            f"x{i}",
            helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype),
            [f"n{i}_{d}" if i in case.data else n for d, n in enumerate(np.shape(x))],
        )
        for i, x in enumerate(first)
        if x is not None
    ]
    results = [onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph([node], "case", inputs, results)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=9
    )


def feeds(call: Inputs) -> dict[str, np.ndarray]:
    return {f"x{i}": np.asarray(x) for i, x in enumerate(call) if x is not None}


def loaded(case: Calls, folder: Path) -> tuple[onnx.ModelProto, explorer.Model]:
    made, path = model(case), folder / "case.onnx"
    onnx.save(made, path)
    free = {d.dim_param for i in made.graph.input for d in i.type.tensor_type.shape.dim}
    return made, explorer.load(path, {name: (0, 64) for name in free if name})


x, y, z = data(5, 7), data(1, 1), data(0, 3)
RANGES = ((3, 20, 4), (9, -3, -1), (2, 2, 1), (0, 13, 13), (-5, 5, 3))
CASES = (
    Calls("Reshape", [(x, ints(7, -1)), (x, ints(0, -1)), (y, ints(1, 0)), (z, ints(-1, 9))]),
    Calls("Reshape", [(z, ints(0, 2, 4)), (z, ints(5, 0, 0))], {"allowzero": 1}),
    Calls("Expand", [(x, ints(3, 1, 7)), (y, ints(2, 5, 1)), (z, ints(1, 1, 3))]),
    Calls("Expand", [(x, ints(7)), (y, ints(13)), (z, ints(1))], note="shorter"),
    Calls(
        "Slice",
        [
            (x, ints(1, -2), ints(4, -100), ints(0, 1), ints(2, -1)),
            (x, ints(-1, 0), ints(-9, 9), ints(1, 0), ints(-3, 4)),
            (y, ints(0, 0), ints(0, 1), ints(-1, 0), ints(1, 1)),
            (z, ints(5, -5), ints(-5, 5), ints(0, 1), ints(-1, 2)),
        ],
    ),
    Calls("Slice", [(x, ints(2), ints(9)), (x, ints(-2), ints(-1)), (z, ints(1), ints(0))]),
    Calls("Range", [tuple(map(np.int64, r)) for r in RANGES], data=()),
    Calls(
        "Range",
        [tuple(np.float32(v) for v in r) for r in ((0, 2, 0.5), (3, -20, -0.75), (1, 0, 1))],
        data=(),
        note="float",
    ),
    Calls("Pad", [(x, ints(1, 2, 0, 3)), (x, ints(-2, 1, 1, -4)), (z, ints(2, 0, 1, 1))]),
    Calls(
        "Pad",
        [(x, ints(1, 0, 2, 5), np.float32(v)) for v in (2.5, -np.inf, np.nan)],
        note="value",
    ),
    *(
        Calls(
            "Pad",
            [(x, ints(1, 2, 3, 4)), (x, ints(0, 6, 4, 0)), (x, ints(-1, 0, 2, 1))],
            {"mode": mode},
        )
        for mode in ("edge", "reflect", "wrap")
    ),
    Calls("Pad", [(x, ints(2, 1), None, ints(-1)), (x, ints(0, 3), None, ints(0))], note="axes"),
    Calls("Tile", [(x, ints(2, 3)), (y, ints(1, 13)), (x, ints(0, 1)), (z, ints(2, 2))]),
    Calls("ConstantOfShape", [(ints(2, 3),), (ints(0, 5),), (ints(1, 1),)], data=()),
    Calls("Squeeze", [(data(5, 1, 1), ints(1)), (data(1, 7, 3), ints(-3))]),
    Calls("Unsqueeze", [(x, ints(0, -1)), (y, ints(1, 2)), (z, ints(3, 0))]),
    Calls(
        "Split",
        [(x, ints(3, 0, 4)), (x, ints(1, 5, 1)), (y, ints(0, 0, 1)), (z, ints(1, 1, 1))],
        {"axis": 1},
        outputs=3,
    ),
    Calls("CumSum", [(x, np.int64(0)), (x, np.int64(-1)), (y, np.int64(1)), (z, np.int64(0))]),
    Calls(
        "CumSum", [(x, np.int64(0)), (x, np.int64(1))], {"exclusive": 1, "reverse": 1}, note="back"
    ),
    Calls("TopK", [(x, ints(3)), (y, ints(1)), (x, ints(0)), (z, ints(2))], outputs=2),
    Calls(
        "OneHot",
        [(ints(1, 2, -1), np.int64(n), np.array([0.5, 2], np.float32)) for n in (4, 3, 13)],
    ),
    *(
        Calls("Trilu", [(x, np.int64(k)) for k in (0, -2, 3, 99, -99)], {"upper": upper})
        for upper in (0, 1)
    ),
)
image, strip = data(1, 2, 5, 4), data(2, 1, 1, 3)
SCALES = (np.array([1, 1, 2, 0.6], np.float32), np.array([1, 1, 0.4, 3], np.float32))
RESIZED = (
    *(
        Calls("Resize", [(a, None, s) for a in (image, strip) for s in SCALES], attrs)
        for attrs in (
            {"mode": "nearest"},
            {"mode": "nearest", "nearest_mode": "ceil"},
            {"mode": "linear"},
            {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
            {"mode": "cubic"},
            {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        )
    ),
    *(
        Calls("Resize", [(a, None, None, n) for a in (image, strip) for n in sizes], attrs)
        for sizes in ([ints(7, 1), ints(3, 9)],)
        for attrs in (
            {"mode": "linear", "axes": [2, 3]},
            {"mode": "linear", "axes": [3, 2], "antialias": 1},
            {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
        )
    ),
)
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
w, v = data(3, 1, 4), data(1, 5, 1)
REDUCED = tuple(
    Calls(f"Reduce{name}", [(abs(a), axes) for a in (w, v) for axes in (ints(0), ints(-1))], attrs)
    for name in REDUCTIONS
    for attrs in ({"keepdims": 1}, {"keepdims": 0})
)

EMPTY = tuple(
    Calls(f"Reduce{name}", [(z, ints(d)) for d in (0, 1)], {"keepdims": keep}, note="empty")
    for name in ("Sum", "Prod", "L1", "SumSquare")
    for keep in (0, 1)
)
NO_AXES = tuple(
    Calls(
        "ReduceSum",
        [(a, ints()) for a in (w, v)],
        {"keepdims": keep, "noop_with_empty_axes": noop},
    )
    for keep in (0, 1)
    for noop in (0, 1)
)
n5, n1 = data(5), data(1)
BOTH = (0, 1, 2)
BROADCASTS = (
    Calls("Add", [(n5, n5), (n5, n1), (n1, n5), (n1, data(0)), (n1, n1)], data=BOTH),
    Calls("Mul", [(x, data(7)), (x, n1), (y, n5), (data(1, 7), data(1))], data=BOTH, note="ranks"),
    Calls("Sub", [(x, y), (data(5, 1), data(1, 7)), (y, z), (y, y)], data=BOTH),
    Calls(
        "Where",
        [(n5 > 0, n1, n5), (n1 > 0, n5, n1), (n5 > 0, n5, n5), (n1 > 0, n1, n1)],
        data=BOTH,
    ),
    Calls("Max", [(n5, n1, n5), (n1, n1, n5), (n1, n1, n1)], data=BOTH),
    Calls("Less", [(x, y), (y, x)], data=BOTH),
    Calls("Pow", [(abs(x), y), (abs(y), x)], data=BOTH),
    Calls(
        "MatMul",
        [
            (data(3, 5, 2), data(3, 2, 7)),
            (data(1, 5, 2), data(3, 2, 7)),
            (data(3, 1, 4), data(1, 4, 1)),
            (data(1, 2, 2), data(1, 2, 2)),
        ],
        data=BOTH,
    ),
    Calls("PRelu", [(x, y), (x, data(1, 7)), (x, x)], data=BOTH),
)


@pytest.mark.few(9)
@pytest.mark.parametrize(
    "case", [*CASES, *RESIZED, *REDUCED, *EMPTY, *NO_AXES, *BROADCASTS], ids=lambda c: c.name
)
def test_one_program_serves_all_values(case: Calls, tmp_path: Path) -> None:
    made, source = loaded(case, tmp_path)
    typed = deduce(source.program)
    low = legalize(typed)
    for program in (typed, low):
        verify(program)
    assert not low.library_calls
    compiled = explorer.compile(source)
    for call in case.calls:
        given = feeds(call)
        wanted = oracle(made, given)
        for name, found in (
            ("typed", evaluate(typed, given)),
            ("legalized", evaluate(low, given)),
            ("run", compiled.run(given)),
        ):
            for mine, right in zip(found.values(), wanted, strict=True):
                agree(np.asarray(mine), right, 2e-6, f"{name} on {call}")


REFUSED = (
    (Calls("Reshape", [(x, ints(7, -1))]), (x, ints(4, -1)), r"\[5, 7\] has 35 elements"),
    (Calls("Reshape", [(x, ints(7, -1))]), (x, ints(-1, -1)), "one dim of -1"),
    (
        Calls("Reshape", [(x, ints(5, 7, 1))]),
        (x, ints(5, 7, 0)),
        "a 0 copies dim 2, but the input has 2 dims",
    ),
    (CASES[4], (x, ints(0, 0), ints(1, 1), ints(0, 1), ints(1, 0)), "a step is 0"),
    (CASES[4], (x, ints(0, 0), ints(1, 1), ints(0, 2), ints(1, 1)), "axis 2 is not in a tensor"),
    (CASES[4], (x, ints(0, 0), ints(1, 1), ints(0, -2), ints(1, 1)), "name a dim twice"),
    (Calls("Expand", [(x, ints(5, 7))]), (x, ints(5, 3)), "do not broadcast"),
    (Calls("Range", [CASES[6].calls[0]], data=()), (np.int64(0), np.int64(3), np.int64(0)), "of 0"),
    (Calls("Pad", [(x, ints(0, 0, 0, 0))]), (x, ints(-3, 0, -3, 0)), "cut more than the 5 of dim"),
    (Calls("Tile", [(x, ints(1, 1))]), (x, ints(1, -1)), "repeats"),
    (Calls("Squeeze", [(y, ints(0))]), (x, ints(0)), "is not 1"),
    (Calls("Unsqueeze", [(y, ints(0, 1))]), (x, ints(0, 0)), "name a dim twice"),
    (Calls("Split", [(x, ints(2, 3))], outputs=2), (x, ints(2, 4)), "do not add up to 5"),
    (Calls("Split", [(x, ints(2, 3))], outputs=2), (x, ints(6, -1)), "do not add up to 5"),
    (Calls("ReduceSum", [(x, ints(0))]), (x, ints(2)), "axis 2 is not in a tensor of rank 2"),
    (Calls("ReduceSum", [(x, ints(0, 1))]), (x, ints(1, -1)), "name a dim twice"),
    (Calls("CumSum", [(x, np.int64(0))]), (x, np.int64(2)), "axis 2 is not in"),
    (Calls("TopK", [(x, ints(1))], outputs=2), (x, ints(8)), "no 8 of 7 elements"),
    (Calls("ConstantOfShape", [(ints(1),)], data=()), (ints(-1),), "no dim below 0"),
    (Calls("Add", [(n5, n5)], data=(0, 1)), (n5, data(3)), r"\[5\] and \[3\] do not broadcast"),
)


@pytest.mark.parametrize(("case", "call", "text"), REFUSED, ids=lambda v: getattr(v, "name", ""))
def test_values_that_do_not_fit_are_named_with_their_operator(
    case: Calls, call: Inputs, text: str, tmp_path: Path
) -> None:
    _, source = loaded(case, tmp_path)
    compiled = explorer.compile(source)
    with pytest.raises(ShapeError, match=rf"{case.op} at 'node': .*{text}") as found:
        compiled.run(feeds(call))
    assert found.value.where == "node"
    compiled.run(feeds(case.calls[0]))


def test_what_follows_a_bound_is_bounded(tmp_path: Path) -> None:
    _, source = loaded(Calls("Slice", [(x, ints(2), ints(9))]), tmp_path)
    kind = deduce(source.program).main.outputs[0].type
    env = deduce(source.program).env
    assert isinstance(kind, Tensor)
    assert [env.bounds(d) for d in kind.dims] == [(0, 64), (0, 64)]


def test_a_size_of_0_is_a_size_that_is_known(tmp_path: Path) -> None:
    sizes = helper.make_tensor("sizes", onnx.TensorProto.INT64, [4], [1, 2, 0, 3])
    node = helper.make_node(
        "Resize",
        ["x", "roi", "", "sizes"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 5, 4]),
        helper.make_tensor_value_info("roi", onnx.TensorProto.FLOAT, [8]),
    ]
    graph = helper.make_graph([node], "case", inputs, [onnx.ValueInfoProto(name="y")], [sizes])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9),
        tmp_path / "case.onnx",
    )
    roi = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32)
    found = explorer.compile(explorer.load(tmp_path / "case.onnx")).run({"x": image, "roi": roi})
    assert found["y"].shape == (1, 2, 0, 3)


@pytest.mark.parametrize("step", [2**63 - 1, -(2**63), 2**40, -7, 6])
@pytest.mark.parametrize("extent", [5, "n"])
@pytest.mark.parametrize("known", [True, False])
def test_a_step_beyond_the_extent_takes_one_element(
    step: int, extent: int | str, known: bool, tmp_path: Path
) -> None:
    names = ("starts", "ends", "axes", "steps")
    values = (ints(-1), ints(-(2**63) if step < 0 else 2**63 - 1), ints(0), ints(step))
    given = dict(zip(names, values, strict=True))
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [extent, 3])]
    if not known:
        inputs.append(helper.make_tensor_value_info("starts", onnx.TensorProto.INT64, [1]))
    weights = [numpy_helper.from_array(a, n) for n, a in given.items() if known or n != "starts"]
    node = helper.make_node("Slice", ["x", *names], ["y"])
    graph = helper.make_graph([node], "case", inputs, [onnx.ValueInfoProto(name="y")], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9),
        tmp_path / "case.onnx",
    )
    x = data(5, 3)
    feeds = {"x": x} if known else {"x": x, "starts": given["starts"]}
    found = explorer.compile(explorer.load(tmp_path / "case.onnx")).run(feeds)
    np.testing.assert_array_equal(found["y"], x[-1::step])
