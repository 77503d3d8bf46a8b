"""ATen's products, and its linear algebra as calls of the library "linalg"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from explorer.frontends.python import arrays as np
from explorer.frontends.python.arrays.linalg import call_library
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.emit import converted, emit, traced
from explorer.frontends.torch.call import OperatorCall
from explorer.frontends.torch.elementwise import like
from explorer.frontends.torch.reductions import extreme, reduce_dims

Handler = Callable[..., Any]


# Products.


def _matmul(call: OperatorCall, a: Any, b: Any) -> Any:
    return np.matmul(call.cast(a), call.cast(b))


def _linear(call: OperatorCall, x: Any, weight: Any, bias: Any = None) -> Any:
    w = call.cast(weight)
    product = np.matmul(call.cast(x), np.transpose(w))
    return product if bias is None else np.add(product, call.cast(bias))


def _scale(call: OperatorCall, x: Any, factor: Any) -> Any:
    return x if factor == 1 else np.multiply(x, call.cast(factor))


def _addmm(call: OperatorCall, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scale(call, np.matmul(call.cast(a), call.cast(b)), alpha)
    return product if beta == 0 else np.add(product, _scale(call, call.cast(x), beta))


def _addbmm(call: OperatorCall, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    total = reduce_dims("ReduceSum", np.matmul(call.cast(a), call.cast(b)), 0)
    product = _scale(call, total, alpha)
    return product if beta == 0 else np.add(product, _scale(call, call.cast(x), beta))


def _addr(call: OperatorCall, x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = np.multiply(np.expand_dims(call.cast(a), 1), call.cast(b))
    product = _scale(call, product, alpha)
    return product if beta == 0 else np.add(product, _scale(call, call.cast(x), beta))


def _dot(call: OperatorCall, a: Any, b: Any) -> Any:
    return reduce_dims("ReduceSum", np.multiply(call.cast(a), call.cast(b)))


def _int_mm(call: OperatorCall, a: Any, b: Any) -> Any:
    return emit("MatMulInteger", traced(a), traced(b))


def _grouped_mm(call: OperatorCall, a: Any, b: Any, ends: Any = None, bias: Any = None) -> Any:
    """Multiply each row of a by the matrix of its group.

    Group g ends at row ends[g]; rows after the last group are 0. Each matrix multiplies all rows,
    with those of other groups zeroed.
    """
    x, y = call.cast(a), call.cast(b)
    if ends is None or x.ndim != 2 or y.ndim != 3 or bias is not None:
        call.refuse("groups of columns, or a bias, are not supported")
    last = np.reshape(converted(ends, "int64"), (-1, 1))
    first = np.concatenate([converted(np.zeros_like(last[:1]), "int64"), last[:-1]])
    row = np.arange(x.shape[0])
    own = np.logical_and(np.greater_equal(row, first), np.less(row, last))
    own_rows = np.where(np.expand_dims(own, -1), x, like(0, x))
    return reduce_dims("ReduceSum", np.matmul(own_rows, y), 0)


def _einsum(call: OperatorCall, equation: str, operands: Sequence[Any], path: Any = None) -> Any:
    arrays = [call.cast(o) for o in operands]
    if any(c.isupper() for c in equation) or not arrays:
        call.refuse("subscripts in capitals are not supported")
    return np.einsum(equation, *arrays)


def _cdist(call: OperatorCall, a: Any, b: Any, p: float = 2, mode: Any = None) -> Any:
    x, y = call.cast(a), call.cast(b)
    off = np.abs(np.subtract(np.expand_dims(x, -2), np.expand_dims(y, -3)))
    return _distance(off, p)


def _trilinear(
    call: OperatorCall,
    a: Any,
    b: Any,
    c: Any,
    first: Any,
    second: Any,
    third: Any,
    sums: Any,
    *_: Any,
) -> Any:
    """Contract a product of three tensors, each expanded by dims of 1."""
    x, y, z = (
        np.expand_dims(call.cast(v), tuple(dims)) if dims else call.cast(v)
        for v, dims in ((a, first), (b, second), (c, third))
    )
    product = np.multiply(np.multiply(x, y), z)
    return reduce_dims("ReduceSum", product, sums) if sums else product


def _distance(off: TracedArray, p: float) -> Any:
    """Return the p-norm of differences along the last dim, with gradient 0 where they are all 0."""
    if p == 0:
        return reduce_dims("ReduceSum", converted(np.not_equal(off, like(0, off)), off.dtype), -1)
    if p == 1:
        return reduce_dims("ReduceSum", off, -1)
    if math.isinf(p):
        return extreme("ReduceMax", off, -1)
    total = reduce_dims("ReduceSum", emit("Pow", off, like(p, off)) if p != 2 else off * off, -1)
    none = np.equal(total, like(0, total))
    safe = np.where(none, like(1, total), total)
    root = np.sqrt(safe) if p == 2 else emit("Pow", safe, like(1 / p, safe))
    return np.where(none, total, root)


def _pdist(call: OperatorCall, x: Any, p: float = 2) -> Any:
    array = call.cast(x)
    count = array.shape[0]
    if not isinstance(count, int):
        call.refuse("a symbolic number of rows is not supported")
    rows, columns = numpy.triu_indices(count, 1)
    off = np.subtract(np.take(array, rows, 0), np.take(array, columns, 0))
    return _distance(np.abs(off), p)


# Linear algebra.


def _no_errors(call: OperatorCall, x: TracedArray, result: int) -> TracedArray:
    """Return zeros as the info of each matrix of a batch; an error would end the run."""
    zero = traced(numpy.zeros((), call.dtype_of(result)))
    zeros: TracedArray = np.broadcast_to(zero, x.shape[:-2])
    return zeros


def _cholesky(call: OperatorCall, a: Any, upper: bool = False, *_: Any) -> Any:
    x = call.cast(a)
    factors = call_library("cholesky", [x], [x.shape], upper=int(upper))
    return [*factors, _no_errors(call, x, 1)] if len(call.results) > 1 else factors


def _cholesky_inverse(call: OperatorCall, a: Any, upper: bool = False) -> Any:
    x = call.cast(a)
    return _inverse_of(_product(x, upper))


def _product(triangle: TracedArray, upper: bool) -> TracedArray:
    part = np.triu(triangle) if upper else np.tril(triangle)
    other = np.swapaxes(part, -1, -2)
    product: TracedArray = np.matmul(other, part) if upper else np.matmul(part, other)
    return product


def _inverse_of(x: TracedArray) -> list[TracedArray]:
    return call_library("inverse", [x], [x.shape])


def _cholesky_solve(call: OperatorCall, b: Any, a: Any, upper: bool = False) -> Any:
    return _solve_system(_product(call.cast(a), upper), call.cast(b))


def _solve_system(
    a: TracedArray, b: TracedArray, function: str = "solve", **attrs: int
) -> TracedArray:
    lead = np.broadcast_arrays(a[..., :1, :1], b[..., :1, :1])[0].shape[:-2]
    shape = (*lead, a.shape[-1], b.shape[-1])
    return call_library(function, [a, b], [shape], **attrs)[0]


def _inverse(call: OperatorCall, a: Any, *_: Any) -> Any:
    x = call.cast(a)
    inverse = _inverse_of(x)
    return [*inverse, _no_errors(call, x, 1)] if len(call.results) > 1 else inverse


def _qr(call: OperatorCall, a: Any, mode: str = "reduced") -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    least = np.minimum(rows, columns)
    if mode == "r":
        empty = traced(numpy.zeros((0,), x.dtype))
        return [empty, *call_library("qr", [x], [(*lead, least, columns)], mode="r")]
    inner = rows if mode == "complete" else least
    shapes = [(*lead, rows, inner), (*lead, inner, columns)]
    return call_library("qr", [x], shapes, mode=mode)


def _householder_factors(call: OperatorCall, a: Any) -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    return call_library("householder", [x], [x.shape, (*lead, np.minimum(rows, columns))])


def _svd(call: OperatorCall, a: Any, full: bool = False, vectors: bool = True, *_: Any) -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    least = np.minimum(rows, columns)
    if not vectors or call.read == {1}:
        values = call_library("singular_values", [x], [(*lead, least)])[0]
        empty = traced(numpy.zeros((0,), x.dtype))
        return [empty, values, empty]
    n, m = (rows, columns) if full else (least, least)
    return call_library(
        "svd", [x], [(*lead, rows, n), (*lead, least), (*lead, m, columns)], full=int(full)
    )


def _eigh(call: OperatorCall, a: Any, triangle: str = "L", vectors: bool = True) -> Any:
    x = call.cast(a)
    if not vectors or call.read == {0}:
        values = call_library("eigvalsh", [x], [x.shape[:-1]], lower=int(triangle.upper() == "L"))
        return [*values, traced(numpy.zeros((0,), x.dtype))]
    return call_library("eigh", [x], [x.shape[:-1], x.shape], lower=int(triangle.upper() == "L"))


def _solve(call: OperatorCall, a: Any, b: Any, left: bool = True, *_: Any) -> Any:
    x, y = call.cast(a), call.cast(b)
    if len(call.results) > 1 and call.read & {1, 2}:
        call.refuse("reading the factors of a solution is not supported")
    vector = y.ndim == 1 or (y.ndim == x.ndim - 1 and y.type.dims == x.type.dims[:-1])
    if vector:
        y = np.expand_dims(y, -1)
    if left:
        solution = _solve_system(x, y)
    else:
        x, y = np.swapaxes(x, -1, -2), y if vector else np.swapaxes(y, -1, -2)
        solution = _solve_system(x, y)
        solution = solution if vector else np.swapaxes(solution, -1, -2)
    solution = np.squeeze(solution, (-1,)) if vector else solution
    return [solution, None, None, _no_errors(call, x, 3)] if len(call.results) > 1 else solution


def _triangular(
    call: OperatorCall, a: Any, b: Any, upper: bool, left: bool = True, unit: bool = False
) -> Any:
    x, y = call.cast(a), call.cast(b)
    if left:
        return _solve_system(x, y, "solve_triangle", upper=int(upper), unit=int(unit))
    x, y = np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2)
    solution = _solve_system(x, y, "solve_triangle", upper=int(not upper), unit=int(unit))
    return np.swapaxes(solution, -1, -2)


def _triangular_solve(
    call: OperatorCall,
    b: Any,
    a: Any,
    upper: bool = True,
    transpose: bool = False,
    unit: bool = False,
) -> Any:
    x = call.cast(a)
    if transpose:
        x, upper = np.swapaxes(x, -1, -2), not upper
    solution = _solve_system(x, call.cast(b), "solve_triangle", upper=int(upper), unit=int(unit))
    return [solution, x]


def _det(call: OperatorCall, a: Any) -> Any:
    if call.read - {0}:
        call.refuse("reading the factors of a determinant is not supported")
    x = call.cast(a)
    return [*call_library("determinant", [x], [x.shape[:-2]]), None, None][: len(call.results)]


def _slogdet(call: OperatorCall, a: Any) -> Any:
    if call.read - {0, 1}:
        call.refuse("reading the factors of a determinant is not supported")
    x = call.cast(a)
    parts = call_library("log_determinant", [x], [x.shape[:-2], x.shape[:-2]])
    return [*parts, None, None][: len(call.results)]


def _lu_factor(call: OperatorCall, a: Any, pivot: bool = True, *_: Any) -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    if not pivot or not (isinstance(rows, int) and isinstance(columns, int)):
        call.refuse("LU factors without pivoting, or of symbolic sizes, are not supported")
    steps = min(rows, columns)
    factors = call_library("lu", [x], [x.shape, [(*lead, steps), "int32"]])
    return [*factors, _no_errors(call, x, 2)] if len(call.results) > 2 else factors


def _lu(call: OperatorCall, a: Any, pivot: bool = True) -> Any:
    packed, pivots = _lu_factor(call, a, pivot)[:2]
    return _unpack_lu(call, packed, pivots)


def _unpack_lu(call: OperatorCall, packed: TracedArray, pivots: TracedArray, *_: Any) -> Any:
    *lead, rows, columns = packed.shape
    least = min(rows, columns)
    low = np.tril(packed[..., :, :least], -1)
    ones = converted(numpy.eye(rows, least), packed.dtype)
    shape = [(*lead, rows, rows), "float32"]
    order = call_library("permutation", [pivots], [shape], rows=rows)[0]
    return [
        converted(order, packed.dtype),
        np.add(low, ones),
        np.triu(packed[..., :least, :]),
    ]


def _lu_unpack(call: OperatorCall, packed: Any, pivots: Any, *_: Any) -> Any:
    return _unpack_lu(call, call.cast(packed), converted(pivots, "int32"))


def _lu_solve(
    call: OperatorCall, packed: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False
) -> Any:
    order, low, up = _unpack_lu(call, call.cast(packed), converted(pivots, "int32"))
    a = np.matmul(order, np.matmul(low, up))
    y = call.cast(b)
    if adjoint:
        a = np.swapaxes(a, -1, -2)
    if left:
        return _solve_system(a, y)
    solution = _solve_system(np.swapaxes(a, -1, -2), np.swapaxes(y, -1, -2))
    return np.swapaxes(solution, -1, -2)


def _least_squares(call: OperatorCall, a: Any, b: Any, *_: Any) -> Any:
    if call.read - {0}:
        call.refuse("reading other results than the solution is not supported")
    x, y = call.cast(a), call.cast(b)
    vector = y.ndim == x.ndim - 1
    y = np.expand_dims(y, -1) if vector else y
    solution = _solve_system(x, y, "least_squares")
    return [np.squeeze(solution, (-1,)) if vector else solution, None, None, None]


def _exponential(call: OperatorCall, a: Any) -> Any:
    x = call.cast(a)
    return call_library("exponential", [x], [x.shape])


def _reflections(call: OperatorCall, a: Any, tau: Any) -> Any:
    x = call.cast(a)
    return call_library("reflections", [x, call.cast(tau)], [x.shape])


def _by_reflections(
    call: OperatorCall, a: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False
) -> Any:
    """Return a product with the square matrix of all Householder reflections."""
    x, y = call.cast(a), call.cast(other)
    *lead, rows, columns = x.shape
    if not (isinstance(rows, int) and isinstance(columns, int)):
        call.refuse("matrices of symbolic sizes are not supported")
    square = np.pad(x, [(0, 0)] * (len(lead) + 1) + [(0, max(rows - columns, 0))])[..., :rows]
    turn = call_library("reflections", [square, call.cast(tau)], [square.shape])[0]
    turn = np.swapaxes(turn, -1, -2) if transpose else turn
    return np.matmul(turn, y) if left else np.matmul(y, turn)


def _pseudo_inverse(
    call: OperatorCall, a: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """Return the pseudo-inverse; singular values up to the tolerances count as 0."""
    x = call.cast(a)
    *lead, rows, columns = x.shape
    share = np.maximum(rows, columns) * float(numpy.finfo(call.dtype).eps)
    by = call.cast(rtol if rtol is not None else share if atol is None else 0.0)
    least = call.cast(0.0 if atol is None else atol)
    shape = [(*lead, columns, rows)]
    return call_library("pseudo_inverse", [x, least, by], shape, hermitian=int(hermitian))


def _cross(call: OperatorCall, a: Any, b: Any, dim: int = -1) -> Any:
    return np.linalg.cross(call.cast(a), call.cast(b), axis=dim)


def _trace(call: OperatorCall, a: Any) -> Any:
    return np.linalg.trace(call.cast(a))


LINALG: Mapping[str, Handler] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv"), _matmul),
    "linear": _linear,
    "addmm": _addmm,
    "addmv": _addmm,
    "baddbmm": _addmm,
    "addbmm": _addbmm,
    "addr": _addr,
    "dot": _dot,
    "vdot": _dot,
    "_int_mm": _int_mm,
    "_grouped_mm": _grouped_mm,
    "einsum": _einsum,
    "_cdist_forward": _cdist,
    "_euclidean_dist": _cdist,
    "_pdist_forward": _pdist,
    "_trilinear": _trilinear,
    "cholesky": _cholesky,
    "linalg_cholesky_ex": _cholesky,
    "linalg_cholesky": _cholesky,
    "cholesky_inverse": _cholesky_inverse,
    "cholesky_solve": _cholesky_solve,
    "_cholesky_solve_helper": _cholesky_solve,
    "linalg_inv_ex": _inverse,
    "linalg_inv": _inverse,
    "inverse": _inverse,
    "linalg_qr": _qr,
    "geqrf": _householder_factors,
    "ormqr": _by_reflections,
    "_linalg_svd": _svd,
    "linalg_svd": lambda call, a, full=True, *_: _svd(call, a, full),
    "linalg_svdvals": lambda call, a, *_: _svd(call, a, False, False)[1],
    "_linalg_eigh": _eigh,
    "linalg_eigh": _eigh,
    "linalg_eigvalsh": lambda call, a, triangle="L": _eigh(call, a, triangle, False)[0],
    "_linalg_solve_ex": _solve,
    "linalg_solve": _solve,
    "linalg_solve_triangular": _triangular,
    "triangular_solve": _triangular_solve,
    "linalg_det": _det,
    "_linalg_det": _det,
    "_linalg_slogdet": _slogdet,
    "linalg_slogdet": _slogdet,
    "linalg_lu_factor_ex": _lu_factor,
    "linalg_lu_factor": _lu_factor,
    "_lu_with_info": _lu_factor,
    "linalg_lu": _lu,
    "lu_unpack": _lu_unpack,
    "linalg_lu_solve": _lu_solve,
    "linalg_lstsq": _least_squares,
    "linalg_matrix_exp": _exponential,
    "matrix_exp": _exponential,
    "linalg_householder_product": _reflections,
    "linalg_pinv.atol_rtol_tensor": _pseudo_inverse,
    "linalg_cross": _cross,
    "cross": _cross,
    "trace": _trace,
}
