"""What ONNX itself says a node may look like: how many inputs and outputs, and which attributes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

from explorer.errors import BadModelFile, UnsupportedOperator


@lru_cache(maxsize=1024)
def schema_of(op: str, opset: int, domain: str = "") -> Any:
    """What ONNX says of an operator of a version of its domain; None where there is none."""
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a name that is no text
        return None


def check_node(node: onnx.NodeProto, name: str, opset: int, domain: str = "") -> None:
    """BadModelFile unless the node fits its schema; UnsupportedOperator if there is none."""
    schema = schema_of(node.op_type, opset, domain)
    if schema is None:
        of = f"the domain {domain!r} of ONNX" if domain else "ONNX"
        raise UnsupportedOperator(
            f"{node.op_type} at {name!r} is no operator of version {opset} of {of}", where=name
        )
    where = f"{node.op_type} at {name!r}"
    given, made = len(node.input), len(node.output)
    if not schema.min_input <= given <= schema.max_input:
        raise BadModelFile(f"gives {where} {given} inputs")
    if not schema.min_output <= made <= schema.max_output:
        raise BadModelFile(f"wants {made} outputs of {where}")
    for formal, value in zip(schema.inputs, node.input, strict=False):
        if not value and formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            raise BadModelFile(f"leaves out the input {formal.name!r} of {where}")
    _check_attributes(node, schema, where)


def _check_attributes(node: onnx.NodeProto, schema: Any, where: str) -> None:
    found = set()
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None or int(known.type) != attribute.type or attribute.ref_attr_name:
            raise BadModelFile(f"gives {where} an attribute {attribute.name!r} that ONNX has not")
        found.add(attribute.name)
    for name, known in schema.attributes.items():
        if known.required and name not in found:
            raise BadModelFile(f"gives {where} no attribute {name!r}")
