"""A kernel without tasks orders nothing: who reads behind it waits for what it waited for."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import explorer
from explorer.rammer import Options as RammerOptions


def joined(path: Path) -> str:
    """`sum over rows of concat(softmax(x), softmax(z))`, where z may have no rows."""
    axes = numpy_helper.from_array(np.array([0]), "axes")
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"]),
        helper.make_node("Softmax", ["z"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=0),
        helper.make_node("ReduceSum", ["c", "axes"], ["r"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (rows, 8192))
        for name, rows in (("x", "n"), ("z", "m"))
    ]
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "joined", inputs, [result], [axes])
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return str(path)


def test_a_reader_waits_for_the_part_before_an_empty_one(tmp_path):
    options = explorer.Options(rammer=RammerOptions(threads=2))
    model = explorer.load(joined(tmp_path / "m.onnx"), {"m": (0, 64)})
    c = explorer.compile(model, options=options)
    (schedule,) = c.schedules({"n": 16, "m": 0})
    operators = schedule.facts.operators
    waited = set(operators[-1].reads)
    for n in reversed(range(len(operators) - 1)):
        waited |= set(operators[n].reads) if n in waited else set()
    made = {n for n, o in enumerate(operators[:-1]) if o.tasks}
    assert made and made <= waited
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((16, 8192)), np.zeros((0, 8192), np.float32)
    x = x.astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    want = (e / e.sum(1, keepdims=True)).sum(0, keepdims=True)
    for _ in range(30):
        np.testing.assert_allclose(c.run({"x": x, "z": z})["r"], want, rtol=1e-4, atol=1e-7)
