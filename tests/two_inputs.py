"""The smallest model with two inputs, a weight and a symbol."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def two_inputs(op: str = "MatMul", domain: str = "") -> onnx.ModelProto:
    """`y = relu(a @ w + b)` with a: float32[batch, 4] and b: float32[3]."""
    weight = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    nodes = [
        helper.make_node(op, ["a", "w"], ["product"], name="the_product", domain=domain),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, ["batch", 4]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [3]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])]
    graph = helper.make_graph(nodes, "two_inputs", inputs, outputs, [weight])
    known = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=known, ir_version=8)
