"""Whether a kernel may write its output into the bytes of an input (Relax's call_tir_inplace)."""

from __future__ import annotations

from explorer.ir.kernel import Kernel
from explorer.ir.kernels.in_place import read_after
from explorer.ir.types import ITEM_BYTES


def writes_over(kernel: Kernel, output: str, tensor: str) -> str:
    """Why an output must not lie on an input; "" where each element is read before it is written,
    by the task that writes it, and by no other.

    Generated loops keep the order of their loads and stores for any addresses: nothing in them is
    declared not to alias. Two addresses that are one cost a loop its vectors all the same.
    """
    if tensor in kernel.constants or kernel.updates:
        return "its bytes are not the call's to write"
    if any(c.out not in kernel.outputs or c.reduce for c in kernel.computes):
        return "other elements are read after an element is written"
    mine, its = kernel.spec(output), kernel.spec(tensor)
    if mine.shape != its.shape or ITEM_BYTES[mine.dtype] != ITEM_BYTES[its.dtype]:
        return "its elements lie elsewhere"
    if mine.dtype != its.dtype:
        return "dtypes are kept apart"
    return read_after(kernel, output, tensor)
