"""Library calls of last resort, annotated by ONNX's own shape inference or more coarsely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import LibraryCall, OpCall, Var
from explorer.ir.dims import Dim
from explorer.ir.program import Binding, Constant
from explorer.ir.types import Annotation, DType, Object, Tensor, numpy_dtype
from explorer.ops import RECORDS
from explorer.ops.record import OperatorRecord
from explorer.relax.deduction.knowledge import DeducedValue, is_known

SMALL_ELEMENTS = 1024  # of a tensor passed to ONNX's shape inference; chosen
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
) -> tuple[DeducedValue, ...]:
    """Infer dtypes, ranks and some dims of an operator whose own rule cannot decide."""
    if all(is_known(a) for a in call.args):
        version = ("opset", onnx.defs.onnx_opset_version())
        with suppress(UnsupportedOperator):
            plain = OpCall(call.op, call.args, (*call.attrs, version))
            return tuple(map(_coarser, library_types(plain, results, constants, where)))
    return tuple(DeducedValue(_of_schema(call, n)) for n in range(results))


def _coarser(value: DeducedValue) -> DeducedValue:
    """Move dims out of the annotation: a run must confirm them, and no kernel relies on them."""
    match value.type:
        case Tensor(tuple(dims), dtype, _):
            return DeducedValue(Tensor(None, dtype, len(dims)), None, dims)
    return value


def without_dims(value: DeducedValue) -> DeducedValue:
    """Return the annotation with dtype and rank only."""
    match value.type:
        case Tensor(dims, dtype, rank):
            return DeducedValue(Tensor(None, dtype, rank if dims is None else len(dims)))
    return value


def _of_schema(call: OpCall, n: int) -> Annotation:
    """Return the annotation that ONNX's schema gives an output, in terms of the arguments."""
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
    """Fold an operator of constants; return True if its results are constants now."""
    arrays = [None if a is None else constants.get(a.name) for a in call.args]
    are_constant = all(c is not None for a, c in zip(call.args, arrays) if a is not None)
    if not are_constant or call.op in RANDOM:
        return False
    from explorer.ops.interpreter.libraries import call_library  # most programs call none

    arguments = [None if c is None else c.array for c in arrays]
    try:
        results = call_library("onnx", call.op, call.attrs, arguments, len(binding.vars))
    except Exception:  # the library refuses: it is called again when the program runs
        return False
    if not all(isinstance(v, np.ndarray) and v.dtype != object for v in results):
        return False
    constants.update((v.name, Constant(a)) for v, a in zip(binding.vars, results, strict=False))
    return True


def library_types(
    call: OpCall, results: int, constants: Mapping[str, Constant], where: str
) -> tuple[DeducedValue, ...]:
    """Infer the annotations of an operator without a record, as far as ONNX can.

    Raises UnsupportedOperator if ONNX says that the operator does not fit its arguments.
    """
    names: dict[Dim, str] = {}
    shapes = [
        [_placeholder(d, names) for d in a.type.dims] if a and isinstance(a.type, Tensor) else []
        for a in call.args
    ]
    dtypes = [a.type.dtype if a and isinstance(a.type, Tensor) else None for a in call.args]
    from explorer.ops.interpreter.libraries import one_node_model  # most programs call none

    is_present = [a is not None for a in call.args]
    try:
        model = one_node_model(call.op, call.attrs, is_present, dtypes, shapes, results)
        for i, arg in enumerate(call.args):
            if arg is not None and arg.name in constants:
                _add_small(model, f"x{i}", constants[arg.name].array)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception as error:  # ONNX's checks and inference may raise anything
        raise UnsupportedOperator(
            f"{call.op} at {where!r} has no rule, and ONNX infers no shape for it: {error}",
            where=where,
        ) from error
    back = {name: dim for dim, name in names.items()}
    outputs = enumerate(inferred.graph.output)
    return tuple(_result(o, back, DeducedValue(_of_schema(call, n))) for n, o in outputs)


def _placeholder(dim: Dim, names: dict[Dim, str]) -> Any:
    return dim if isinstance(dim, int) else names.setdefault(dim, f"dim{len(names)}")


def _add_small(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    if array.size <= SMALL_ELEMENTS:
        model.graph.initializer.append(numpy_helper.from_array(array, name))


def _result(
    value: onnx.ValueInfoProto, back: Mapping[str, Dim], coarse: DeducedValue
) -> DeducedValue:
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        return DeducedValue(Object())
    kind = value.type.tensor_type
    if not kind.elem_type:
        return coarse
    dtype = _dtype(kind.elem_type)
    if not kind.HasField("shape"):
        return DeducedValue(Tensor(None, dtype))
    dims = tuple(_dim(d, back) for d in kind.shape.dim)
    if any(d is None for d in dims):
        return DeducedValue(Tensor(None, dtype, len(dims)), None, dims)
    return DeducedValue(Tensor(tuple(d for d in dims if d is not None), dtype))


def _dtype(code: int) -> DType:
    if code == onnx.TensorProto.STRING:
        return "string"
    return str(np.dtype(helper.tensor_dtype_to_np_dtype(code)).name)


def _dim(dim: Any, back: Mapping[str, Dim]) -> Dim | None:
    """Return an extent, or None if only a run knows it."""
    return int(dim.dim_value) if dim.HasField("dim_value") else back.get(dim.dim_param)


def last_resort(call: OpCall) -> LibraryCall:
    """Return the library call of an operator that gets no kernel.

    It calls the record's NumPy reference, or the onnx package if there is no record.
    """
    library = "numpy" if call.op in RECORDS else "onnx"
    return LibraryCall(library, call.op, call.args, call.attrs)


def library_call(
    call: OpCall, record: OperatorRecord | None, constant: Callable[[np.ndarray, str], Var]
) -> LibraryCall | None:
    """Return the operator as a call of the onnx package.

    Arguments that deduction made attributes become arguments again. Return None if an attribute
    depends on symbols, or is not ONNX's.
    """
    if record is None:
        return LibraryCall("onnx", call.op, call.args, call.attrs)
    attrs, args = dict(call.attrs), list(call.args)
    target_dtype: Any = None if record.dtype_from is None else attrs.pop("dtype", None)
    dtype = None if target_dtype is None else numpy_dtype(target_dtype)
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
