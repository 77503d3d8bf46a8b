"""ONNX's schemas: the number of inputs and outputs of a node, and its attributes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator


@lru_cache(maxsize=1024)
def schema_of(op: str, opset: int, domain: str = "") -> Any:
    """Return ONNX's schema of an operator in a version of its domain; None if there is none."""
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a name that is not text
        return None


def check_node(node: onnx.NodeProto, name: str, opset: int, domain: str = "") -> None:
    """Raise BadModelFile unless the node fits its schema, UnsupportedOperator if it has none."""
    schema = schema_of(node.op_type, opset, domain)
    if schema is None:
        of = f"the domain {domain!r} of ONNX" if domain else "ONNX"
        raise UnsupportedOperator(
            f"{node.op_type} at {name!r} is not an operator of version {opset} of {of}", where=name
        )
    where = f"{node.op_type} at {name!r}"
    inputs, outputs = len(node.input), len(node.output)
    if not schema.min_input <= inputs <= schema.max_input:
        raise BadModelFile(f"gives {where} {inputs} inputs")
    if not schema.min_output <= outputs <= schema.max_output:
        raise BadModelFile(f"reads {outputs} outputs of {where}")
    for formal, value in zip(schema.inputs, node.input, strict=False):
        if not value and formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            raise BadModelFile(f"leaves out the input {formal.name!r} of {where}")
    _check_attributes(node, schema, where)


def _check_attributes(node: onnx.NodeProto, schema: Any, where: str) -> None:
    names = set()
    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        if formal is None or int(formal.type) != attribute.type or attribute.ref_attr_name:
            raise BadModelFile(
                f"gives {where} an attribute {attribute.name!r} that ONNX does not define"
            )
        names.add(attribute.name)
    for name, formal in schema.attributes.items():
        if formal.required and name not in names:
            raise BadModelFile(f"omits the attribute {name!r} of {where}")
