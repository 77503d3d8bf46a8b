"""Attributes and constants of ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import onnx

from explorer.budget import check_room
from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.files.tensors import checked_shape, element_type, small_array
from explorer.frontends.onnx.opsets import OperatorNode
from explorer.frontends.onnx.scope import Scope
from explorer.ir.calls import AttrValue
from explorer.ir.types import dtype_of, numpy_dtype
from explorer.ops import RECORDS

ELEMENT_TYPES = {("Cast", "to"), ("EyeLike", "dtype")}  # attributes of operators with a record
MOST_ATTRIBUTE_ELEMENTS = 1 << 16


def make_constant(scope: Scope, name: str, array: np.ndarray) -> None:
    """Bind a graph value to a constant."""
    if name in scope.values:
        raise BadModelFile(f"defines the value {name!r} twice")
    plain = scope.named(name)
    scope.values[name] = scope.importer.constant(plain, array, inner=scope.is_inner)


def constant_value(proto: onnx.NodeProto, name: str) -> np.ndarray:
    """Return the value of a Constant node."""
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for attribute in proto.attribute:
        if attribute.name == "value":
            return small_array(attribute.t)
        if attribute.name in kinds:
            value = onnx.helper.get_attribute_value(attribute)
            return np.array(value, kinds[attribute.name])
    raise UnsupportedOperator(f"Constant at {name!r} holds no number or tensor", where=name)


def fold_constant_of_shape(scope: Scope, node: OperatorNode) -> bool:
    """Bind the result of ConstantOfShape as a constant if its shape is constant."""
    if node.op != "ConstantOfShape" or len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    shape_constant = scope.importer.constants.get(scope.find(node.inputs[0]).name)
    if shape_constant is None:
        return False
    dtype = numpy_dtype(str(node.attrs.get("dtype", "float32")))
    shape = checked_shape(shape_constant.array.reshape(-1).tolist(), node.name)
    scope.importer.filled_bytes += prod(shape) * dtype.itemsize
    what = f"{node.outputs[0]!r}, {prod(shape)} equal elements, with all that is filled before it,"
    check_room(scope.importer.filled_bytes, what, node.outputs[0])
    value: Any = node.attrs.get("value", 0)
    make_constant(scope, node.outputs[0], np.full(shape, value, dtype))
    scope.importer.drop(node.name, "became a constant")
    return True


# Attributes.


def attributes(proto: onnx.NodeProto, name: str) -> dict[str, AttrValue]:
    """Return the attributes of an operator as plain values."""
    values: dict[str, AttrValue] = {}
    for attribute in proto.attribute:
        values.update(_attribute(proto, attribute, name))
    return values


def _tensor(attribute: onnx.AttributeProto, name: str) -> AttrValue:
    """Return a small tensor as plain values, for a library call."""
    array = small_array(attribute.t)
    if array.size > MOST_ATTRIBUTE_ELEMENTS:
        raise BadModelFile(f"holds {array.size} elements in an attribute of {name!r}")
    values = tuple(v if isinstance(v, str) else v.item() for v in array.reshape(-1))
    return ("tensor", dtype_of(array), tuple(array.shape), values)


def _attribute(
    proto: onnx.NodeProto, attribute: onnx.AttributeProto, name: str
) -> Mapping[str, AttrValue]:
    kinds = onnx.AttributeProto
    if (proto.op_type, attribute.name) in ELEMENT_TYPES:
        return {attribute.name: element_type(attribute.i, name)}
    match attribute.type:
        case kinds.INT:
            return {attribute.name: attribute.i}
        case kinds.FLOAT:
            return {attribute.name: attribute.f}
        case kinds.STRING:
            return {attribute.name: attribute.s.decode("utf-8", "replace")}
        case kinds.INTS:
            return {attribute.name: tuple(attribute.ints)}
        case kinds.FLOATS:
            return {attribute.name: tuple(attribute.floats)}
        case kinds.STRINGS:
            return {attribute.name: tuple(s.decode("utf-8", "replace") for s in attribute.strings)}
        case kinds.TYPE_PROTO:  # the type of an Optional without a value
            return {attribute.name: ("type", attribute.tp.SerializeToString().hex())}
        case kinds.TENSOR if proto.op_type == "ConstantOfShape":
            value = small_array(attribute.t)
            if value.size != 1:
                raise BadModelFile(f"fills the result of {name!r} with {value.size} values")
            return {"value": value.reshape(()).item(), "dtype": dtype_of(value)}
        case kinds.TENSOR if proto.op_type not in RECORDS:
            return {attribute.name: _tensor(attribute, name)}
    raise UnsupportedOperator(
        f"{proto.op_type} at {name!r}: the attribute {attribute.name!r} is not supported",
        where=name,
    )
