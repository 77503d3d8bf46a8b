"""ATen's linear algebra: calls of the library "linalg", labelled as such in the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy

from explorer.frontends import arrays as np
from explorer.frontends.arrays.linalg import library
from explorer.frontends.aten.call import Call
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.promote import converted, traced

Handler = Callable[..., Any]


def _no_faults(call: Call, x: TracedArray, result: int) -> TracedArray:
    """How many of a batch could not be done: an error ends the run instead."""
    zero = traced(numpy.zeros((), call.dtype_of(result)))
    found: TracedArray = np.broadcast_to(zero, x.shape[:-2])
    return found


def _cholesky(call: Call, a: Any, upper: bool = False, *_: Any) -> Any:
    x = call.cast(a)
    found = library("cholesky", [x], [x.shape], upper=int(upper))
    return [*found, _no_faults(call, x, 1)] if len(call.results) > 1 else found


def _cholesky_inverse(call: Call, a: Any, upper: bool = False) -> Any:
    x = call.cast(a)
    return _inverse_of(_product(x, upper))


def _product(triangle: TracedArray, upper: bool) -> TracedArray:
    part = np.triu(triangle) if upper else np.tril(triangle)
    other = np.swapaxes(part, -1, -2)
    found: TracedArray = np.matmul(other, part) if upper else np.matmul(part, other)
    return found


def _inverse_of(x: TracedArray) -> list[TracedArray]:
    return library("inverse", [x], [x.shape])


def _cholesky_solve(call: Call, b: Any, a: Any, upper: bool = False) -> Any:
    return _solution(_product(call.cast(a), upper), call.cast(b))


def _solution(a: TracedArray, b: TracedArray, function: str = "solve", **attrs: int) -> TracedArray:
    lead = np.broadcast_arrays(a[..., :1, :1], b[..., :1, :1])[0].shape[:-2]
    shape = (*lead, a.shape[-1], b.shape[-1])
    return library(function, [a, b], [shape], **attrs)[0]


def _inverse(call: Call, a: Any, *_: Any) -> Any:
    x = call.cast(a)
    found = _inverse_of(x)
    return [*found, _no_faults(call, x, 1)] if len(call.results) > 1 else found


def _qr(call: Call, a: Any, mode: str = "reduced") -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    least = np.minimum(rows, columns)
    if mode == "r":
        empty = traced(numpy.zeros((0,), x.dtype))
        return [empty, *library("qr", [x], [(*lead, least, columns)], mode="r")]
    inner = rows if mode == "complete" else least
    shapes = [(*lead, rows, inner), (*lead, inner, columns)]
    return library("qr", [x], shapes, mode=mode)


def _factors(call: Call, a: Any) -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    return library("householder", [x], [x.shape, (*lead, np.minimum(rows, columns))])


def _svd(call: Call, a: Any, full: bool = False, vectors: bool = True, *_: Any) -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    least = np.minimum(rows, columns)
    if not vectors or call.read == {1}:
        values = library("singular_values", [x], [(*lead, least)])[0]
        empty = traced(numpy.zeros((0,), x.dtype))
        return [empty, values, empty]
    n, m = (rows, columns) if full else (least, least)
    return library(
        "svd", [x], [(*lead, rows, n), (*lead, least), (*lead, m, columns)], full=int(full)
    )


def _eigh(call: Call, a: Any, triangle: str = "L", vectors: bool = True) -> Any:
    x = call.cast(a)
    if not vectors or call.read == {0}:
        values = library("eigvalsh", [x], [x.shape[:-1]], lower=int(triangle.upper() == "L"))
        return [*values, traced(numpy.zeros((0,), x.dtype))]
    return library("eigh", [x], [x.shape[:-1], x.shape], lower=int(triangle.upper() == "L"))


def _solve(call: Call, a: Any, b: Any, left: bool = True, *_: Any) -> Any:
    x, y = call.cast(a), call.cast(b)
    if len(call.results) > 1 and call.read & {1, 2}:
        call.refuse("the factors of a solution")
    vector = y.ndim == 1 or (y.ndim == x.ndim - 1 and y.type.dims == x.type.dims[:-1])
    if vector:
        y = np.expand_dims(y, -1)
    if left:
        found = _solution(x, y)
    else:
        x, y = np.swapaxes(x, -1, -2), y if vector else np.swapaxes(y, -1, -2)
        found = _solution(x, y)
        found = found if vector else np.swapaxes(found, -1, -2)
    found = np.squeeze(found, (-1,)) if vector else found
    return [found, None, None, _no_faults(call, x, 3)] if len(call.results) > 1 else found


def _triangular(
    call: Call, a: Any, b: Any, upper: bool, left: bool = True, unit: bool = False
) -> Any:
    x, y = call.cast(a), call.cast(b)
    if left:
        return _solution(x, y, "solve_triangle", upper=int(upper), unit=int(unit))
    x, y = np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2)
    found = _solution(x, y, "solve_triangle", upper=int(not upper), unit=int(unit))
    return np.swapaxes(found, -1, -2)


def _old_triangular(
    call: Call, b: Any, a: Any, upper: bool = True, transpose: bool = False, unit: bool = False
) -> Any:
    x = call.cast(a)
    if transpose:
        x, upper = np.swapaxes(x, -1, -2), not upper
    found = _solution(x, call.cast(b), "solve_triangle", upper=int(upper), unit=int(unit))
    return [found, x]


def _det(call: Call, a: Any) -> Any:
    if call.read - {0}:
        call.refuse("the factors of a determinant")
    x = call.cast(a)
    return [*library("determinant", [x], [x.shape[:-2]]), None, None][: len(call.results)]


def _slogdet(call: Call, a: Any) -> Any:
    if call.read - {0, 1}:
        call.refuse("the factors of a determinant")
    x = call.cast(a)
    found = library("log_determinant", [x], [x.shape[:-2], x.shape[:-2]])
    return [*found, None, None][: len(call.results)]


def _lu_factor(call: Call, a: Any, pivot: bool = True, *_: Any) -> Any:
    x = call.cast(a)
    *lead, rows, columns = x.shape
    if not pivot or not (isinstance(rows, int) and isinstance(columns, int)):
        call.refuse("factors without exchanges of rows, or of sizes that only a run knows")
    steps = min(rows, columns)
    found = library("lu", [x], [x.shape, [(*lead, steps), "int32"]])
    return [*found, _no_faults(call, x, 2)] if len(call.results) > 2 else found


def _lu(call: Call, a: Any, pivot: bool = True) -> Any:
    packed, pivots = _lu_factor(call, a, pivot)[:2]
    return _unpacked(call, packed, pivots)


def _unpacked(call: Call, packed: TracedArray, pivots: TracedArray, *_: Any) -> Any:
    *lead, rows, columns = packed.shape
    least = min(rows, columns)
    low = np.tril(packed[..., :, :least], -1)
    ones = converted(numpy.eye(rows, least), packed.dtype)
    shape = [(*lead, rows, rows), "float32"]
    order = library("permutation", [pivots], [shape], rows=rows)[0]
    return [
        converted(order, packed.dtype),
        np.add(low, ones),
        np.triu(packed[..., :least, :]),
    ]


def _lu_unpack(call: Call, packed: Any, pivots: Any, *_: Any) -> Any:
    return _unpacked(call, call.cast(packed), converted(pivots, "int32"))


def _lu_solve(
    call: Call, packed: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False
) -> Any:
    order, low, up = _unpacked(call, call.cast(packed), converted(pivots, "int32"))
    a = np.matmul(order, np.matmul(low, up))
    y = call.cast(b)
    if adjoint:
        a = np.swapaxes(a, -1, -2)
    if left:
        return _solution(a, y)
    found = _solution(np.swapaxes(a, -1, -2), np.swapaxes(y, -1, -2))
    return np.swapaxes(found, -1, -2)


def _least_squares(call: Call, a: Any, b: Any, *_: Any) -> Any:
    if call.read - {0}:
        call.refuse("what stands beside the solution")
    x, y = call.cast(a), call.cast(b)
    vector = y.ndim == x.ndim - 1
    y = np.expand_dims(y, -1) if vector else y
    found = _solution(x, y, "least_squares")
    return [np.squeeze(found, (-1,)) if vector else found, None, None, None]


def _exponential(call: Call, a: Any) -> Any:
    x = call.cast(a)
    return library("exponential", [x], [x.shape])


def _reflections(call: Call, a: Any, tau: Any) -> Any:
    x = call.cast(a)
    return library("reflections", [x, call.cast(tau)], [x.shape])


def _by_reflections(
    call: Call, a: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False
) -> Any:
    """A product with the square matrix of all reflections."""
    x, y = call.cast(a), call.cast(other)
    *lead, rows, columns = x.shape
    if not (isinstance(rows, int) and isinstance(columns, int)):
        call.refuse("matrices whose sizes only a run knows")
    square = np.pad(x, [(0, 0)] * (len(lead) + 1) + [(0, max(rows - columns, 0))])[..., :rows]
    turn = library("reflections", [square, call.cast(tau)], [square.shape])[0]
    turn = np.swapaxes(turn, -1, -2) if transpose else turn
    return np.matmul(turn, y) if left else np.matmul(y, turn)


def _pseudo_inverse(
    call: Call, a: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """Singular values up to the tolerances count as 0."""
    x = call.cast(a)
    *lead, rows, columns = x.shape
    share = np.maximum(rows, columns) * float(numpy.finfo(call.dtype).eps)
    by = call.cast(rtol if rtol is not None else share if atol is None else 0.0)
    least = call.cast(0.0 if atol is None else atol)
    shape = [(*lead, columns, rows)]
    return library("pseudo_inverse", [x, least, by], shape, hermitian=int(hermitian))


def _cross(call: Call, a: Any, b: Any, dim: int = -1) -> Any:
    return np.linalg.cross(call.cast(a), call.cast(b), axis=dim)


def _trace(call: Call, a: Any) -> Any:
    return np.linalg.trace(call.cast(a))


LINALG: Mapping[str, Handler] = {
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
    "geqrf": _factors,
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
    "triangular_solve": _old_triangular,
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
