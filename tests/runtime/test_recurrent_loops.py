"""RNN, LSTM and GRU of symbolic length: loops of the program, against onnxruntime and the reference
interpreter.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.ir.calls import Loop
from explorer.ir.program import Program
from explorer.rammer import Options as RammerOptions
from explorer.transforms.shared_products import Options as RecurrentOptions
from tests.examples import examples
from tests.runtime.test_scans import in_one_launch

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
BOUNDED = ("Tanh", "Sigmoid", "Softsign", "ScaledTanh", "HardSigmoid")
UNBOUNDED = ("Relu", "Softplus", "LeakyRelu", "ThresholdedRelu", "Elu", "Affine")
WITH_BETA = {"Affine", "ScaledTanh", "HardSigmoid"}
WITH_ALPHA = WITH_BETA | {"LeakyRelu", "ThresholdedRelu", "Elu"}
NAMES = ("x", "W", "R", "B", "lengths", "h0", "c0", "P")


class Layer:
    """A random recurrent layer: attributes, sizes, which inputs it has, and which are constants.

    Its recurrence forgets, so that what differs in the last bit does not grow.

    onnxruntime knows no batch that is outermost: `oracle` is the same layer with the steps there.
    """

    def __init__(self, seed: int, op: str = "") -> None:
        self.random, self.rng = Random(seed), np.random.default_rng(seed)
        rnd = self.random
        self.op = op or rnd.choice(sorted(GATES))
        self.direction = rnd.choice(["forward", "reverse", "bidirectional"])
        self.ways = 1 + (self.direction == "bidirectional")
        self.by_batch = rnd.random() < 0.3
        self.width, self.hidden = rnd.choice([1, 3, 8]), rnd.choice([1, 2, 5, 16])
        self.batch, self.batch_is_free = rnd.choice([1, 2, 3, 7]), rnd.random() < 0.5
        self.attrs: dict[str, Any] = {"hidden_size": self.hidden, "direction": self.direction}
        self._attributes()
        self.known = {n for n in NAMES[1:4] + NAMES[7:] if rnd.random() < 0.7}
        self.weights = self._weights()
        self.has = {"x", "W", "R"} | {n for n in NAMES[3:] if rnd.random() < 0.5}
        self.has -= {"c0", "P"} if self.op != "LSTM" else set()
        self.outputs = 3 if self.op == "LSTM" else 2

    def _attributes(self) -> None:
        rnd = self.random
        if rnd.random() < 0.3:
            self.attrs["clip"] = rnd.choice([0.3, 1.5])
        if self.op == "LSTM" and rnd.random() < 0.3:
            self.attrs["input_forget"] = 1
        if self.op == "GRU":
            self.attrs["linear_before_reset"] = rnd.randint(0, 1)
        if rnd.random() < 0.5:
            count = ACTIVATIONS[self.op] * self.ways
            some = BOUNDED + UNBOUNDED if "clip" in self.attrs else BOUNDED  # else states explode
            names = [rnd.choice(some) for _ in range(count)]
            alphas, betas = (sum(n in w for n in names) for w in (WITH_ALPHA, WITH_BETA))
            self.attrs["activations"] = names
            self.attrs |= {"activation_alpha": self._numbers(alphas)} if alphas else {}
            self.attrs |= {"activation_beta": self._numbers(betas)} if betas else {}

    def _numbers(self, count: int) -> list[float]:
        return [self.random.choice([0.25, 0.5, 0.75]) for _ in range(count)]

    def array(self, *shape: int) -> np.ndarray:
        return (self.rng.standard_normal(shape) / 2).astype(np.float32)

    def _weights(self) -> dict[str, np.ndarray]:
        rows = GATES[self.op] * self.hidden
        return {
            "W": self.array(self.ways, rows, self.width),
            "R": self.array(self.ways, rows, self.hidden) / np.float32(np.sqrt(self.hidden)),
            "B": self.array(self.ways, 2 * rows),
            "P": self.array(self.ways, 3 * self.hidden),
        }

    def arrays(self, steps: int) -> dict[str, np.ndarray]:
        """All inputs that there may be, the steps outermost."""
        state = (self.ways, self.batch, self.hidden)
        return self.weights | {
            "x": self.array(steps, self.batch, self.width),
            "lengths": self.rng.integers(min(1, steps), steps + 1, self.batch).astype(np.int32),
            "h0": self.array(*state),
            "c0": self.array(*state),
        }

    def feeds(self, arrays: dict[str, np.ndarray], by_batch: bool) -> dict[str, np.ndarray]:
        found = {n: a for n, a in arrays.items() if n in self.has - self.known}
        turned = ("x", "h0", "c0") if by_batch else ()
        return {n: a.swapaxes(0, 1) if n in turned else a for n, a in found.items()}

    def model(self, by_batch: bool) -> onnx.ModelProto:
        batch: Any = "batch" if self.batch_is_free else self.batch
        shapes: dict[str, list[Any]] = {n: list(a.shape) for n, a in self.weights.items()}
        shapes |= {"x": ["seq", batch, self.width], "lengths": [batch]}
        shapes |= {n: [self.ways, batch, self.hidden] for n in ("h0", "c0")}
        for name in ("x", "h0", "c0") if by_batch else ():
            first, second, *rest = shapes[name]
            shapes[name] = [second, first, *rest]
        kinds = {"lengths": TensorProto.INT32}
        taken = NAMES if self.op == "LSTM" else NAMES[:6]
        names = [n if n in self.has else "" for n in taken]
        ends = [f"y{n}" for n in range(self.outputs)]
        attrs = self.attrs | ({"layout": 1} if by_batch else {})
        node = helper.make_node(self.op, names, ends, name="layer", **attrs)
        graph = helper.make_graph(
            [node],
            "layer",
            [
                helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), shapes[n])
                for n in NAMES
                if n in self.has - self.known
            ],
            [onnx.ValueInfoProto(name=n) for n in ends],
            [numpy_helper.from_array(self.weights[n], n) for n in self.known & self.has],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)

    def oracle(self, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
        """What onnxruntime answers, laid out as it is wanted here."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        made = self.model(False).SerializeToString()
        found = onnxruntime.InferenceSession(made, options).run(None, self.feeds(arrays, False))
        y, *last = (np.asarray(v) for v in found)
        if not self.by_batch:
            return [y, *last]
        return [y.transpose(2, 0, 1, 3), *(v.swapaxes(0, 1) for v in last)]


def is_one_loop(program: Program) -> None:
    """No library does any of it, and the tree of uTasks is the device's."""
    assert not program.library_calls
    assert sum(isinstance(b.expr, Loop) for _, b in program.bindings()) == 1
    tree = program.decisions.tasks
    assert tree is not None
    assert {t.level for t in (tree, *tree.parts)} == {"device"}


def compiled_of(proto: onnx.ModelProto, bounds: Any = None, **chosen: Any) -> Compilation:
    target = chosen.pop("target", "cpu")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "layer.onnx"
        onnx.save(proto, path)
        loaded = explorer.load(path, bounds)
        return explorer.compile(loaded, target, Options(**chosen))


def agree(found: Any, wanted: Any) -> None:
    for ours, right in zip(found, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        scale = max(1.0, float(np.abs(right).max(initial=0)))
        np.testing.assert_allclose(ours, right, 0, 4e-6 * scale)


@pytest.mark.exhaustive
@settings(max_examples=examples(4, few=2), deadline=None)
@given(st.integers(0, 2**32))
def test_a_layer_of_any_attributes_is_as_onnxruntime_says(seed: int) -> None:
    is_as_onnxruntime_says(seed)


@pytest.mark.exhaustive
@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32))
def test_a_hundred_layers_are_as_onnxruntime_says(seed: int) -> None:
    is_as_onnxruntime_says(seed)


def is_as_onnxruntime_says(seed: int) -> None:
    layer = Layer(seed)
    compiled = compiled_of(layer.model(layer.by_batch), {"seq": (0, 64)})
    is_one_loop(compiled.program)
    for steps in (5, 1, 2, 17, 0):
        arrays = layer.arrays(steps)
        feeds = layer.feeds(arrays, layer.by_batch)
        by_reference = list(explorer.evaluate(compiled.program, feeds).values())
        agree(compiled.run(feeds).values(), by_reference)
        if steps:  # onnxruntime divides by their number
            agree(by_reference, layer.oracle(arrays))
        in_one_launch(compiled, feeds)


@pytest.mark.few(1)
@pytest.mark.parametrize("op", sorted(GATES))
@pytest.mark.parametrize("target", ["cpu", "cpu-avx2"])
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_and_vectors_change_nothing(op: str, target: str, threads: int) -> None:
    layer = Layer(7, op)
    chosen = {"target": target, "rammer": RammerOptions(threads=threads)}
    compiled = compiled_of(layer.model(layer.by_batch), {"seq": (0, 300)}, **chosen)
    is_one_loop(compiled.program)
    for steps in (200, 1, 0):
        feeds = layer.feeds(layer.arrays(steps), layer.by_batch)
        agree(compiled.run(feeds).values(), explorer.evaluate(compiled.program, feeds).values())


def plain(op: str, steps: int | str, dtype: str = "float32") -> onnx.ModelProto:
    """A layer of both directions over two sequences."""
    rng, rows = np.random.default_rng(0), GATES[op] * 5

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((rng.standard_normal(shape) / 2).astype(dtype), name)

    weights = [weight("W", 2, rows, 3), weight("R", 2, rows, 5), weight("B", 2, 2 * rows)]
    attrs = {"hidden_size": 5, "direction": "bidirectional"}
    layer = helper.make_node(op, ["x", "W", "R", "B"], ["y", "last"], name="layer", **attrs)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    given = [helper.make_tensor_value_info("x", kind, [steps, 2, 3])]
    made = [onnx.ValueInfoProto(name=n) for n in ("y", "last")]
    graph = helper.make_graph([layer], "layer", given, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def loops(compiled: Compilation) -> int:
    return sum(isinstance(b.expr, Loop) for _, b in compiled.program.bindings())


@pytest.mark.few(1)
@pytest.mark.parametrize("op", sorted(GATES))
def test_a_static_layer_is_unrolled_up_to_as_many_steps_as_the_option_says(op: str) -> None:
    x = np.random.default_rng(1).standard_normal((9, 2, 3)).astype(np.float32)
    unrolled = compiled_of(plain(op, 9), recurrent=RecurrentOptions(unroll=9))
    loop = compiled_of(plain(op, 9), recurrent=RecurrentOptions(unroll=8))
    assert (loops(unrolled), loops(loop)) == (0, 1)
    agree(loop.run({"x": x}).values(), unrolled.run({"x": x}).values())


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("op", sorted(GATES))
def test_other_floats_are_a_loop_too(op: str, dtype: str) -> None:
    compiled = compiled_of(plain(op, "seq", dtype), {"seq": (0, 64)})
    assert loops(compiled) == 1
    for steps in (11, 0):
        x = np.random.default_rng(1).standard_normal((steps, 2, 3)).astype(dtype)
        for found, right in zip(
            compiled.run({"x": x}).values(), explorer.evaluate(compiled.program, {"x": x}).values()
        ):
            assert found.dtype == right.dtype == np.dtype(dtype)
            np.testing.assert_allclose(found, right, 1e-3 if dtype == "float16" else 1e-13)


def test_what_is_not_a_number_stays_so_from_its_step_on() -> None:
    compiled = compiled_of(plain("LSTM", "seq"), {"seq": (0, 64)})
    x = np.random.default_rng(1).standard_normal((9, 2, 3)).astype(np.float32)
    x[4, 1, 0] = np.nan
    y, last = compiled.run({"x": x}).values()
    nan = np.isnan(y).all(-1)
    assert not np.isnan(y)[~nan].any()
    assert nan[4:, 0, 1].all() and nan[:5, 1, 1].all() and nan.sum() == 10
    assert np.isnan(last[:, 1]).all() and not np.isnan(last[:, 0]).any()


def test_a_layer_in_a_branch_is_a_loop_within() -> None:
    made = plain("GRU", "seq")
    (node,) = made.graph.node
    other = helper.make_node("Mul", ["y", "two"], ["z"])
    sides = []
    for nodes, result in (([node, other], "z"), ([node], "y")):
        out = [onnx.ValueInfoProto(name=result)]
        sides.append(helper.make_graph([*nodes], "side", [], out))
    branch = helper.make_node("If", ["c"], ["out"], then_branch=sides[0], else_branch=sides[1])
    two = numpy_helper.from_array(np.float32(2).reshape(1), "two")
    given = [*made.graph.input, helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    out = [onnx.ValueInfoProto(name="out")]
    weights = [*made.graph.initializer, two]
    graph = helper.make_graph([branch], "branches", given, out, weights)
    opsets = [helper.make_opsetid("", 18)]
    compiled = compiled_of(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    x = np.random.default_rng(1).standard_normal((9, 2, 3)).astype(np.float32)
    (wanted, _) = compiled_of(made).run({"x": x}).values()
    for c, factor in ((True, 2), (False, 1)):
        feeds = {"x": x, "c": np.bool_(c)}
        agree(compiled.run(feeds).values(), [factor * wanted])
        in_one_launch(compiled, feeds)


@pytest.mark.parametrize("op", sorted(GATES))
def test_inputs_of_a_step_are_read_where_they_lie_in_both_directions(op: str) -> None:
    compiled = compiled_of(plain(op, "seq"), {"seq": (0, 64)})
    assert any(b.kernel_call.kernel.name == "row" for b in compiled.program.kernel_calls)
    x = np.random.default_rng(1).standard_normal((9, 2, 3)).astype(np.float32)
    (launch,) = compiled.executable._bound({"x": x}, {}).launches
    assert launch.operators and "row" not in [o.call.kernel.name for o in launch.operators]
