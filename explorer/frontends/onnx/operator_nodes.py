"""Operators of ONNX nodes: upgrades to the latest form, constants, and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import onnx

from explorer.errors import BadModelFile, UnsupportedOperator
from explorer.frontends.onnx.scope import Scope
from explorer.frontends.onnx.tensors import checked_shape, element_type, small_array
from explorer.ir.calls import AttrValue
from explorer.ir.types import dtype_of, numpy_dtype
from explorer.ops import RECORDS
from explorer.process.budget import check_room

Attributes = dict[str, AttrValue]


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """An operator as in the file; omitted inputs and outputs are empty strings."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attributes
    opset: int


def to_latest_version(node: OperatorNode) -> OperatorNode:
    """Return the same operator in its latest form."""
    rewrite = _REWRITES.get(node.op)
    return rewrite(node) if rewrite else node


def _softmax(node: OperatorNode) -> OperatorNode:
    if node.opset >= 13:
        return node
    return replace(node, attrs={"axis": 1, **node.attrs, "flatten": 1})


def _dropout(node: OperatorNode) -> OperatorNode:
    """Keep the data alone at inference; the ratio and seed only matter if the node may train."""
    trains = node.opset >= 12 and len(node.inputs) > 2 and node.inputs[2]
    attrs = {k: v for k, v in node.attrs.items() if k == "seed" and trains}
    return replace(node, inputs=node.inputs if trains else node.inputs[:1], attrs=attrs)


def _batch_norm(node: OperatorNode) -> OperatorNode:
    if node.attrs.get("spatial", 1) != 1:
        raise UnsupportedOperator(
            f"BatchNormalization at {node.name!r}: spatial 0 is not supported", where=node.name
        )
    attrs = {k: v for k, v in node.attrs.items() if k in ("epsilon", "training_mode", "momentum")}
    return replace(node, attrs=attrs)


def _upsample(node: OperatorNode) -> OperatorNode:
    """Return a Resize with asymmetric coordinates rounded down."""
    attrs: Attributes = {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
        **node.attrs,
    }
    inputs = (node.inputs[0], "", *node.inputs[1:2])
    return replace(node, op="Resize", inputs=inputs, attrs=attrs)


def _resize(node: OperatorNode) -> OperatorNode:
    """Drop the region of interest, which only tf_crop_and_resize uses."""
    if node.opset < 11:
        return _upsample(node)
    if node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return node
    return replace(node, inputs=(node.inputs[0], "", *node.inputs[2:]))


def _split(node: OperatorNode) -> OperatorNode:
    if "split" in node.attrs or len(node.inputs) > 1 or "num_outputs" in node.attrs:
        return node
    return replace(node, attrs={**node.attrs, "num_outputs": len(node.outputs)})


def _renamed(op: str) -> Callable[[OperatorNode], OperatorNode]:
    """Return a rewrite to the operator's later name."""
    return lambda node: replace(node, op=op)


def _without(*names: str) -> Callable[[OperatorNode], OperatorNode]:
    """Return a rewrite that drops attributes without influence on the result."""

    def rewrite(node: OperatorNode) -> OperatorNode:
        return replace(node, attrs={k: v for k, v in node.attrs.items() if k not in names})

    return rewrite


def _dft(node: OperatorNode) -> OperatorNode:
    """Set the axis, which before version 20 is an attribute with default 1."""
    return node if node.opset >= 20 else replace(node, attrs={"axis": 1, **node.attrs})


_REWRITES: Mapping[str, Callable[[OperatorNode], OperatorNode]] = {
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Hardmax": _softmax,
    "Scatter": _renamed("ScatterElements"),
    "Dropout": _dropout,
    "BatchNormalization": _batch_norm,
    "Upsample": _upsample,
    "Resize": _resize,
    "Split": _split,
    "DFT": _dft,
    "LayerNormalization": _without("stash_type"),
    "RMSNormalization": _without("stash_type"),
    "GroupNormalization": _without("stash_type"),
}


# Constants.


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
