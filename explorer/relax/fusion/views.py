"""Views as copying kernels that fusion can merge: one load at affine indices."""

from __future__ import annotations

from explorer.ir.affine import var
from explorer.ir.calls import View
from explorer.ir.kernel import Compute, Kernel, Read, TensorSpec, axes
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.passes.copies.index_maps import Ranges, through_reshape


def view_kernel(binding: Binding, program: Program) -> Kernel | None:
    """Return a kernel `y[i, j, k] = x[i, j*4 + k]` for a view.

    Return None if a load would need quotients, as in joining dims.
    """
    if not isinstance(binding.expr, View):
        return None
    arg, result = binding.expr.arg, binding.var
    before, after = arg.type, result.type
    if not (isinstance(before, Tensor) and isinstance(after, Tensor)):
        return None
    if not (before.is_known and after.is_known) or before.dtype != after.dtype:
        return None
    over = axes("i", after.dims)
    ranges = Ranges({a.name: a.extent for a in over}, program.env)
    here = tuple(var(a.name) for a in over)
    index = through_reshape(here, after.dims, before.dims, ranges, binding.expr.offset)
    if not isinstance(index, tuple):
        return None
    return Kernel(
        "view",
        (TensorSpec("x", before.dims, before.element), TensorSpec("y", after.dims, after.element)),
        (Compute("y", over, Read("x", index), origin=binding.origin),),
        ("x",),
        ("y",),
        frozenset({"x"}) if arg.name in program.constants else frozenset(),
    )
