"""Libraries of library calls.

"numpy" has the reference of each operator's record, "onnx" that of the onnx package, "blas"
products, and a user's library the functions registered in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from onnx import helper

from explorer.errors import ShapeError, TooLarge, UnsupportedOperator, fault
from explorer.ir.calls import Attrs, Var
from explorer.ir.types import Tensor, dtype_of, numpy_dtype
from explorer.ops import RECORDS
from explorer.ops.interpreter import linear_algebra
from explorer.ops.interpreter.library_functions import find_function, library_functions
from explorer.ops.record import Reference, Site, arguments_by_value, code_of
from explorer.ops.shape_rules import Unprovable
from explorer.ops.widening import reference

WINDOWS = "uses other windows if it pads by itself, or if the last ones are not complete"
WRONG_IN_ONNX = {  # onnx 1.23, compared with our references and onnxruntime
    "AveragePool": WINDOWS,
    "ConvTranspose": "crops at other ends if the shape of the result is given",
    "GlobalMaxPool": "returns another rank unless there are two spatial dims",
    "LpNormalization": "sums elements, not their absolute values, if p is 1",
    "LpPool": WINDOWS,
    "LRN": "normalises only as many channels as there are images",
    "MaxPool": WINDOWS,
}

assert linear_algebra.BLAS and linear_algebra.LINALG, "importing them registers functions"


def libraries() -> tuple[str, ...]:
    """Return the names of the libraries; "shape" is the host's own arithmetic on shapes."""
    return ("numpy", "onnx", "shape", *dict.fromkeys(library for library, _ in library_functions()))


def call_library(
    library: str,
    function: str,
    attrs: Attrs,
    args: Sequence[np.ndarray | None],
    results: int,
    out: Sequence[np.ndarray] | None = None,
) -> tuple[Any, ...]:
    """Call a library's function; return arrays or lists of them.

    A function that takes `out` writes into these arrays. Raises UnsupportedOperator if there is no
    function of that name, and ShapeError or DtypeError if a result contradicts its annotation.
    """
    if library not in libraries():
        raise UnsupportedOperator(f"there is no library {library!r}; there are {libraries()}")
    match library:
        case "numpy":
            _check_arguments(function, attrs, args, results)
            return operator_results(function, attrs, args, results)
        case "onnx":
            return _call_onnx(function, attrs, args, results)
        case "shape":
            return (_shape_function(function, attrs, args),)
        case _:
            return find_function(library, function)(attrs, args, results, out)


def operator_results(
    op: str, attrs: Attrs, args: Sequence[np.ndarray | None], results: int
) -> tuple[Any, ...]:
    """Evaluate an operator by its record.

    The onnx package evaluates it if there is no record, or if the record does not take this form.
    """
    record = RECORDS.get(op)
    arrays = not any(isinstance(a, list | tuple) for a in args)
    if record is None or not arrays:  # sequences and optional values have no records
        return _call_onnx(op, attrs, args, results)
    attributes = dict(attrs)
    for position, name in record.by_value.items():
        value = args[position] if position < len(args) else None
        if value is not None:
            attributes[name] = value.item() if value.ndim == 0 else tuple(value.tolist())
            if position == record.dtype_from:
                attributes["dtype"] = value.dtype.name
    if "num_outputs" not in attributes and op == "Split":
        attributes["num_outputs"] = results
    try:
        with np.errstate(all="ignore"):
            values = reference(record, attributes, args)
    except UnsupportedOperator:
        if op in WRONG_IN_ONNX:
            raise
        return _call_onnx(op, attrs, args, results)
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:  # NumPy's, of the values
        raise ShapeError(f"{op} does not take these values: {error}", where=op) from error
    except MemoryError as error:
        raise TooLarge(f"there is no memory for the result of {op}", where=op) from error
    return values[:results] if isinstance(values, tuple) else (values,)


def _check_arguments(
    op: str, attrs: Attrs, args: Sequence[np.ndarray | None], results: int
) -> None:
    """Raise ShapeError unless the arguments of a run satisfy the operator's shape rule."""
    record = RECORDS.get(op)
    if record is None or not all(a is None or isinstance(a, np.ndarray) for a in args):
        return
    vars = tuple(
        None if a is None else Var(f"x{i}", Tensor(a.shape, dtype_of(a)))
        for i, a in enumerate(args)
    )
    read = record.by_value
    values = tuple(
        a.astype(object) if a is not None and i in read else None for i, a in enumerate(args)
    )
    site = Site(op, op, vars, dict(attrs), values=values, results=results)
    with suppress(Unprovable, UnsupportedOperator):  # of a form that has a reference alone
        record.deduce(arguments_by_value(record, site))


def _call_onnx(
    function: str, attrs: Attrs, args: Sequence[np.ndarray | None], results: int
) -> tuple[Any, ...]:
    if function in CORRECTED:
        return tuple(CORRECTED[function](dict(attrs), args)[:results])
    is_present = tuple(a is not None for a in args)
    args = [_array(a) if isinstance(a, np.ndarray) else a for a in args]
    arrays = [a if isinstance(a, np.ndarray) else None for a in args]
    dtypes = tuple(None if a is None else dtype_of(a) for a in arrays)
    ranks = tuple(None if a is None else a.ndim for a in arrays)
    session = _reference(function, attrs, is_present, dtypes, ranks, results)
    feeds = {f"x{i}": a for i, a in enumerate(args) if a is not None}
    try:
        values = session.run(None, feeds)
    except Exception as error:  # the library's own, of any type
        raise UnsupportedOperator(
            f"the onnx package does not compute {function!r}: {error}", where=function
        ) from error
    if function == "Optional":  # the package puts the value into a list of its own
        values = [v[0] if isinstance(v, list) else v for v in values]
    return tuple(v if v is None or isinstance(v, list) else _array(v) for v in values)


def _array(value: Any) -> np.ndarray:
    """Return a value as an array; strings are objects."""
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def _shape_function(function: str, attrs: Attrs, args: Sequence[np.ndarray | None]) -> np.ndarray:
    """Return the numbers, or one of the tables, that the host computes for an operator.

    Its shapes are values of the run.
    """
    record = RECORDS.get(function)
    rule = None if record is None else record.run_time
    if rule is None:
        raise UnsupportedOperator(f"{function} has no shape function", where=function)
    attributes = dict(attrs)
    names, table, dtype = (
        attributes.get("names", ()),
        attributes.pop("table", ""),
        attributes.pop("of", ""),
    )
    if table and rule.table is not None:
        return np.ascontiguousarray(
            rule.table(str(table), attributes, args), numpy_dtype(str(dtype))
        )
    assert isinstance(names, tuple)
    where = str(attributes.get("where", function))
    try:
        numbers = rule.values(attributes, args)
        if not numbers.keys() >= set(names):
            raise ShapeError(
                f"{function} at {where!r}: the run computes {len(numbers)} numbers, and "
                f"{len(names)} are needed",
                where=where,
                expected=", ".join(map(str, names)),
                actual=", ".join(numbers),
            )
        return np.array([numbers[str(n)] for n in names], np.int64)
    except OverflowError as error:  # beyond 64 bits
        raise ShapeError(
            f"{function} at {where!r} does not take these values: {error}", where=where
        ) from error
    except Exception as problem:  # no answer of a rule
        raise fault(problem, f"the run-time numbers of {function} at {where!r}") from problem


@lru_cache(maxsize=256)
def _reference(
    function: str,
    attrs: Attrs,
    is_present: tuple[bool, ...],
    dtypes: tuple[str | None, ...],
    ranks: tuple[int | None, ...],
    results: int,
) -> Any:
    # imported here because it takes half a second, and only a library call needs it
    package = import_module("onnx.reference")
    model = one_node_model(
        function, attrs, is_present, dtypes, [[None] * (r or 0) for r in ranks], results
    )
    try:
        return package.ReferenceEvaluator(model)
    except Exception as error:  # the library's own, of any type
        raise UnsupportedOperator(f"the onnx package has no {function!r}: {error}") from error


def one_node_model(
    function: str,
    attrs: Attrs,
    is_present: Sequence[bool],
    dtypes: Sequence[str | None],
    shapes: Sequence[Sequence[int | None]],
    results: int,
) -> onnx.ModelProto:
    """Return a model of one operator; the attribute `opset` is the version of the operator set."""
    plain: dict[str, Any] = {
        n: _attribute_value(v) for n, v in attrs if n not in ("opset", "domain")
    }
    domain = str(next((v for n, v in attrs if n == "domain"), ""))
    if isinstance(plain.get("to"), str):
        plain["to"] = code_of(plain["to"])
    version = next((v for n, v in attrs if n == "opset"), None)
    names = [f"x{i}" if g else "" for i, g in enumerate(is_present)]
    outputs = [f"y{i}" for i in range(results)]
    node = helper.make_node(function, names, outputs, domain=domain, **plain)
    inputs = [
        helper.make_tensor_value_info(f"x{i}", code_of(t), s)
        for i, (g, t, s) in enumerate(zip(is_present, dtypes, shapes, strict=True))
        if g and t
    ]
    values = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph([node], "call", inputs, values)
    opset = version if isinstance(version, int) else onnx.defs.onnx_opset_version()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)])


def _attribute_value(value: Any) -> Any:
    """Return an attribute for the onnx package.

    ("tensor", dtype, shape, elements) is a tensor, ("type", bytes in hexadecimal) a type.
    """
    if not isinstance(value, tuple):
        return value
    if len(value) == 2 and value[0] == "type":
        return onnx.TypeProto.FromString(bytes.fromhex(value[1]))
    if len(value) == 4 and value[0] == "tensor":
        _, dtype, shape, elements = value
        return helper.make_tensor("value", code_of(dtype), shape, elements)
    return list(value)


# Unique with ONNX's order; the onnx package's evaluator sorts even if it must not.


def unique(attrs: Mapping[str, Any], args: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Return distinct elements or rows, their first positions, each element's position, and counts.

    They are in the order of the first positions unless `sorted`.
    """
    x, axis = args[0], attrs.get("axis")
    values, first, places, counts = np.unique(x, True, True, True, axis=axis)
    places = places.reshape(-1)
    if not attrs.get("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, places = first[order], counts[order], np.argsort(order)[places]
    return values, *(a.astype(np.int64) for a in (first, places, counts))


CORRECTED: dict[str, Reference] = {"Unique": unique}  # without a record, in its place


# References of records by the onnx package's own implementation.


def onnx_reference(op: str, opset: int, results: int = 1) -> Reference:
    """Return the reference of `op` by the semantics of ONNX opset `opset`."""

    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        is_present = tuple(a is not None for a in args)
        session = _untyped_session(op, opset, tuple(attrs.items()), is_present, results)
        values = session.run(None, {f"x{i}": a for i, a in enumerate(args) if a is not None})
        return values[0] if results == 1 else tuple(values)

    return reference


@lru_cache(maxsize=64)
def _untyped_session(
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
