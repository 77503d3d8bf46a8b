"""Which operand of a sum of products is weights: a constant, or what a program is given beside its
data.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Compute, Kernel, Read
from explorer.ir.patterns.contraction import contraction, product_of


def weights_of(call: KernelCall, given: AbstractSet[str]) -> frozenset[str]:
    """The inputs of a kernel that are weights: its constants, and those of `given`, values from
    outside, that multiply a sliding window, or pixel by pixel what is made inside.
    """
    kernel = call.kernel
    mine = {t for t, a in zip(kernel.inputs, call.args, strict=True) if a.name in given}
    inside = {*kernel.inputs} - mine - kernel.constants
    found = set(kernel.constants)
    for c in kernel.computes if mine else ():
        pair = _product(c)
        for data, weight in (pair, pair[::-1]) if pair else ():
            if weight.tensor not in mine or _slides(c, weight, data):
                continue
            if data.tensor in kernel.constants:
                continue
            moving = [i for i in weight.index if isinstance(i, Affine) and i.terms]
            pixels = len(data.index) == len(weight.index) > len(moving) == 2
            if _slides(c, data, weight) or (pixels and data.tensor in inside):
                found.add(weight.tensor)
    return frozenset(found)


def weighted_sum(kernel: Kernel, weights: AbstractSet[str]) -> tuple[Compute, Read, Read] | None:
    """The first sum of products with weights: the compute, its data, its weights."""
    for c in kernel.computes:
        pair = _product(c)
        for data, weight in (pair, pair[::-1]) if pair else ():
            if weight.tensor in weights and data.tensor not in weights:
                return c, data, weight
    return None


def window_of_values(kernel: Kernel) -> tuple[Compute, Read, Read] | None:
    """A sum of products of a sliding window with what does not slide: the compute, the window, the
    other; how weights are learnt.
    """
    for c in kernel.computes:
        pair = _product(c)
        for data, other in (pair, pair[::-1]) if pair else ():
            if _slides(c, data, other) and not _slides(c, other, data) and other.fill is None:
                return c, data, other
    return None


def multiplies_values(kernel: Kernel, weights: AbstractSet[str]) -> bool:
    """Whether a kernel is a product of two values that are computed: it has rows of one and columns
    of the other, so the order of neither is that of the result.
    """
    if weighted_sum(kernel, weights) is not None:
        return False
    return window_of_values(kernel) is not None or any(contraction(c) for c in kernel.computes)


def variables(read: Read) -> frozenset[str]:
    """The axes that the indices of a load depend on, affinely."""
    found = (i.variables for i in read.index if isinstance(i, Affine))
    return frozenset[str]().union(*found)


def _slides(c: Compute, data: Read, other: Read) -> bool:
    """Whether a window of the data slides along what the other operand does not tell: a head that
    both have beside its channels is no window.
    """
    summed, known = {a.name for a in c.reduce}, variables(other)
    return any(
        i.variables & summed and i.variables - summed - known
        for i in data.index
        if isinstance(i, Affine)
    )


def _product(c: Compute) -> tuple[Read, Read] | None:
    return product_of(c.expr) if c.combiner == "sum" and c.reduce else None
