"""Element types of contractions: those of the operands, and that of the sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.ir.dtypes import ITEM_BYTES, DType, is_integer
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.contraction import Contraction


@dataclass(frozen=True, slots=True)
class Form:
    """The left operand's dtype, the right one's, and that of the sums."""

    left: DType
    right: DType
    total: DType

    @property
    def group(self) -> int:
        """The number of neighbours along the depth that one lane multiplies and adds in a step."""
        return group_of(self.left, self.right)

    @property
    def cells(self) -> int:
        """The elements of memory of the right operand that one lane takes in a step."""
        return self.group // ELEMENTS_OF_BYTE.get(self.right, 1)

    def lanes(self, lanes: int) -> int:
        """Return the number of sums in a vector register of so many float32 elements."""
        return max(1, lanes * ITEM_BYTES["float32"] // ITEM_BYTES[self.total])


FORMS = frozenset(
    {
        Form("float32", "float32", "float32"),
        Form("float32", "float16", "float32"),
        Form("float32", "bfloat16", "float32"),
        Form("float32", "int8", "float32"),
        Form("float32", "uint8", "float32"),
        Form("float32", "int4", "float32"),
        Form("float32", "uint4", "float32"),
        Form("float32", "float8_e4m3fn", "float32"),
        Form("float64", "float64", "float64"),
        Form("int32", "int32", "int32"),
        Form("int16", "int16", "int32"),
        Form("uint8", "int8", "int32"),
        Form("int8", "uint8", "int32"),
        Form("int8", "uint4", "int32"),
    }
)
"""What the micro-kernels can do. Products of whole numbers are summed modulo 2 ** 32: no step on
the way saturates or rounds.
"""


ELEMENTS_OF_BYTE: dict[DType, int] = {"int4": 2, "uint4": 2}
"""The elements of a byte in panels of constants; in other memory each takes a byte of its own."""


def group_of(left: DType, right: DType) -> int:
    """Return the neighbours along the depth that a lane takes in a step; 1 if it takes one.

    It takes four bytes of a left operand of small integers, or all elements of a byte of the right
    one, whichever are more.
    """
    word = max(1, ITEM_BYTES["float32"] // ITEM_BYTES[left]) if is_integer(left) else 1
    return word * ELEMENTS_OF_BYTE.get(right, 1)


def in_cells(groups: np.ndarray, dtype: DType) -> np.ndarray:
    """Return groups of elements, along the last axis, as they lie in panels.

    Of two elements of a byte the one of the group's first half takes the low bits.
    """
    if dtype not in ELEMENTS_OF_BYTE:
        return groups
    codes = groups.view(np.uint8) & np.uint8(15)
    half = groups.shape[-1] // 2
    return codes[..., :half] | codes[..., half:] << np.uint8(4)


def from_cells(cells: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the groups of elements that lie in panels: the inverse of `in_cells`."""
    if dtype not in ELEMENTS_OF_BYTE:
        return cells
    codes = np.concatenate([cells & np.uint8(15), cells >> np.uint8(4)], axis=-1)
    return codes if dtype == "uint4" else (codes ^ np.uint8(8)).view(np.int8) - np.int8(8)


def form_of(kernel: Kernel, c: Compute, match: Contraction) -> Form | None:
    """Return the form of a contraction, None if the micro-kernels do not have it."""
    form = Form(kernel.dtype(match.a.tensor), kernel.dtype(match.b.tensor), kernel.dtype(c.out))
    if form.right in ELEMENTS_OF_BYTE and match.b.tensor not in kernel.constants:
        return None  # only panels that are packed ahead have two elements a byte
    return form if form in FORMS else None
