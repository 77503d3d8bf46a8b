"""Upgrade of operators from older operator sets to ONNX's latest form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import AttrValue

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
