"""Library calls of last resort, annotated by ONNX's own shape inference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import LibraryCall, OpCall, Var
from explorer.ir.dims import Dim
from explorer.ir.program import Constant
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.ops.libraries import one_node_model
from explorer.ops.record import OperatorRecord

SMALL_ELEMENTS = 1024


def library_types(
    call: OpCall, results: int, constants: Mapping[str, Constant], where: str
) -> tuple[Tensor, ...]:
    """The annotations of an operator without a record; UnsupportedOperator if ONNX infers none."""
    names: dict[Dim, str] = {}
    shapes = [
        [_placeholder(d, names) for d in a.type.dims] if a and isinstance(a.type, Tensor) else []
        for a in call.args
    ]
    dtypes = [a.type.dtype if a and isinstance(a.type, Tensor) else None for a in call.args]
    given = [a is not None for a in call.args]
    try:
        model = one_node_model(call.op, call.attrs, given, dtypes, shapes, results)
        for i, arg in enumerate(call.args):
            if arg is not None and arg.name in constants:
                _add_small(model, f"x{i}", constants[arg.name].array)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:
        raise UnsupportedOperator(
            f"{call.op} at {where!r} has no rule, and ONNX infers no shape for it: {error}",
            where=where,
        ) from error
    back = {name: dim for dim, name in names.items()}
    return tuple(_result(o, back, call.op, where) for o in inferred.graph.output)


def _placeholder(dim: Dim, names: dict[Dim, str]) -> Any:
    return dim if isinstance(dim, int) else names.setdefault(dim, f"dim{len(names)}")


def _add_small(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    if array.size <= SMALL_ELEMENTS:
        model.graph.initializer.append(numpy_helper.from_array(array, name))


def _result(value: onnx.ValueInfoProto, back: Mapping[str, Dim], op: str, where: str) -> Tensor:
    kind = value.type.tensor_type
    shape: list[Dim] = []
    for dim in kind.shape.dim:
        if dim.HasField("dim_value"):
            shape.append(dim.dim_value)
        elif dim.dim_param in back:
            shape.append(back[dim.dim_param])
        else:
            raise UnsupportedOperator(
                f"{op} at {where!r}: the shape of its result depends on the values of a run",
                where=where,
            )
    if not kind.HasField("shape"):
        raise UnsupportedOperator(f"{op} at {where!r}: ONNX infers no shape for it", where=where)
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    if dtype not in ITEM_BYTES:
        raise UnsupportedOperator(f"{op} at {where!r} gives elements of {dtype}", where=where)
    return Tensor(tuple(shape), dtype)


def library_call(
    call: OpCall, record: OperatorRecord | None, constant: Callable[[np.ndarray, str], Var]
) -> LibraryCall | None:
    """The operator as a call of the onnx package; None where an attribute depends on symbols.

    Arguments that deduction made attributes become arguments again.
    """
    if record is None:
        return LibraryCall("onnx", call.op, call.args, call.attrs)
    attrs, args = dict(call.attrs), list(call.args)
    for position, name in record.by_value.items():
        if name in attrs:
            value: Any = attrs.pop(name)
            flat = value if isinstance(value, tuple) else (value,)
            if not all(isinstance(v, (int, float)) for v in flat):
                return None
            args += [None] * (position + 1 - len(args))
            args[position] = constant(np.array(value), name)
    attrs["opset"] = onnx.defs.onnx_opset_version()
    return LibraryCall("onnx", call.op, tuple(args), tuple(attrs.items()))
