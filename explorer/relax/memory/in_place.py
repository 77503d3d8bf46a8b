"""Kernels that may write their output into the bytes of an input (Relax's call_tir_inplace)."""

from __future__ import annotations

from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.in_place import read_after
from explorer.ir.patterns.scatter import scatter
from explorer.ir.types import ITEM_BYTES


def writes_over(kernel: Kernel, output: str, tensor: str) -> str:
    """Return why an output must not lie on an input, or "" if it may.

    It may if the task that writes an element is the only one that reads it, and reads it first.
    Generated loops keep the order of their loads and stores for any addresses: nothing in them is
    declared not to alias. Equal addresses still cost a loop its vectorisation.
    """
    if tensor in kernel.constants or kernel.updates:
        return "the call may not write its bytes"
    if not all(_is_over_at_once(kernel, c, output) for c in kernel.computes):
        return "other elements are read after an element is written"
    output_spec, input_spec = kernel.spec(output), kernel.spec(tensor)
    if (
        output_spec.shape != input_spec.shape
        or ITEM_BYTES[output_spec.dtype] != ITEM_BYTES[input_spec.dtype]
    ):
        return "its elements lie elsewhere"
    if output_spec.dtype != input_spec.dtype:
        return "the dtypes differ"
    return read_after(kernel, output, tensor)


def _is_over_at_once(kernel: Kernel, c: Compute, output: str) -> bool:
    """Return True if a compute is a map to an output, or a scatter into memory of its own.

    The scatter's tensor never shares the output's memory if its dtype differs. So no generated loop
    visits an element twice.
    """
    if c.out in kernel.outputs:
        return not c.reduce
    return kernel.dtype(c.out) != kernel.dtype(output) and scatter(kernel, c) is not None
