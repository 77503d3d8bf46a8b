"""What a library call may name: the onnx package's reference implementation of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import helper

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import Attrs
from explorer.ir.types import numpy_dtype

LIBRARIES = ("onnx",)


def call_library(
    library: str, function: str, attrs: Attrs, args: Sequence[np.ndarray | None], results: int
) -> tuple[np.ndarray, ...]:
    """The results of a library's function; UnsupportedOperator where it has none of that name."""
    if library not in LIBRARIES:
        raise UnsupportedOperator(f"there is no library {library!r}; there are {LIBRARIES}")
    given = tuple(a is not None for a in args)
    dtypes = tuple(None if a is None else str(a.dtype.name) for a in args)
    ranks = tuple(None if a is None else a.ndim for a in args)
    session = _reference(function, attrs, given, dtypes, ranks, results)
    feeds = {f"x{i}": a for i, a in enumerate(args) if a is not None}
    return tuple(np.asarray(v) for v in session.run(None, feeds))


@lru_cache(maxsize=256)
def _reference(
    function: str,
    attrs: Attrs,
    given: tuple[bool, ...],
    dtypes: tuple[str | None, ...],
    ranks: tuple[int | None, ...],
    results: int,
) -> Any:
    # imported here because it takes half a second, and only a library call needs it
    reference = import_module("onnx.reference")
    model = one_node_model(
        function, attrs, given, dtypes, [[None] * (r or 0) for r in ranks], results
    )
    try:
        return reference.ReferenceEvaluator(model)
    except Exception as error:
        raise UnsupportedOperator(f"the onnx package has no {function!r}: {error}") from error


def one_node_model(
    function: str,
    attrs: Attrs,
    given: Sequence[bool],
    dtypes: Sequence[str | None],
    shapes: Sequence[Sequence[int | None]],
    results: int,
) -> onnx.ModelProto:
    """A model of one operator; the attribute `opset` is the version of the operator set."""
    plain: dict[str, Any] = {
        n: list(v) if isinstance(v, tuple) else v for n, v in attrs if n != "opset"
    }
    version = next((v for n, v in attrs if n == "opset"), None)
    names = [f"x{i}" if g else "" for i, g in enumerate(given)]
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(function, names, outputs, **plain)
    inputs = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(numpy_dtype(t)), s)
        for i, (g, t, s) in enumerate(zip(given, dtypes, shapes, strict=True))
        if g and t
    ]
    values = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph([node], "call", inputs, values)
    opset = version if isinstance(version, int) else onnx.defs.onnx_opset_version()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
