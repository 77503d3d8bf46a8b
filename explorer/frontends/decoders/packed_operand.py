"""Weights as operands of a program: products with them, and their rows by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.frontends.decoders.packed_matrix import PackedMatrix
from explorer.frontends.python import arrays as xp
from explorer.frontends.python.tracing.emit import emit, named_constant
from explorer.frontends.python.tracing.frames import attributed_to_call
from explorer.ir.program import Constant


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """A packed matrix as constants of the program, whose names begin with `name`."""

    name: str
    matrix: PackedMatrix

    def constant(self, part: str) -> Any:
        """Return codes, scales, minima or zero points as a constant."""
        return named_constant(f"{self.name}.{part}", getattr(self.matrix, part))


def operand(name: str, weight: Constant | PackedMatrix) -> Any:
    """Return a weight as a constant of the program, or as several."""
    if isinstance(weight, PackedMatrix):
        return PackedOperand(name, weight)
    return named_constant(name, weight)


def multiply_rows(x: Any, weight: Any) -> Any:
    """Multiply rows by a matrix, [outputs, inputs]."""
    if not isinstance(weight, PackedOperand):
        return x @ xp.swapaxes(weight, 0, 1)
    matrix = weight.matrix
    outputs, inputs = matrix.shape
    parts = ("codes", "scales") if matrix.zeros is None else ("codes", "scales", "zeros")
    with attributed_to_call("matmul"):
        return emit(
            "MatMulNBits",
            x,
            *map(weight.constant, parts),
            N=outputs,
            K=inputs,
            bits=matrix.bits,
            block_size=matrix.block,
        )


def take_rows(weight: Any, ids: Any) -> Any:
    """Return rows of a matrix by number, [..., inputs]: those of packed ones alone are decoded.

    They equal the elements that `gguf_blocks` decodes to the bit: code times scale is exact.
    """
    if not isinstance(weight, PackedOperand):
        return xp.take(weight, ids, axis=0)
    matrix = weight.matrix
    packed = xp.take(weight.constant("codes"), ids, axis=0)
    shifts = range(0, 8, matrix.bits)
    parts = [packed >> np.uint8(n) & np.uint8(2**matrix.bits - 1) for n in shifts]
    codes = xp.reshape(xp.stack(parts, axis=-1), (*packed.shape[:-1], matrix.block))
    scales = xp.take(weight.constant("scales"), ids, axis=0)[..., None]
    numbers = xp.asarray(codes, "float32")
    if matrix.minima is None:
        numbers = (numbers - np.float32(1 << (matrix.bits - 1))) * scales
    else:
        minima = xp.take(weight.constant("minima"), ids, axis=0)
        numbers = numbers * scales - minima[..., None]
    return xp.reshape(numbers, (*ids.shape, matrix.shape[1]))
