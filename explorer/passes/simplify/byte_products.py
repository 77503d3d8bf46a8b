"""8-bit operands of int32 matrix products, read without a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import record_match

BYTES = ("int8", "uint8")


@compiler_pass(
    "byte-products",
    paper="Jacob et al. 2018, Quantization and training of neural networks for efficient "
    "integer-arithmetic-only inference, section 2.2",
)
def multiply_bytes(program: Program) -> Program:
    """Read 8-bit operands of int32 matrix products directly.

    After: an int32 product of bytes by int8, or by a constant of bytes, reads them unconverted: a
    quarter of the memory traffic. `a = Cast(x, int32); y = MatMul(a, w)` becomes `y =
    MatMulInteger(x, w')`, where `w'` are the elements of `w` in 8 bits. Both are exact, modulo 2 **
    32.
    """
    constants = dict(program.constants)
    functions = tuple(_rewrite_function(f, constants) for f in program.functions)
    if all(a is b for a, b in zip(functions, program.functions, strict=True)):
        return program
    return replace(program, functions=functions, constants=constants)


def _rewrite_function(function: Function, constants: dict[str, Constant]) -> Function:
    taken = {*constants, *(v.name for b in function.body for v in b.vars)}
    cast: dict[
        str, tuple[Var, Binding]
    ] = {}  # operands of conversions from bytes to int32, and the conversions
    body: list[Binding] = []
    for binding in function.body:
        call = binding.expr
        if isinstance(call, OpCall) and call.op == "Cast" and _dtype(binding.vars[0]) == "int32":
            if call.args[0] is not None and _dtype(call.args[0]) in BYTES:
                cast[binding.var.name] = call.args[0], binding
        elif isinstance(call, OpCall) and call.op == "MatMul":
            new = _rewrite_product(binding, call, cast, constants, taken)
            if new is not binding:
                record_match(multiply_bytes, (binding,), (new,))
            binding = new
        body.append(binding)
    same = all(a is b for a, b in zip(body, function.body, strict=True))
    return function if same else replace(function, body=tuple(body))


def _rewrite_product(
    binding: Binding,
    call: OpCall,
    cast: Mapping[str, tuple[Var, Binding]],
    constants: dict[str, Constant],
    taken: set[str],
) -> Binding:
    left, right = call.args
    if left is None or right is None or left.name not in cast or not _has_rows(left, right):
        return binding
    x, first = cast[left.name]
    origin = binding.origin | first.origin
    if right.name in cast:
        w, second = cast[right.name]
        origin |= second.origin
        if w.name not in constants and _dtype(w) != "int8":  # its sign is only known in a run
            return binding
    elif right.name in constants:
        narrow = _as_bytes(constants[right.name].array)
        if narrow is None:
            return binding
        name = fresh(f"{right.name}.bytes", taken)
        taken.add(name)
        constants[name] = Constant(narrow)
        w = Var(name, replace(right.tensor, dtype=str(narrow.dtype)))
    else:
        return binding
    return replace(binding, expr=OpCall("MatMulInteger", (x, w)), origin=origin)


def _has_rows(left: Var, right: Var) -> bool:
    """Return True if both operands have at least two dims."""
    types = (left.type, right.type)
    return all(isinstance(t, Tensor) and t.is_known and len(t.dims) > 1 for t in types)


def _as_bytes(array: np.ndarray) -> np.ndarray | None:
    """Return an int32 array as int8 or uint8, or None if an element does not fit."""
    if array.dtype != np.int32 or not array.size:
        return None
    for dtype in BYTES:
        narrow = array.astype(dtype)
        if np.array_equal(narrow, array):
            return narrow
    return None


def _dtype(value: Var) -> str:
    return (value.type.dtype or "") if isinstance(value.type, Tensor) else ""
