"""Operators as the latest ONNX version means them: older forms are rewritten on import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import AttrValue

Attributes = dict[str, AttrValue]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator as the file has it; inputs and outputs that are left out are empty."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attributes
    opset: int


def modern(node: Node) -> Node:
    """The same operator in its latest form."""
    rewrite = _REWRITES.get(node.op)
    return rewrite(node) if rewrite else node


def _softmax(node: Node) -> Node:
    if node.opset >= 13:
        return node
    return replace(node, attrs={"axis": 1, **node.attrs, "flatten": 1})


def _dropout(node: Node) -> Node:
    """At inference only the data matters; a ratio does where the node may be training."""
    trains = node.opset >= 12 and len(node.inputs) > 2 and node.inputs[2]
    kept = {k: v for k, v in node.attrs.items() if k == "seed" and trains}
    return replace(node, inputs=node.inputs if trains else node.inputs[:1], attrs=kept)


def _batch_norm(node: Node) -> Node:
    if node.attrs.get("spatial", 1) != 1:
        raise UnsupportedOperator(
            f"BatchNormalization at {node.name!r}: spatial 0 has no kernel rule", where=node.name
        )
    kept = {k: v for k, v in node.attrs.items() if k in ("epsilon", "training_mode", "momentum")}
    return replace(node, attrs=kept)


def _upsample(node: Node) -> Node:
    """Before Resize: positions are scaled as they are, and rounded down."""
    attrs: Attributes = {
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
        **node.attrs,
    }
    inputs = (node.inputs[0], "", *node.inputs[1:2])
    return replace(node, op="Resize", inputs=inputs, attrs=attrs)


def _resize(node: Node) -> Node:
    """The region of interest is of use to one way of placing coordinates alone."""
    if node.opset < 11:
        return _upsample(node)
    if node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return node
    return replace(node, inputs=(node.inputs[0], "", *node.inputs[2:]))


def _split(node: Node) -> Node:
    if "split" in node.attrs or len(node.inputs) > 1 or "num_outputs" in node.attrs:
        return node
    return replace(node, attrs={**node.attrs, "num_outputs": len(node.outputs)})


def _renamed(op: str) -> Callable[[Node], Node]:
    """The same operator under its later name."""
    return lambda node: replace(node, op=op)


def _without(*names: str) -> Callable[[Node], Node]:
    """Drop attributes that say nothing about the result."""

    def rewrite(node: Node) -> Node:
        return replace(node, attrs={k: v for k, v in node.attrs.items() if k not in names})

    return rewrite


def _dft(node: Node) -> Node:
    """Before version 20 the axis is an attribute, 1 where it is left out."""
    return node if node.opset >= 20 else replace(node, attrs={"axis": 1, **node.attrs})


_REWRITES: Mapping[str, Callable[[Node], Node]] = {
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
