"""Element types of contractions: those of the operands, and that of the sums."""

from __future__ import annotations

from dataclasses import dataclass

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
        return group_of(self.left)

    def lanes(self, lanes: int) -> int:
        """Return the number of sums in a vector register of so many float32 elements."""
        return max(1, lanes * ITEM_BYTES["float32"] // ITEM_BYTES[self.total])


FORMS = frozenset(
    {
        Form("float32", "float32", "float32"),
        Form("float32", "float16", "float32"),
        Form("float32", "bfloat16", "float32"),
        Form("float32", "int8", "float32"),
        Form("float64", "float64", "float64"),
        Form("int32", "int32", "int32"),
        Form("int16", "int16", "int32"),
        Form("uint8", "int8", "int32"),
    }
)
"""What the micro-kernels can do. Products of whole numbers are summed modulo 2 ** 32: no step on
the way saturates or rounds.
"""


def group_of(dtype: DType) -> int:
    """Return the elements of an operand in the four bytes that a lane takes in a step.

    It is 1 for types that are not multiplied in groups.
    """
    return max(1, ITEM_BYTES["float32"] // ITEM_BYTES[dtype]) if is_integer(dtype) else 1


def form_of(kernel: Kernel, c: Compute, match: Contraction) -> Form | None:
    """Return the form of a contraction, None if the micro-kernels do not have it."""
    form = Form(kernel.dtype(match.a.tensor), kernel.dtype(match.b.tensor), kernel.dtype(c.out))
    return form if form in FORMS else None
