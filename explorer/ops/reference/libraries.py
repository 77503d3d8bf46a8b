"""Libraries of library calls: "numpy" has the reference of each operator's record, "onnx" that of
the onnx package, "blas" products, and a user's library the functions registered in it.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from explorer.ops.arithmetic.broadcast import Unprovable
from explorer.ops.dtypes import code_of
from explorer.ops.indexing.unique import unique
from explorer.ops.record import Reference, arguments_by_value
from explorer.ops.reference import blas, linalg
from explorer.ops.reference.library_functions import find_function, library_functions
from explorer.ops.site import Site
from explorer.ops.widening import reference

WINDOWS = "sees other windows where it pads by itself, or where the last ones are not whole"
WRONG_IN_ONNX = {  # onnx 1.23, held against our references and onnxruntime
    "AveragePool": WINDOWS,
    "ConvTranspose": "cuts at other ends where the shape of the result is given",
    "GlobalMaxPool": "gives another rank unless there are two spatial dims",
    "LpNormalization": "sums elements, not their absolute values, where p is 1",
    "LpPool": WINDOWS,
    "LRN": "normalises only as many channels as there are images",
    "MaxPool": WINDOWS,
}
CORRECTED: dict[str, Reference] = {"Unique": unique}  # without a record, in its place

assert blas.FUNCTIONS and linalg.FUNCTIONS, "importing them registers functions"


def libraries() -> tuple[str, ...]:
    """The libraries that there are; "shape" is the host's own arithmetic on shapes."""
    return ("numpy", "onnx", "shape", *dict.fromkeys(library for library, _ in library_functions()))


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
    """Return what an operator gives by its record; the onnx package is asked where it has no
    record, or where the record takes no such form.
    """
    record = RECORDS.get(op)
    arrays = not any(isinstance(a, list | tuple) for a in args)
    if record is None or not arrays:  # sequences and optional values have no records
        return _call_onnx(op, attrs, args, results)
    given = dict(attrs)
    for position, name in record.by_value.items():
        value = args[position] if position < len(args) else None
        if value is not None:
            given[name] = value.item() if value.ndim == 0 else tuple(value.tolist())
            if position == record.dtype_from:
                given["dtype"] = value.dtype.name
    if "num_outputs" not in given and op == "Split":
        given["num_outputs"] = results
    try:
        with np.errstate(all="ignore"):
            found = reference(record, given, args)
    except UnsupportedOperator:
        if op in WRONG_IN_ONNX:
            raise
        return _call_onnx(op, attrs, args, results)
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:  # NumPy's, of the values
        raise ShapeError(f"{op} does not take these values: {error}", where=op) from error
    except MemoryError as error:
        raise TooLarge(f"there is no memory for what {op} gives", where=op) from error
    return found[:results] if isinstance(found, tuple) else (found,)


def _check_arguments(
    op: str, attrs: Attrs, args: Sequence[np.ndarray | None], results: int
) -> None:
    """ShapeError unless the arguments of a run fit, by the rule that could not say it before."""
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
    package = import_module("onnx.reference")
    model = one_node_model(
        function, attrs, given, dtypes, [[None] * (r or 0) for r in ranks], results
    )
    try:
        return package.ReferenceEvaluator(model)
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
