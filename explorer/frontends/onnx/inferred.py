"""What ONNX infers of the types of a graph's values, asked once and only where a body needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import helper

from explorer.ir.types import DType, numpy_dtype

Types = Mapping[str, onnx.TypeProto]


def tensor_type(dtype: DType, shape: Sequence[int]) -> onnx.TypeProto:
    """The type of a constant."""
    kind = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
    return helper.make_tensor_type_proto(kind, list(shape))


def types_of_model(model: onnx.ModelProto, constants: Types) -> Types:
    """The types of all values of a model's graph and of the graphs in it; none where ONNX fails."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    known = {i.name for i in whole.graph.input}
    whole.graph.input.extend(
        helper.make_value_info(name, type) for name, type in constants.items() if name not in known
    )
    return {**constants, **_inferred(whole)}


def types_of_body(
    nodes: Iterable[onnx.NodeProto],
    inputs: Types,
    opsets: Mapping[str, int],
    functions: Iterable[onnx.FunctionProto],
) -> Types:
    """The types of all values of a function's body for inputs of these types."""
    values = [helper.make_value_info(name, type) for name, type in inputs.items()]
    graph = helper.make_graph(list(nodes), "body", values, [])
    imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    return {**inputs, **_inferred(model)}


def _inferred(model: onnx.ModelProto) -> Types:
    try:
        found = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # ONNX's own, of any type; what is wrong with the model, the import says
        return {}
    return dict(_values(found.graph, 0))


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
