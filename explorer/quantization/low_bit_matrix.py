"""Matrices rounded to a few bits in blocks along their rows, as MatMulNBits reads them.

    W[n, k] ~ (code[n, k] - zero[n, k / block]) * scale[n, k / block]

A symmetric block's zero point is the middle code. Its scale takes the element of largest magnitude
to the lowest code, of which there is one more than above (as ggml's Q4_0). Other blocks reach from
their least to their greatest element, and have 0 among their values. Scales are then fitted to the
codes by least squares, and the elements are rounded again: each turn makes the error smaller
(Lloyd 1982, Least squares quantization in PCM).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from explorer.errors import BadOption
from explorer.ops.low_bit_products import LEAST_BLOCK, packed, unpacked
from explorer.quantization.float8_matrix import Float8Matrix, float8_matrix
from explorer.quantization.nf4_matrix import Nf4Matrix, nf4_matrix

BITS = {"int2": 2, "int4": 4, "int8": 8}
NF4, FP8 = "nf4", "fp8"
TURNS = 3  # of rounding and fitting; further ones gain little but for int2 by column; chosen
PART = 1 << 22  # elements that are rounded at a time, for the memory of the float copies; chosen


@dataclass(frozen=True, slots=True)
class LowBitFormat:
    """Bits of an element, elements of a block (None: a block is a whole row), and symmetry."""

    kind: str
    block: int | None
    symmetric: bool

    def __post_init__(self) -> None:
        """Check the fields."""
        kinds = ", ".join((*BITS, NF4, FP8))
        if self.kind not in (*BITS, NF4, FP8):
            raise BadOption(
                f"weights are quantized to {kinds}, found {self.kind!r}",
                where="kind",
                expected=kinds,
                actual=self.kind,
            )
        n = self.block
        if n is not None and (type(n) is not int or n < LEAST_BLOCK or n & (n - 1)):
            raise BadOption(
                f"a block has a power of two of elements from {LEAST_BLOCK} on, found {n!r}",
                where="block",
                expected="16, 32, 64, 128 and so on, or None: one block for each column",
                actual=n,
            )
        if self.kind == NF4 and (n is None or not self.symmetric):
            raise BadOption(
                f"{NF4} has a scale for each block and no zero points: block is a number, and "
                "symmetric is True",
                where="kind",
                expected="block=64",
                actual=f"block={n!r}, symmetric={self.symmetric!r}",
            )
        if self.kind == FP8 and (n is not None or not self.symmetric):
            raise BadOption(
                f"{FP8} has a scale for each column and no zero points: block is None, and "
                "symmetric is True",
                where="kind",
                expected="block=None",
                actual=f"block={n!r}, symmetric={self.symmetric!r}",
            )

    @property
    def bits(self) -> int:
        """The bits of an element."""
        return BITS[self.kind]

    def block_of(self, depth: int) -> int:
        """Return the elements of a block: for whole rows the next power of two."""
        return self.block or max(LEAST_BLOCK, 1 << (depth - 1).bit_length())


@dataclass(frozen=True, slots=True, eq=False)
class LowBitMatrix:
    """A matrix [outputs, inputs]: codes uint8[outputs, blocks, bytes], scales [outputs, blocks].

    `zeros` are packed zero points by rows, None for symmetric blocks.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    bits: int
    depth: int

    operator = "MatMulNBits"

    @property
    def block(self) -> int:
        """The elements of a block."""
        return int(self.codes.shape[2]) * 8 // self.bits

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are stored, by name."""
        arrays = {"codes": self.codes, "scales": self.scales}
        return arrays if self.zeros is None else {**arrays, "zeros": self.zeros}

    @property
    def attrs(self) -> tuple[tuple[str, int], ...]:
        """The attributes of MatMulNBits."""
        sizes = {"K": self.depth, "N": self.codes.shape[0]}
        return (*sizes.items(), ("bits", self.bits), ("block_size", self.block))

    def values(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield rows as float32, some at a time, each with the number of its first."""
        rows, blocks = self.scales.shape
        for begin in range(0, rows, step := _rows_at_a_time(blocks * self.block)):
            part = slice(begin, begin + step)
            codes = unpacked(self.codes[part], self.bits).astype(np.float32)
            zeros = np.full((1, 1, 1), 1 << (self.bits - 1), np.float32)
            if self.zeros is not None:
                points = unpacked(self.zeros[part], self.bits)[:, :blocks]
                zeros = points.astype(np.float32)[..., None]
            numbers = (codes - zeros) * self.scales[part][..., None]
            yield begin, numbers.reshape(len(codes), -1)[:, : self.depth]


RoundedMatrix = LowBitMatrix | Nf4Matrix | Float8Matrix


def quantized(matrix: np.ndarray, form: LowBitFormat) -> RoundedMatrix:
    """Round a matrix float32[outputs, inputs] of finite elements."""
    if form.kind == FP8:
        return float8_matrix(matrix)
    if form.kind == NF4:
        return nf4_matrix(matrix, form.block_of(matrix.shape[1]))
    outputs, depth = matrix.shape
    block = form.block_of(depth)
    blocks, bits = -(-depth // block), form.bits
    codes = np.empty((outputs, blocks, block * bits // 8), np.uint8)
    scales = np.empty((outputs, blocks), np.float32)
    zeros = None if form.symmetric else np.empty((outputs, -(-blocks * bits // 8)), np.uint8)
    for begin in range(0, outputs, step := _rows_at_a_time(blocks * block)):
        part = slice(begin, begin + step)
        rows = np.pad(matrix[part], [(0, 0), (0, blocks * block - depth)])
        steps, scale, zero = _rounded(rows.reshape(-1, blocks, block), bits, form.symmetric)
        codes[part] = packed(steps + zero[..., None], bits)
        scales[part] = scale
        if zeros is not None:
            zeros[part] = packed(zero, bits)
    return LowBitMatrix(codes, scales, zeros, bits, depth)


def _rows_at_a_time(width: int) -> int:
    return max(1, PART // width)


def _rounded(
    blocks: np.ndarray, bits: int, symmetric: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return elements of [..., block] as whole multiples of their scales, and the zero points."""
    half, most = np.float32(1 << (bits - 1)), np.float32((1 << bits) - 1)
    if symmetric:
        place = np.abs(blocks).argmax(-1)[..., None]
        scale = np.take_along_axis(blocks, place, -1)[..., 0] / -half
        zero = np.full(scale.shape, half)
    else:
        low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
        scale = high / most - low / most
        zero = np.clip(np.rint(_divided(-low, scale)), 0, most)
    steps = blocks
    for _ in range(TURNS):
        steps = np.rint(_divided(blocks, scale[..., None]))
        steps = np.clip(steps, -zero[..., None], most - zero[..., None])
        scale = _fitted(blocks, steps, scale)
    return steps, scale, zero


def _divided(numbers: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Divide; the quotient by 0 is 0."""
    return np.asarray(np.divide(numbers, by, out=np.zeros_like(numbers), where=by != 0))


def _fitted(blocks: np.ndarray, steps: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the scales with the least squared error for these steps."""
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.einsum("...p,...p->...", blocks, steps)
        squares = np.einsum("...p,...p->...", steps, steps)
        best = _divided(products, squares)
    return np.asarray(np.where(np.isfinite(best) & (squares > 0), best, scale), np.float32)


def weight_error(matrix: np.ndarray, rounded: RoundedMatrix) -> float:
    """Return the Frobenius norm of the error over the norm of the matrix."""
    lost = total = 0.0
    for begin, rows in rounded.values():
        exact = matrix[begin : begin + len(rows)].astype(np.float64)
        lost += float(np.square(exact - rows).sum())
        total += float(np.square(exact).sum())
    return (lost / total) ** 0.5 if total else 0.0
