"""What a library call may name: the onnx package's reference implementation of an operator, a
function of the library "blas", or a registered one of the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import helper

from explorer.errors import ShapeError, UnsupportedOperator, fault
from explorer.ir.calls import Attrs
from explorer.ir.types import dtype_of, numpy_dtype
from explorer.ops import RECORDS
from explorer.ops.dtypes import code_of
from explorer.ops.reference import blas, linalg
from explorer.ops.reference.library_functions import find_function, library_functions

assert blas.FUNCTIONS and linalg.FUNCTIONS, "importing them registers functions"


def libraries() -> tuple[str, ...]:
    """The libraries that there are; "shape" is the host's own arithmetic on shapes."""
    return ("onnx", "shape", *dict.fromkeys(library for library, _ in library_functions()))


def call_library(
    library: str,
    function: str,
    attrs: Attrs,
    args: Sequence[np.ndarray | None],
    results: int,
    out: Sequence[np.ndarray] | None = None,
) -> tuple[Any, ...]:
    """The results of a library's function, arrays or lists of them; arrays of `out` are
    written by one that takes them.

    Raises UnsupportedOperator where there is no function of that name, and ShapeError or DtypeError
    where a result is not as its annotation says.
    """
    if library not in libraries():
        raise UnsupportedOperator(f"there is no library {library!r}; there are {libraries()}")
    match library:
        case "onnx":
            return _call_onnx(function, attrs, args, results)
        case "shape":
            return (_shape_function(function, attrs, args),)
        case _:
            return find_function(library, function)(attrs, args, results, out)


def _call_onnx(
    function: str, attrs: Attrs, args: Sequence[np.ndarray | None], results: int
) -> tuple[Any, ...]:
    given = tuple(a is not None for a in args)
    args = [_array(a) if isinstance(a, np.ndarray) else a for a in args]
    arrays = [a if isinstance(a, np.ndarray) else None for a in args]
    dtypes = tuple(None if a is None else dtype_of(a) for a in arrays)
    ranks = tuple(None if a is None else a.ndim for a in arrays)
    session = _reference(function, attrs, given, dtypes, ranks, results)
    feeds = {f"x{i}": a for i, a in enumerate(args) if a is not None}
    try:
        found = session.run(None, feeds)
    except Exception as error:  # the library's own, of any type
        raise UnsupportedOperator(
            f"the onnx package does not compute {function!r}: {error}", where=function
        ) from error
    if function == "Optional":  # the package puts the value into a list of its own
        found = [v[0] if isinstance(v, list) else v for v in found]
    return tuple(v if v is None or isinstance(v, list) else _array(v) for v in found)


def _array(value: Any) -> np.ndarray:
    """A value as an array; strings are objects."""
    found = np.asarray(value)
    return found.astype(object) if found.dtype.kind in "US" else found


def _shape_function(function: str, attrs: Attrs, args: Sequence[np.ndarray | None]) -> np.ndarray:
    """The numbers that the host computes for an operator whose shapes are values of the run, or
    one of its tables.
    """
    record = RECORDS.get(function)
    rule = None if record is None else record.run_time
    if rule is None:
        raise UnsupportedOperator(f"{function} has no shape function", where=function)
    given = dict(attrs)
    names, table, dtype = given.get("names", ()), given.pop("table", ""), given.pop("of", "")
    if table and rule.table is not None:
        return np.ascontiguousarray(rule.table(str(table), given, args), numpy_dtype(str(dtype)))
    assert isinstance(names, tuple)
    where = str(given.get("where", function))
    try:
        found = rule.values(given, args)
        if not found.keys() >= set(names):
            raise ShapeError(
                f"{function} at {where!r}: the run gives {len(found)} numbers, and "
                f"{len(names)} are needed",
                where=where,
                expected=", ".join(map(str, names)),
                found=", ".join(found),
            )
        return np.array([found[str(n)] for n in names], np.int64)
    except OverflowError as error:  # beyond 64 bits
        raise ShapeError(
            f"{function} at {where!r} does not take these values: {error}", where=where
        ) from error
    except Exception as problem:  # no answer of a rule
        raise fault(problem, f"the numbers that a run gives {function} at {where!r}") from problem


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
    except Exception as error:  # the library's own, of any type
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
        n: _attribute_value(v) for n, v in attrs if n not in ("opset", "domain")
    }
    domain = str(next((v for n, v in attrs if n == "domain"), ""))
    if isinstance(plain.get("to"), str):
        plain["to"] = code_of(plain["to"])
    version = next((v for n, v in attrs if n == "opset"), None)
    names = [f"x{i}" if g else "" for i, g in enumerate(given)]
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(function, names, outputs, domain=domain, **plain)
    inputs = [
        helper.make_tensor_value_info(f"x{i}", code_of(t), s)
        for i, (g, t, s) in enumerate(zip(given, dtypes, shapes, strict=True))
        if g and t
    ]
    values = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph([node], "call", inputs, values)
    opset = version if isinstance(version, int) else onnx.defs.onnx_opset_version()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])


def _attribute_value(value: Any) -> Any:
    """An attribute as the onnx package takes it: ("tensor", dtype, shape, elements) is a tensor,
    ("type", bytes in hexadecimal) a type.
    """
    if not isinstance(value, tuple):
        return value
    if len(value) == 2 and value[0] == "type":
        return onnx.TypeProto.FromString(bytes.fromhex(value[1]))
    if len(value) == 4 and value[0] == "tensor":
        _, dtype, shape, elements = value
        return helper.make_tensor("value", code_of(dtype), shape, elements)
    return list(value)
