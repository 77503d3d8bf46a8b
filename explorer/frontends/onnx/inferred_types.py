"""Types of a graph's values as inferred by ONNX, computed once and only where a body needs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import helper

from explorer.ir.types import DType, numpy_dtype

Types = Mapping[str, onnx.TypeProto]


def tensor_type(dtype: DType, shape: Sequence[int]) -> onnx.TypeProto:
    """Return the type of a constant."""
    kind = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
    return helper.make_tensor_type_proto(kind, list(shape))


def types_of_model(model: onnx.ModelProto, constants: Types) -> Types:
    """Return the types of all values of a model's graphs, as far as ONNX infers them."""
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    input_names = {i.name for i in complete.graph.input}
    complete.graph.input.extend(
        helper.make_value_info(name, type)
        for name, type in constants.items()
        if name not in input_names
    )
    return {**constants, **_infer(complete)}


def types_of_body(
    nodes: Iterable[onnx.NodeProto],
    inputs: Types,
    opsets: Mapping[str, int],
    functions: Iterable[onnx.FunctionProto],
) -> Types:
    """Return the types of all values of a function's body for inputs of these types."""
    values = [helper.make_value_info(name, type) for name, type in inputs.items()]
    graph = helper.make_graph(list(nodes), "body", values, [])
    imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    return {**inputs, **_infer(model)}


def _infer(model: onnx.ModelProto) -> Types:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # of any type; the import itself reports errors of the model
        return {}
    return dict(_values(inferred.graph, 0))


def _values(graph: onnx.GraphProto, depth: int) -> Iterable[tuple[str, onnx.TypeProto]]:
    for tensor in graph.initializer:
        yield tensor.name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.HasField("type"):
            yield value.name, value.type
    for node in graph.node if depth < 32 else ():
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _values(attribute.g, depth + 1)
