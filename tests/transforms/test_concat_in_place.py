"""Joins in place: nested, partial and shared ones keep their values, and no copy is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import explorer
from explorer import np as xp
from explorer.ir.calls import KernelCall
from explorer.transforms.winograd import Options as ConvolutionOptions

SIZE = 16


class Net:
    """Convolutions and joins of [1, c, 16, 16] tensors, written one line each."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels = {"x": 8}
        self.rng = np.random.default_rng(0)

    def conv(self, x: str, channels: int) -> str:
        y = f"v{len(self.nodes)}"
        shape = (channels, self.channels[x], 3, 3)
        w = (self.rng.standard_normal(shape) / 9).astype(np.float32)
        self.weights.append(onnx.numpy_helper.from_array(w, f"w{y}"))
        self.nodes.append(helper.make_node("Conv", [x, f"w{y}"], [f"c{y}"], pads=[1, 1, 1, 1]))
        self.nodes.append(helper.make_node("Relu", [f"c{y}"], [y]))
        self.channels[y] = channels
        return y

    def join(self, *parts: str) -> str:
        y = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node("Concat", list(parts), [y], axis=1))
        self.channels[y] = sum(self.channels[p] for p in parts)
        return y

    def save(self, path: Path, *outputs: str) -> None:
        def value(n: str) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(
                n, TensorProto.FLOAT, [1, self.channels[n], SIZE, SIZE]
            )

        graph = helper.make_graph(
            self.nodes, "net", [value("x")], [value(o) for o in outputs], self.weights
        )
        opset = [helper.make_opsetid("", 18)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)


def two(n: Net) -> tuple[str, ...]:
    return (n.conv(n.join(n.conv("x", 24), n.conv("x", 40)), 8),)


def nested(n: Net) -> tuple[str, ...]:
    a = n.conv("x", 16)
    b = n.join(a, n.conv(a, 16))
    c = n.join(b, n.conv(b, 16))
    d = n.join(c, n.conv(c, 16))
    return (n.conv(d, 8),)


def with_an_input(n: Net) -> tuple[str, ...]:
    return (n.conv(n.join("x", n.conv("x", 40)), 8),)


def shared(n: Net) -> tuple[str, ...]:
    a, b, c = n.conv("x", 24), n.conv("x", 16), n.conv("x", 32)
    return (n.conv(n.join(a, b), 8), n.conv(n.join(a, c), 8))


def twice(n: Net) -> tuple[str, ...]:
    a = n.conv("x", 24)
    return (n.conv(n.join(a, a), 8),)


def an_output(n: Net) -> tuple[str, ...]:
    a, b = n.conv("x", 24), n.conv("x", 16)
    return (n.join(a, b), a)


def backwards(n: Net) -> tuple[str, ...]:
    a = n.conv("x", 24)
    b = n.conv(a, 16)
    return (n.conv(n.join(b, a), 8),)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "make",
    [two, nested, with_an_input, shared, twice, an_output, backwards],
    ids=lambda f: f.__name__,
)
def test_a_join_in_place_keeps_every_value(make: object, tmp_path: Path) -> None:
    net = Net()
    outputs = make(net)  # type: ignore[operator]
    path = tmp_path / "net.onnx"
    net.save(path, *outputs)
    compiled = explorer.compile(path, check=True)
    assert all(s.checked in (True, None) for s in compiled.snapshots)
    x = net.rng.standard_normal((1, 8, SIZE, SIZE)).astype(np.float32)
    for _ in range(2):  # the second run takes the first one's arena
        got = compiled.run({"x": x})
        want = onnxruntime.InferenceSession(path).run(None, {"x": x})
        for value, other in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(value, other, atol=1e-4 * float(np.abs(other).max()))


@pytest.mark.parametrize("make", [two, nested, backwards], ids=lambda f: f.__name__)
def test_no_copy_is_left_of_a_join_of_what_kernels_made(make: object, tmp_path: Path) -> None:
    net = Net()
    outputs = make(net)  # type: ignore[operator]
    path = tmp_path / "net.onnx"
    net.save(path, *outputs)
    direct = explorer.Options(convolution=ConvolutionOptions("direct"))
    program = explorer.compile(path, options=direct, until="WELDED").program
    for b in program.kernel_calls:
        assert isinstance(b.expr, KernelCall)
        writers = [c for c in b.expr.kernel.computes if c.out == b.expr.kernel.output]
        assert len(writers) == 1
    assert any(
        isinstance(b.expr, KernelCall) and b.expr.kernel.updates for b in program.kernel_calls
    )


def left_and_right(x: object) -> object:
    """Rows, the others of which are made of the first."""
    whole = xp.maximum(x, 1.0)
    left = xp.tanh(whole)
    return xp.concatenate([left, whole - left])


def test_a_part_that_the_next_one_reads_stays_in_the_memory_that_it_writes() -> None:
    compiled = explorer.compile(explorer.trace(left_and_right)(explorer.tensor("float32", 3)))
    calls = [b.expr for b in compiled.program.kernel_calls if isinstance(b.expr, KernelCall)]
    over = [c.kernel for c in calls if c.kernel.updates]
    assert over and all(taken in k.inputs for k in over for _, taken in k.updates)
    assert all(len({a.name for a in c.args}) == len(c.args) for c in calls)
    x = np.array([0.5, 2.0, 3.0], np.float32)
    (got,) = compiled.run({"x": x}).values()
    whole = np.maximum(x, 1)
    np.testing.assert_allclose(got, [*np.tanh(whole), *(whole - np.tanh(whole))], rtol=1e-6)


def around(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    """Periodic borders around what was computed, and a piece of each at both ends."""
    first, last = ([slice(None)] * axis + [s] for s in (slice(None, 3), slice(-2, None)))
    parts = [a[tuple(last)], b[tuple(first)], a, b, a[tuple(first)], b[tuple(last)]]
    return np.concatenate(parts, axis)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("rows", [8, "rows"])
def test_pieces_of_a_part_are_copied_from_where_it_stands(axis: int, rows: int | str) -> None:
    """Circular padding of what a kernel made: its pieces were read where it would stand alone."""

    @explorer.trace
    def run(x: np.ndarray) -> np.ndarray:
        return xp.cos(around(xp.tanh(x), xp.exp(x), axis))

    compiled = explorer.compile(run(explorer.tensor("float32", rows, 24, 48)), check=True)
    assert all(s.checked in (True, None) for s in compiled.snapshots)
    if rows == 8:
        assert any(b.kernel_call.kernel.updates for b in compiled.program.kernel_calls)
    for n in (8,) if rows == 8 else (5, 8, 31):
        x = np.random.default_rng(n).standard_normal((n, 24, 48)).astype(np.float32)
        (found,) = compiled.run({"x": x}).values()
        np.testing.assert_allclose(found, np.cos(around(np.tanh(x), np.exp(x), axis)), atol=1e-5)


@pytest.mark.parametrize("pads", [(1, 0, 0, 0), (0, 0, 1, 0), (2, 3, 1, 4), (0, 1, 0, 2)])
@pytest.mark.parametrize("first", [True, False])
def test_who_pads_a_part_of_a_join_does_not_see_its_neighbours(
    pads: tuple[int, ...], first: bool, tmp_path: Path
) -> None:
    """Past the part's end there is its border, not what lies behind it in the join."""
    parts = ["v", "x"] if first else ["x", "v"]
    nodes = [
        helper.make_node("Sin", ["x"], ["v"]),
        helper.make_node("Pad", ["v", "pads", "one"], ["padded"]),
        helper.make_node("Concat", parts, ["joined"], axis=0),
    ]
    values = [
        onnx.numpy_helper.from_array(np.array(pads, np.int64), "pads"),
        onnx.numpy_helper.from_array(np.float32(1), "one"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", TensorProto.FLOAT, ["n", 5])],
        [info(n, TensorProto.FLOAT, None) for n in ("padded", "joined")],
        values,
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    wanted = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})
    compiled = explorer.compile(tmp_path / "m.onnx", check=True)
    for found, right in zip(compiled.run({"x": x}).values(), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6)
