"""Reference of a record by the onnx package's own implementation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

import onnx
from onnx import helper

from explorer.ops.record import Reference


def onnx_reference(op: str, opset: int, results: int = 1) -> Reference:
    """Return the reference of `op` by the semantics of ONNX opset `opset`."""

    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        is_present = tuple(a is not None for a in args)
        session = _session(op, opset, tuple(attrs.items()), is_present, results)
        values = session.run(None, {f"x{i}": a for i, a in enumerate(args) if a is not None})
        return values[0] if results == 1 else tuple(values)

    return reference


@lru_cache(maxsize=64)
def _session(
    op: str, opset: int, attrs: tuple[Any, ...], is_present: tuple[bool, ...], results: int
) -> Any:
    names = [f"x{i}" if g else "" for i, g in enumerate(is_present)]
    outputs = [f"y{i}" for i in range(results)]
    plain: Any = {n: list(v) if isinstance(v, tuple) else v for n, v in attrs}
    node = helper.make_node(op, names, outputs, **plain)
    inputs, values = ([onnx.ValueInfoProto(name=n) for n in row] for row in (names, outputs))
    graph = helper.make_graph([node], "call", [i for i in inputs if i.name], values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    # imported here because it takes half a second, and only this needs it
    return import_module("onnx.reference").ReferenceEvaluator(model)
