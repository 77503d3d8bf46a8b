"""Library calls of last resort, annotated by ONNX's own shape inference; coarser where it says
less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import LibraryCall, OpCall, Var
from explorer.ir.program import Binding, Constant
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation, DType, Object, Tensor, numpy_dtype
from explorer.ops import RECORDS
from explorer.ops.record import OperatorRecord
from explorer.ops.reference.libraries import call_library, one_node_model
from explorer.relax.deduction.fresh import Found
from explorer.relax.deduction.known import is_known

SMALL_ELEMENTS = 1024  # of a tensor that ONNX's shape inference is given; chosen
RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


def coarse_types(
    call: OpCall, results: int, constants: Mapping[str, Constant], where: str
) -> tuple[Found, ...]:
    """What ONNX says of an operator whose own rule cannot know: dtypes, ranks, some dims."""
    if all(is_known(a) for a in call.args):
        version = ("opset", onnx.defs.onnx_opset_version())
        with suppress(UnsupportedOperator):
            plain = OpCall(call.op, call.args, (*call.attrs, version))
            return tuple(map(_coarser, library_types(plain, results, constants, where)))
    return tuple(Found(_of_schema(call, n)) for n in range(results))


def _coarser(found: Found) -> Found:
    """Dims are what a run must find, and no annotation that a kernel could be made for."""
    match found.type:
        case Tensor(tuple(dims), dtype, _):
            return Found(Tensor(None, dtype, len(dims)), None, dims)
    return found


def without_dims(found: Found) -> Found:
    """Return the annotation with dtype and rank only."""
    match found.type:
        case Tensor(dims, dtype, rank):
            return Found(Tensor(None, dtype, rank if dims is None else len(dims)))
    return found


def _of_schema(call: OpCall, n: int) -> Annotation:
    """What the schema allows at an output, in terms of the arguments."""
    try:
        schema = onnx.defs.get_schema(call.op)
    except onnx.defs.SchemaError:
        return Tensor()
    output = schema.outputs[min(n, len(schema.outputs) - 1)]
    for formal, arg in zip(schema.inputs, call.args):
        if formal.type_str == output.type_str and arg is not None:
            return Tensor(None, arg.type.dtype) if isinstance(arg.type, Tensor) else Object()
    if any(t.startswith(("seq(", "optional(")) for t in output.types):
        return Object()
    return Tensor()


def constant_results(call: OpCall, binding: Binding, constants: dict[str, Constant]) -> bool:
    """Compute an operator of constants alone; whether its results are constants now."""
    arrays = [None if a is None else constants.get(a.name) for a in call.args]
    known = all(c is not None for a, c in zip(call.args, arrays) if a is not None)
    if not known or call.op in RANDOM:
        return False
    given = [None if c is None else c.array for c in arrays]
    try:
        found = call_library("onnx", call.op, call.attrs, given, len(binding.vars))
    except Exception:  # the library refuses: it is asked again when the program runs
        return False
    if not all(isinstance(v, np.ndarray) and v.dtype != object for v in found):
        return False
    constants.update((v.name, Constant(a)) for v, a in zip(binding.vars, found, strict=False))
    return True


def library_types(
    call: OpCall, results: int, constants: Mapping[str, Constant], where: str
) -> tuple[Found, ...]:
    """The annotations of an operator without a record, as far as ONNX infers them.

    Raises UnsupportedOperator where ONNX says that the operator does not fit its arguments.
    """
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
    except Exception as error:  # ONNX's checks and inference raise what their parts raise
        raise UnsupportedOperator(
            f"{call.op} at {where!r} has no rule, and ONNX infers no shape for it: {error}",
            where=where,
        ) from error
    back = {name: dim for dim, name in names.items()}
    outputs = enumerate(inferred.graph.output)
    return tuple(_result(o, back, Found(_of_schema(call, n))) for n, o in outputs)


def _placeholder(dim: Dim, names: dict[Dim, str]) -> Any:
    return dim if isinstance(dim, int) else names.setdefault(dim, f"dim{len(names)}")


def _add_small(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    if array.size <= SMALL_ELEMENTS:
        model.graph.initializer.append(numpy_helper.from_array(array, name))


def _result(value: onnx.ValueInfoProto, back: Mapping[str, Dim], coarse: Found) -> Found:
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        return Found(Object())
    kind = value.type.tensor_type
    if not kind.elem_type:
        return coarse
    dtype = _dtype(kind.elem_type)
    if not kind.HasField("shape"):
        return Found(Tensor(None, dtype))
    dims = tuple(_dim(d, back) for d in kind.shape.dim)
    if any(d is None for d in dims):
        return Found(Tensor(None, dtype, len(dims)), None, dims)
    return Found(Tensor(tuple(d for d in dims if d is not None), dtype))


def _dtype(code: int) -> DType:
    if code == onnx.TensorProto.STRING:
        return "string"
    return str(np.dtype(helper.tensor_dtype_to_np_dtype(code)).name)


def _dim(dim: Any, back: Mapping[str, Dim]) -> Dim | None:
    """An extent, or None where only a run knows it."""
    return int(dim.dim_value) if dim.HasField("dim_value") else back.get(dim.dim_param)


def last_resort(call: OpCall) -> LibraryCall:
    """The library call of an operator that gets no kernel: of its record's NumPy reference, and of
    the onnx package where it has no record.
    """
    library = "numpy" if call.op in RECORDS else "onnx"
    return LibraryCall(library, call.op, call.args, call.attrs)


def library_call(
    call: OpCall, record: OperatorRecord | None, constant: Callable[[np.ndarray, str], Var]
) -> LibraryCall | None:
    """The operator as a call of the onnx package; None where an attribute depends on symbols, or
    is none of ONNX's.

    Arguments that deduction made attributes become arguments again.
    """
    if record is None:
        return LibraryCall("onnx", call.op, call.args, call.attrs)
    attrs, args = dict(call.attrs), list(call.args)
    kept: Any = None if record.dtype_from is None else attrs.pop("dtype", None)
    dtype = None if kept is None else numpy_dtype(kept)
    for position, name in record.by_value.items():
        if name in attrs:
            value: Any = attrs.pop(name)
            flat = value if isinstance(value, tuple) else (value,)
            if not all(isinstance(v, (int, float)) for v in flat):
                return None
            args += [None] * (position + 1 - len(args))
            args[position] = constant(np.array(value, dtype), name)
    domain = str(attrs.get("domain", ""))
    if not onnx.defs.has(call.op, domain):
        return None
    if attrs.keys() - {"domain"} - onnx.defs.get_schema(call.op, domain).attributes.keys():
        return None
    attrs["opset"] = onnx.defs.onnx_opset_version()
    return LibraryCall("onnx", call.op, tuple(args), tuple(attrs.items()))
