"""Kernels that only copy one row: `y[i, ...] = x[at, i, ...]`."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.affine import Affine
from explorer.ir.kernel import Expr, Kernel, Read


@dataclass(frozen=True, slots=True)
class RowCopy:
    """The tensor of a kernel that it copies a row of, and the row's index."""

    tensor: str
    at: Affine | Expr


def row_copy(kernel: Kernel) -> RowCopy | None:
    """Return the row that a kernel copies; None if it does anything else."""
    if len(kernel.computes) != 1 or kernel.updates:
        return None
    (compute,) = kernel.computes
    read = compute.expr
    if not isinstance(read, Read) or read.tensor not in kernel.inputs or read.fill is not None:
        return None
    there, here = kernel.spec(read.tensor).shape, kernel.spec(kernel.output).shape
    same = kernel.dtype(read.tensor) == kernel.dtype(kernel.output)
    if compute.reduce or not there or there[1:] != here or not same:
        return None
    return RowCopy(read.tensor, read.index[0]) if read.index[1:] == compute.target else None
