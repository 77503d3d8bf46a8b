"""Weights with a scale for each block along the sum, kept as their bits in a product."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import OpCall, Var
from explorer.ir.dtypes import is_integer
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops.low_bit_products import BIAS, LEAST_BLOCK, packed
from explorer.passes.registry import compiler_pass
from explorer.transforms.rewrite import record_match

TURN = (1, 0)  # the order of axes of a transposed matrix
FLOAT8 = "float8_e4m3fn"
BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8}


@compiler_pass(
    "block-weights",
    paper="Wang et al. 2024, Ladder: Enabling efficient low-precision deep learning computing "
    "through hardware-aware tensor transformation (OSDI)",
)
def keep_block_weights(program: Program) -> Program:
    """Keep constant weights that are dequantized by blocks as their bits in the product.

    After: a product with such weights is one operator, which reads their bits.
    `w = DequantizeLinear(q, scale, zero, axis=0, block_size=32); y = MatMul(x, w)` becomes
    `y = MatMulNBits(x, q', scale', zero')`, with the same elements in the order of columns.
    Weights [N, K] with blocks along their last axis are read by Transpose and MatMul, or by Gemm
    with transB. Weights that are dequantized by column are transposed before that. Weights of
    float8, by blocks or by column, are read by MatMulFloat8.
    """
    constants = dict(program.constants)
    functions = tuple(_rewrite_function(f, constants) for f in program.functions)
    if all(a is b for a, b in zip(functions, program.functions, strict=True)):
        return program
    return replace(program, functions=functions, constants=constants)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Weights as an operator reads them: codes, scales and zero points, and its attributes.

    `name` is the dequantized value. `by_rows`: the value that stands for them is [N, K], with
    blocks along its last axis; otherwise it is [K, N].
    """

    name: str
    by_rows: bool
    arrays: tuple[np.ndarray, ...]
    attrs: tuple[tuple[str, int], ...]
    origin: frozenset[str]
    operator: str = "MatMulNBits"


def _rewrite_function(function: Function, constants: dict[str, Constant]) -> Function:
    taken = {*constants, *(v.name for b in function.body for v in b.vars)}
    blocks: dict[str, _Blocks] = {}
    by_column: dict[str, Binding] = {}  # matrices that are dequantized without blocks
    arguments: dict[str, tuple[Var, ...]] = {}  # the constants that replace a weight
    body: list[Binding] = []
    for binding in function.body:
        match binding.expr:
            case OpCall("DequantizeLinear") as call:
                if (weights := _blocks_of(call, binding, constants)) is not None:
                    blocks[binding.name] = weights
                elif _is_by_column(call, binding, constants):
                    by_column[binding.name] = binding
            case OpCall("Transpose", (Var() as w,)) as call if call.attr("perm", TURN) == TURN:
                if w.name in blocks:
                    blocks[binding.name] = _turned(blocks[w.name], binding)
                elif w.name in by_column:
                    binding = _dequantize_turned(binding, by_column[w.name], constants, taken)
            case OpCall() as call if (product := _product_of(call, blocks)) is not None:
                x, weights, bias = product
                if weights.name not in arguments:
                    entered = _as_constants(weights.name, weights.arrays, constants, taken)
                    arguments[weights.name] = entered
                args: tuple[Var | None, ...] = (x, *arguments[weights.name])
                if bias is not None:
                    args = (*args, *[None] * (BIAS - len(args)), bias)
                call = OpCall(weights.operator, args, weights.attrs)
                new = replace(binding, expr=call, origin=binding.origin | weights.origin)
                record_match(keep_block_weights, (binding,), (new,))
                binding = new
        body.append(binding)
    if all(a is b for a, b in zip(body, function.body, strict=True)):
        return function
    return replace(function, body=_without_unread(body, blocks.keys() | by_column, function))


def _turned(blocks: _Blocks, transpose: Binding) -> _Blocks:
    """Return weights in blocks as their transpose stands for them."""
    origin = blocks.origin | transpose.origin
    return replace(blocks, by_rows=not blocks.by_rows, origin=origin)


def _is_by_column(call: OpCall, binding: Binding, constants: Mapping[str, Constant]) -> bool:
    """Return True for a constant matrix with a scale for each row or column, or for all."""
    result = binding.var.type
    is_matrix = isinstance(result, Tensor) and result.shape is not None and len(result.dims) == 2
    are_constants = all(a is None or a.name in constants for a in call.args)
    return is_matrix and are_constants and not call.attr("block_size", 0)


def _dequantize_turned(
    transpose: Binding, weights: Binding, constants: dict[str, Constant], taken: set[str]
) -> Binding:
    """Dequantize transposed integers, in place of the transpose of dequantized ones.

    `keep weights quantized` then moves their scale behind the product.
    """
    call = weights.op_call
    assert call.args[0] is not None
    integers = constants[call.args[0].name].array
    (q,) = _as_constants(f"{weights.name}.turned", (integers.T,), constants, taken)
    axis = call.attr("axis", 1)
    others = tuple((n, v) for n, v in call.attrs if n != "axis")
    attrs = (*others, ("axis", 1 if axis in (0, -2) else 0))
    expr = OpCall("DequantizeLinear", (q, *call.args[1:]), attrs)
    new = replace(transpose, expr=expr, origin=transpose.origin | weights.origin)
    record_match(keep_block_weights, (weights, transpose), (new,))
    return new


def _without_unread(
    body: list[Binding], weights: Set[str], function: Function
) -> tuple[Binding, ...]:
    """Drop dequantized weights that are read no more."""
    read = {v.name for v in function.outputs}
    live: list[Binding] = []
    for binding in reversed(body):
        if binding.name not in weights or binding.name in read:
            read.update(v.name for v in binding.reads)
            live.append(binding)
    return tuple(reversed(live))


def _product_of(
    call: OpCall, blocks: Mapping[str, _Blocks]
) -> tuple[Var, _Blocks, Var | None] | None:
    """Return the rows, the weights and the bias of a product with weights in blocks."""
    match call:
        case OpCall("MatMul", (Var() as x, Var() as w)) if w.name in blocks:
            bias, by_rows = None, False
        case OpCall("Gemm", (Var() as x, Var() as w, *others)) if w.name in blocks:
            bias, by_rows = next(iter(others), None), bool(call.attr("transB", 0))
            if call.attr("transA", 0) or call.attr("alpha", 1.0) != 1.0:
                return None
            if bias is not None and not _is_vector(bias, blocks[w.name], call.attr("beta", 1.0)):
                return None
        case _:
            return None
    return (x, blocks[w.name], bias) if _fits(x) and blocks[w.name].by_rows == by_rows else None


def _is_vector(bias: Var, weights: _Blocks, beta: object) -> bool:
    """Return True for a bias with an element for each column, which is added as it is."""
    return beta == 1.0 and bias.type == Tensor((dict(weights.attrs)["N"],), "float32")


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
    if 0 in result.dims or axis not in (-2, -1, 0, 1):
        return None
    if not isinstance(block, int) or not isinstance(axis, int):
        return None
    is_block = block >= LEAST_BLOCK and not block & (block - 1)
    if any(a.name not in constants for a in parts):
        return None
    dtype = str(parts[0].tensor.element)
    if dtype == FLOAT8:
        return _float8_blocks(binding, axis, block, [constants[a.name].array for a in parts])
    if not is_block:
        return None
    if dtype not in BITS or (len(parts) > 2 and not is_integer(str(parts[2].tensor.element))):
        return None
    by_rows, bits = axis in (-1, 1), BITS[dtype]
    arrays = [constants[a.name].array for a in parts]
    q, scales, *zero = arrays if by_rows else [a.T for a in arrays]
    middle = 1 << (bits - 1) if dtype.startswith("int") else 0  # the code of zero
    columns, depth = map(int, q.shape)
    codes = np.pad(q.astype(np.int16) + middle, [(0, 0), (0, -depth % block)])
    codes = packed(codes.reshape(columns, -1, block), bits)
    zeros: tuple[np.ndarray, ...] = ()
    if zero or not middle:  # without them MatMulNBits takes the middle
        point = zero[0] if zero else np.zeros_like(scales)
        zeros = (packed(point.astype(np.int16) + middle, bits),)
    sizes = (("K", depth), ("N", columns), ("bits", bits), ("block_size", block))
    scales = np.ascontiguousarray(scales.astype(np.float32))
    return _Blocks(binding.var.name, by_rows, (codes, scales, *zeros), sizes, binding.origin)


def _float8_blocks(
    binding: Binding, axis: int, block: int, arrays: list[np.ndarray]
) -> _Blocks | None:
    """Return the weights of a dequantization of float8, by blocks, by column, or with one scale."""
    q, scales, *zero = arrays
    if any(point.astype(np.float32).any() for point in zero):
        return None
    by_rows = axis in (-1, 1) if block else axis in (-2, 0)
    q = q if by_rows else q.T
    columns, depth = map(int, q.shape)
    size = block or depth
    if block:
        scales = scales if by_rows else scales.T
    elif scales.size not in (1, columns):
        return None
    else:
        scales = np.broadcast_to(scales.reshape(-1, 1), (columns, 1))
    codes = np.zeros((columns, -(-depth // size) * size), q.dtype)
    codes[:, :depth] = q
    codes = np.ascontiguousarray(codes.reshape(columns, -1, size).transpose(1, 2, 0))
    parts = codes, np.ascontiguousarray(scales.T.astype(np.float32))
    sizes = (("K", depth), ("N", columns), ("block_size", size))
    return _Blocks(binding.var.name, by_rows, parts, sizes, binding.origin, "MatMulFloat8")
