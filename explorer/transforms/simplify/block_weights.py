"""Weights with a scale for each block along the sum, kept as small integers in a product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import OpCall, Var
from explorer.ir.dtypes import is_integer
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops.low_bit_products import LEAST_BLOCK
from explorer.passes.registry import compiler_pass
from explorer.transforms.rewrite import record_match

SMALL = frozenset({"int2", "uint2", "int4", "uint4", "int8", "uint8"})
MIDDLE = 128  # the code of a signed zero in a byte


@compiler_pass(
    "block-weights",
    paper="Wang et al. 2024, Ladder: Enabling efficient low-precision deep learning computing "
    "through hardware-aware tensor transformation (OSDI)",
)
def keep_block_weights(program: Program) -> Program:
    """Keep constant weights that are dequantized by blocks as bytes in their product.

    After: a product with such weights is one operator, which reads a byte an element.
    `w = DequantizeLinear(q, scale, zero, axis=0, block_size=32); y = MatMul(x, w)` becomes
    `y = MatMulNBits(x, q', scale', zero')`, with the same elements in the order of columns.
    """
    constants = dict(program.constants)
    functions = tuple(_rewrite_function(f, constants) for f in program.functions)
    if all(a is b for a, b in zip(functions, program.functions, strict=True)):
        return program
    return replace(program, functions=functions, constants=constants)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Weights as MatMulNBits reads them: codes, scales and zero points, and its attributes."""

    arrays: tuple[np.ndarray, ...]
    attrs: tuple[tuple[str, int], ...]
    origin: frozenset[str]


def _rewrite_function(function: Function, constants: dict[str, Constant]) -> Function:
    taken = {*constants, *(v.name for b in function.body for v in b.vars)}
    blocks: dict[str, _Blocks] = {}
    arguments: dict[str, tuple[Var, ...]] = {}  # the constants that replace a weight
    body: list[Binding] = []
    for binding in function.body:
        match binding.expr:
            case OpCall("DequantizeLinear") as call:
                if (weights := _blocks_of(call, binding, constants)) is not None:
                    blocks[binding.var.name] = weights
            case OpCall("MatMul", (Var() as x, Var() as w)) if w.name in blocks and _fits(x):
                if w.name not in arguments:
                    arrays = blocks[w.name].arrays
                    arguments[w.name] = _as_constants(w.name, arrays, constants, taken)
                call = OpCall("MatMulNBits", (x, *arguments[w.name]), blocks[w.name].attrs)
                new = replace(binding, expr=call, origin=binding.origin | blocks[w.name].origin)
                record_match(keep_block_weights, (binding,), (new,))
                binding = new
        body.append(binding)
    if all(a is b for a, b in zip(body, function.body, strict=True)):
        return function
    read = {v.name for b in body for v in b.reads} | {v.name for v in function.outputs}
    live = (b for b in body if b.vars[0].name not in blocks or b.var.name in read)
    return replace(function, body=tuple(live))


def _fits(x: Var) -> bool:
    """Return True for rows of float32."""
    return isinstance(x.type, Tensor) and x.type.element == "float32" and bool(x.type.dims)


def _as_constants(
    name: str, arrays: tuple[np.ndarray, ...], constants: dict[str, Constant], taken: set[str]
) -> tuple[Var, ...]:
    """Enter arrays among the constants and return them as arguments."""
    entered = []
    for part, array in zip(("codes", "scales", "zeros"), arrays, strict=False):
        own = fresh(f"{name}.{part}", taken)
        taken.add(own)
        constants[own] = Constant(array)
        entered.append(Var(own, constants[own].type))
    return tuple(entered)


def _blocks_of(call: OpCall, binding: Binding, constants: Mapping[str, Constant]) -> _Blocks | None:
    """Return the weights of a dequantization; None if they are no constant blocks of a matrix."""
    attrs = dict(call.attrs)
    block, axis = attrs.get("block_size", 0), attrs.get("axis", 1)
    parts = [a for a in call.args if a is not None]
    result = binding.var.type
    if not isinstance(result, Tensor) or result.element != "float32" or len(result.dims) != 2:
        return None
    if 0 in result.dims:
        return None
    if not isinstance(block, int) or block < LEAST_BLOCK or block & (block - 1):
        return None
    if axis not in (0, -2) or any(a.name not in constants for a in parts):
        return None
    dtype = str(parts[0].tensor.element)
    if dtype not in SMALL or (len(parts) > 2 and not is_integer(str(parts[2].tensor.element))):
        return None
    offset = MIDDLE if dtype.startswith("int") else 0
    q = constants[parts[0].name].array.astype(np.int16) + offset
    depth, columns = map(int, np.shape(q))
    missing = -depth % block
    codes = np.pad(q, [(0, missing), (0, 0)]).astype(np.uint8)
    codes = np.ascontiguousarray(codes.reshape(-1, block, columns).transpose(2, 0, 1))
    scales = np.ascontiguousarray(constants[parts[1].name].array.astype(np.float32).T)
    zeros: tuple[np.ndarray, ...] = ()
    if len(parts) > 2 or not offset:
        zero = constants[parts[2].name].array if len(parts) > 2 else np.zeros_like(scales.T)
        zeros = (np.ascontiguousarray((zero.astype(np.int16) + offset).astype(np.uint8).T),)
    sizes = (("K", depth), ("N", columns), ("bits", 8), ("block_size", block))
    return _Blocks((codes, scales, *zeros), sizes, binding.origin)
