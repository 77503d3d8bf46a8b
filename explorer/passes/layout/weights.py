"""Identification of the weights of contractions: constants, or arguments of the program."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Compute, Kernel, Read
from explorer.ir.patterns.contraction import contraction, product_of


def weights_of(call: KernelCall, weight_params: AbstractSet[str]) -> frozenset[str]:
    """Return the inputs of a kernel that are weights.

    These are its constants, and those values of `weight_params` that multiply a sliding window, or
    that multiply a value computed inside pixel by pixel. `weight_params` are values from outside.
    """
    kernel = call.kernel
    mine = {t for t, a in zip(kernel.inputs, call.args, strict=True) if a.name in weight_params}
    inside = {*kernel.inputs} - mine - kernel.constants
    weights = set(kernel.constants)
    for c in kernel.computes if mine else ():
        pair = _product_operands(c)
        for data, weight in (pair, pair[::-1]) if pair else ():
            if weight.tensor not in mine or _is_sliding(c, weight, data):
                continue
            if data.tensor in kernel.constants:
                continue
            moving = [i for i in weight.index if isinstance(i, Affine) and i.terms]
            pixels = len(data.index) == len(weight.index) > len(moving) == 2
            if _is_sliding(c, data, weight) or (pixels and data.tensor in inside):
                weights.add(weight.tensor)
    return frozenset(weights)


def weighted_sum(kernel: Kernel, weights: AbstractSet[str]) -> tuple[Compute, Read, Read] | None:
    """Return the first contraction with weights: the compute, its data, its weights."""
    for c in kernel.computes:
        pair = _product_operands(c)
        for data, weight in (pair, pair[::-1]) if pair else ():
            if weight.tensor in weights and data.tensor not in weights:
                return c, data, weight
    return None


def window_of_values(kernel: Kernel) -> tuple[Compute, Read, Read] | None:
    """Return a contraction of a sliding window with a value that does not slide, or None.

    The result is the compute, the window, and the other operand: the gradient of weights has this
    form.
    """
    for c in kernel.computes:
        pair = _product_operands(c)
        for data, other in (pair, pair[::-1]) if pair else ():
            if (
                _is_sliding(c, data, other)
                and not _is_sliding(c, other, data)
                and other.fill is None
            ):
                return c, data, other
    return None


def multiplies_values(kernel: Kernel, weights: AbstractSet[str]) -> bool:
    """Return True if a kernel multiplies two computed values.

    Its result has rows of one and columns of the other, so its order is that of neither.
    """
    if weighted_sum(kernel, weights) is not None:
        return False
    return window_of_values(kernel) is not None or any(contraction(c) for c in kernel.computes)


def variables(read: Read) -> frozenset[str]:
    """Return the axes that the indices of a read depend on, affinely."""
    axis_sets = (i.variables for i in read.index if isinstance(i, Affine))
    return frozenset[str]().union(*axis_sets)


def _is_sliding(c: Compute, data: Read, other: Read) -> bool:
    """Return True if a window of the data slides along axes that do not index the other operand.

    A head that both operands have beside their channels is no window.
    """
    summed, other_axes = {a.name for a in c.reduce}, variables(other)
    return any(
        i.variables & summed and i.variables - summed - other_axes
        for i in data.index
        if isinstance(i, Affine)
    )


def _product_operands(c: Compute) -> tuple[Read, Read] | None:
    return product_of(c.expr) if c.combiner == "sum" and c.reduce else None
