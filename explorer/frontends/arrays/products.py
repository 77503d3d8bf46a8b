"""Functions of NumPy that multiply and add up: matrices, vectors, and what einsum can say."""

from __future__ import annotations

from typing import Any

import numpy

from explorer.frontends.arrays.axes import axes_of, refuse
from explorer.frontends.arrays.elementwise import multiply
from explorer.frontends.arrays.reductions import sum as total
from explorer.frontends.arrays.shaping import expand_dims, moveaxis, ravel, reshape, transpose
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.operation import operation, viewed
from explorer.frontends.tracing.promote import common_dtype, converted, traced
from explorer.ir.shapes.dims import product

WIDER = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def _together(op: str, *values: Any, **attrs: Any) -> TracedArray:
    """An operator on values of one dtype; small integers wrap around as NumPy's do."""
    dtype = common_dtype(values)
    if dtype.kind == "b":
        refuse("a product of matrices of bools has no kernel; use astype first")
    wide = WIDER.get(dtype.name, dtype)
    found = emit(op, *(converted(v, wide) for v in values), **attrs)
    return converted(found, dtype)


@operation(numpy.matmul)
def matmul(a: Any, b: Any) -> Any:
    """NumPy's `matmul`."""
    if not traced(a).ndim or not traced(b).ndim:
        refuse("matmul takes no arrays without dims; multiply does")
    return _together("MatMul", a, b)


@operation(numpy.dot)
def dot(a: Any, b: Any) -> Any:
    """NumPy's `dot`: matmul of up to two dims, and multiply with a number."""
    x, y = traced(a), traced(b)
    if not x.ndim or not y.ndim:
        return multiply(a, b)
    return _together("MatMul", a, b) if y.ndim <= 2 else tensordot(a, b, ((-1,), (-2,)))


@operation(numpy.vdot)
def vdot(a: Any, b: Any) -> Any:
    """NumPy's `vdot`, of real numbers."""
    return _together("MatMul", ravel(traced(a)), ravel(traced(b)))


@operation(numpy.inner)
def inner(a: Any, b: Any) -> Any:
    """NumPy's `inner`: a sum over both last dims."""
    x, y = traced(a), traced(b)
    return multiply(a, b) if not x.ndim or not y.ndim else tensordot(a, b, ((-1,), (-1,)))


@operation(numpy.outer)
def outer(a: Any, b: Any) -> Any:
    """NumPy's `outer`: all products of two elements."""
    return multiply(expand_dims(ravel(traced(a)), 1), ravel(traced(b)))


@operation(numpy.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """NumPy's `vecdot`, of real numbers: a sum along a dim, in the dtype of both."""
    products = multiply(moveaxis(traced(x1), axis, -1), moveaxis(traced(x2), axis, -1))
    return total(products, -1, products.dtype)


@operation(numpy.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """NumPy's `tensordot`: a sum over pairs of dims."""
    x, y = traced(a), traced(b)
    if isinstance(axes, int):
        axes = (tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes)))
    over = axes_of(axes[0], x.ndim), axes_of(axes[1], y.ndim)
    if len(over[0]) != len(over[1]):
        refuse(f"tensordot over {len(over[0])} and {len(over[1])} dims")
    rows = [d for d in range(x.ndim) if d not in over[0]]
    columns = [d for d in range(y.ndim) if d not in over[1]]
    depth = product(x.type.dims[d] for d in over[0])
    kept = tuple(x.type.dims[d] for d in rows), tuple(y.type.dims[d] for d in columns)
    left = reshape(transpose(x, (*rows, *over[0])), (product(kept[0]), depth))
    right = reshape(transpose(y, (*over[1], *columns)), (depth, product(kept[1])))
    return reshape(_together("MatMul", left, right), (*kept[0], *kept[1]))


@operation(numpy.einsum, views=None)
def einsum(subscripts: str, *operands: Any) -> Any:
    """NumPy's `einsum`, with the subscripts as text; a view where it only moves one operand."""
    if not isinstance(subscripts, str):
        refuse("einsum takes its subscripts as text, 'ij,jk->ik'")
    equation = subscripts.replace(" ", "")
    found = _together("Einsum", *operands, equation=equation)
    if len(operands) > 1:
        return found
    given, arrow, made = equation.partition("->")
    summed = {*given} - {*made} if arrow else {a for a in given if given.count(a) > 1}
    return found if summed - {"."} else viewed(found, operands[0])
