"""ONNX files with the low-bit products of a quantized model, as onnxruntime reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from explorer.errors import BadOption
from explorer.frontends.model import Model
from explorer.frontends.onnx.save_onnx import save_onnx
from explorer.ir.calls import OpCall
from explorer.ops.low_bit_products import BIAS, WEIGHTS
from explorer.quantization.constant_products import PRODUCT
from explorer.quantization.quantization import FLOAT

DOMAIN = "com.microsoft"
OPERATORS = frozenset({"MatMulNBits", "MatMulBnb4"})


def save_quantized(model: Model, source: Path, path: Path) -> None:
    """Write the ONNX file `source` with the products that `model`, read from it, was quantized to.

    Every other node stays as it is, and so do products inside of loops, branches and functions.

    Raises:
        BadOption: A file is no ONNX file, or a product of the model is not in the file's graph.
        TooLarge: The file would be too long.
    """
    if source.suffix != ".onnx" or not source.is_file():
        raise BadOption(f"{source} is no ONNX file", where=source)
    proto = onnx.load(source)
    nodes = {o: node for node in proto.graph.node for o in node.output}
    arrays: dict[str, np.ndarray] = {}
    replaced = 0
    for b in model.program.main.body:
        node = nodes.get(b.name.removesuffix(PRODUCT))
        if not isinstance(b.expr, OpCall) or b.expr.op not in OPERATORS or node is None:
            continue
        if node.op_type in OPERATORS:
            continue
        packed = [None if a is None else a.name for a in b.expr.args[WEIGHTS:BIAS]]
        arrays |= {n: model.program.constants[n].array for n in packed if n is not None}
        names = [node.input[0], *(n or "" for n in packed)]
        attrs: dict[str, Any] = dict(b.expr.attrs)
        if b.name in nodes:
            names += node.input[2:]
        else:
            bias = helper.make_node("Add", [b.name, node.input[2]], list(node.output))
            proto.graph.node.insert(list(proto.graph.node).index(node) + 1, bias)
        new = helper.make_node(b.expr.op, names, [b.name], node.name, domain=DOMAIN, **attrs)
        node.CopyFrom(new)
        replaced += 1
    _check_all(model, replaced)
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
    _drop_unread(proto.graph)
    if all(opset.domain != DOMAIN for opset in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    save_onnx(proto, path)


def _check_all(model: Model, replaced: int) -> None:
    """Raise BadOption if the file lacks a product of the model."""
    layers = model.quantization.layers if model.quantization else ()
    low = [layer.operator for layer in layers if layer.kind != FLOAT]
    if replaced != len(low):
        raise BadOption(
            f"{len(low) - replaced} of {len(low)} products are inside of loops, branches or "
            "functions, where a file cannot have them",
            where=model.name,
            try_="keep= with their names",
        )


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Drop constants, and transposes, that no node reads."""
    for op in ("Transpose", "Constant"):
        read = _read(graph)
        for node in list(graph.node):
            if node.op_type == op and node.output[0] not in read:
                graph.node.remove(node)
    constants, read = {t.name for t in graph.initializer}, _read(graph)
    unread = [t for t in graph.initializer if t.name not in read]
    for tensor in unread:
        graph.initializer.remove(tensor)
    inputs = [i for i in graph.input if i.name in constants and i.name not in read]
    for value in inputs:
        graph.input.remove(value)


def _read(graph: onnx.GraphProto) -> set[str]:
    """Return the names that nodes of a graph and of the graphs inside of it read, and outputs."""
    read = {o.name for o in graph.output}
    for node in graph.node:
        read.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                read |= _read(inner)
    return read
