"""Whether a kernel may write its output into the bytes of an input (Relax's call_tir_inplace)."""

from __future__ import annotations

from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.in_place import read_after
from explorer.ir.patterns.scatter import scatter
from explorer.ir.types import ITEM_BYTES


def writes_over(kernel: Kernel, output: str, tensor: str) -> str:
    """Why an output must not lie on an input; "" where each element is read before it is written,
    by the task that writes it, and by no other.

    Generated loops keep the order of their loads and stores for any addresses: nothing in them is
    declared not to alias. Two addresses that are one cost a loop its vectors all the same.
    """
    if tensor in kernel.constants or kernel.updates:
        return "its bytes are not the call's to write"
    if not all(_is_over_at_once(kernel, c, output) for c in kernel.computes):
        return "other elements are read after an element is written"
    mine, its = kernel.spec(output), kernel.spec(tensor)
    if mine.shape != its.shape or ITEM_BYTES[mine.dtype] != ITEM_BYTES[its.dtype]:
        return "its elements lie elsewhere"
    if mine.dtype != its.dtype:
        return "dtypes are kept apart"
    return read_after(kernel, output, tensor)


def _is_over_at_once(kernel: Kernel, c: Compute, output: str) -> bool:
    """Whether a compute is a map to an output, or a scatter into memory of its own, which one of
    another dtype never has in the output's: no generated loop then does an element a second time.
    """
    if c.out in kernel.outputs:
        return not c.reduce
    return kernel.dtype(c.out) != kernel.dtype(output) and scatter(kernel, c) is not None
