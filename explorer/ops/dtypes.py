"""Element types that ONNX allows for an operator's arguments."""

from __future__ import annotations

from functools import lru_cache

import onnx
from onnx import helper

from explorer.errors import DtypeError
from explorer.ir.dtypes import ITEM_BYTES, DType, numpy_dtype
from explorer.ops.site import Site


def check_dtypes(site: Site) -> None:
    """Raise DtypeError unless ONNX's schema allows these dtypes together."""
    dtypes = tuple(None if a is None else site.dtype(i) for i, a in enumerate(site.args))
    problem = _problem(site.op, dtypes)
    if problem:
        site.fail(problem, DtypeError)


@lru_cache(maxsize=4096)
def _problem(op: str, dtypes: tuple[DType | None, ...]) -> str:
    """Return what is wrong with the dtypes, in words, or ""."""
    if not onnx.defs.has(op, ""):
        return ""
    schema = onnx.defs.get_schema(op, "")
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound: dict[str, DType] = {}
    for i, dtype in enumerate(dtypes):
        if dtype is None or not schema.inputs:
            continue
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        kinds = allowed.get(formal.type_str, [formal.type_str])
        if _name(dtype) not in kinds:
            return f"its argument {formal.name!r} must not be {dtype}"
        together = formal.is_homogeneous and formal.type_str in allowed
        if together and bound.setdefault(formal.type_str, dtype) != dtype:
            return (
                f"its argument {formal.name!r} is {dtype} and another is {bound[formal.type_str]}"
            )
    return ""


@lru_cache(maxsize=4096)
def result_dtypes(
    op: str, dtypes: tuple[DType | None, ...], results: int
) -> tuple[DType | None, ...]:
    """Return the dtype of each result that ONNX's schema ties to an argument, else None."""
    if not onnx.defs.has(op, ""):
        return (None,) * results
    schema = onnx.defs.get_schema(op, "")
    bound = {f.type_str: t for f, t in zip(schema.inputs, dtypes) if t is not None}
    last = len(schema.outputs) - 1
    return tuple(bound.get(schema.outputs[min(i, last)].type_str) for i in range(results))


def code_of(dtype: DType) -> int:
    """Return ONNX's number of a dtype."""
    if dtype == "string":
        return int(onnx.TensorProto.STRING)
    return int(helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)))


def dtype_of_code(site: Site, code: int) -> DType:
    """Return the dtype of one of ONNX's numbers.

    Raises UnsupportedOperator if no kernel computes with it.
    """
    if code == onnx.TensorProto.STRING:
        return "string"
    try:
        dtype = str(helper.tensor_dtype_to_np_dtype(code).name)
    except KeyError:
        dtype = str(code)
    return dtype if dtype in ITEM_BYTES else site.unsupported(f"elements of type {dtype}")


def _name(dtype: DType) -> str:
    kind = onnx.TensorProto.DataType.Name(code_of(dtype))
    return f"tensor({kind.lower()})"
