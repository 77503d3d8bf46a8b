"""NumPy's products: matrices, vectors, and einsum."""

from __future__ import annotations

from typing import Any

import numpy

from explorer.frontends.arrays.axes import axes_of, refuse
from explorer.frontends.arrays.elementwise import multiply
from explorer.frontends.arrays.reductions import sum as total
from explorer.frontends.arrays.shaping import expand_dims, moveaxis, ravel, reshape, transpose
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.operation import mark_views, operation
from explorer.frontends.tracing.promote import common_dtype, converted, traced
from explorer.ir.shapes.dims import product

WIDER = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


def _emit_product(op: str, *values: Any, **attrs: Any) -> TracedArray:
    """Emit a product in the common dtype; small integers are widened, then wrapped like NumPy's."""
    dtype = common_dtype(values)
    if dtype.kind == "b":
        refuse("matrix products of bools are not supported; use astype first")
    wide = WIDER.get(dtype.name, dtype)
    product_ = emit(op, *(converted(v, wide) for v in values), **attrs)
    return converted(product_, dtype)


@operation(numpy.matmul)
def matmul(a: Any, b: Any) -> Any:
    """Apply NumPy's `matmul`."""
    if not traced(a).ndim or not traced(b).ndim:
        refuse("matmul takes no scalars; use multiply")
    return _emit_product("MatMul", a, b)


@operation(numpy.dot)
def dot(a: Any, b: Any) -> Any:
    """Apply NumPy's `dot`: matmul up to two dims, multiply for scalars."""
    x, y = traced(a), traced(b)
    if not x.ndim or not y.ndim:
        return multiply(a, b)
    return _emit_product("MatMul", a, b) if y.ndim <= 2 else tensordot(a, b, ((-1,), (-2,)))


@operation(numpy.vdot)
def vdot(a: Any, b: Any) -> Any:
    """Apply NumPy's `vdot` to real numbers."""
    return _emit_product("MatMul", ravel(traced(a)), ravel(traced(b)))


@operation(numpy.inner)
def inner(a: Any, b: Any) -> Any:
    """Apply NumPy's `inner`: a contraction of both last dims."""
    x, y = traced(a), traced(b)
    return multiply(a, b) if not x.ndim or not y.ndim else tensordot(a, b, ((-1,), (-1,)))


@operation(numpy.outer)
def outer(a: Any, b: Any) -> Any:
    """Apply NumPy's `outer`: all products of two elements."""
    return multiply(expand_dims(ravel(traced(a)), 1), ravel(traced(b)))


@operation(numpy.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Apply NumPy's `vecdot` to real numbers: a contraction of one dim, in the common dtype."""
    products = multiply(moveaxis(traced(x1), axis, -1), moveaxis(traced(x2), axis, -1))
    return total(products, -1, products.dtype)


@operation(numpy.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Apply NumPy's `tensordot`: a contraction of pairs of dims."""
    x, y = traced(a), traced(b)
    if isinstance(axes, int):
        axes = (tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes)))
    over = axes_of(axes[0], x.ndim), axes_of(axes[1], y.ndim)
    if len(over[0]) != len(over[1]):
        refuse(f"tensordot contracts {len(over[0])} dims with {len(over[1])} dims")
    rows = [d for d in range(x.ndim) if d not in over[0]]
    columns = [d for d in range(y.ndim) if d not in over[1]]
    depth = product(x.type.dims[d] for d in over[0])
    free_dims = tuple(x.type.dims[d] for d in rows), tuple(y.type.dims[d] for d in columns)
    left = reshape(transpose(x, (*rows, *over[0])), (product(free_dims[0]), depth))
    right = reshape(transpose(y, (*over[1], *columns)), (depth, product(free_dims[1])))
    return reshape(_emit_product("MatMul", left, right), (*free_dims[0], *free_dims[1]))


@operation(numpy.einsum, views=None)
def einsum(subscripts: str, *operands: Any) -> Any:
    """Apply NumPy's `einsum` with textual subscripts; a view if it only permutes one operand."""
    if not isinstance(subscripts, str):
        refuse("einsum takes its subscripts as text, 'ij,jk->ik'")
    equation = subscripts.replace(" ", "")
    result = _emit_product("Einsum", *operands, equation=equation)
    if len(operands) > 1:
        return result
    inputs, arrow, output = equation.partition("->")
    summed = {*inputs} - {*output} if arrow else {a for a in inputs if inputs.count(a) > 1}
    return result if summed - {"."} else mark_views(result, operands[0])
