"""The library "linalg": factorisations and solutions of matrices by NumPy, which hands them to its
LAPACK; batches included, in the dtype of the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.ops.reference.library_functions import LibraryFunction, register_function

Array = np.ndarray


def _as(like: Array, *found: Any) -> Any:
    """Results in the dtype of an argument."""
    each = tuple(np.asarray(f, like.dtype) for f in found)
    return each if len(each) > 1 else each[0]


def _each(run: Callable[..., Any], *arrays: Array) -> list[Any]:
    """What a function of single matrices gives for each of a batch."""
    lead = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    wide = [np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in arrays]
    return [run(*(w[at] for w in wide)) for at in np.ndindex(lead)]


def cholesky(a: Array, *, upper: int = 0) -> Any:
    """The triangle of which the product with its transpose is a."""
    low = np.linalg.cholesky(np.swapaxes(a, -1, -2) if upper else a)
    return _as(a, np.swapaxes(low, -1, -2) if upper else low)


def qr(a: Array, *, mode: str = "reduced") -> Any:
    """Orthogonal columns and a triangle, of which the product is a."""
    found = np.linalg.qr(a, mode)  # type: ignore[call-overload]
    return _as(a, found) if mode == "r" else _as(a, *found)


def householder(a: Array) -> Any:
    """A triangle from the diagonal on, below it the vectors of reflections, and their factors."""
    vectors, tau = np.linalg.qr(a, "raw")
    return _as(a, np.swapaxes(vectors, -1, -2), tau)


def svd(a: Array, *, full: int = 0) -> Any:
    """Left vectors, singular values from the greatest on, and right vectors in rows."""
    return _as(a, *np.linalg.svd(a, full_matrices=bool(full)))


def singular_values(a: Array) -> Any:
    """Singular values from the greatest on."""
    return _as(a, np.linalg.svd(a, compute_uv=False))


def eigh(a: Array, *, lower: int = 1) -> Any:
    """Eigenvalues from the least on, and vectors in columns, of symmetric matrices."""
    return _as(a, *np.linalg.eigh(a, "L" if lower else "U"))


def eigvalsh(a: Array, *, lower: int = 1) -> Any:
    """Eigenvalues from the least on, of symmetric matrices."""
    return _as(a, np.linalg.eigvalsh(a, "L" if lower else "U"))


def inverse(a: Array) -> Any:
    """The inverse; infinite where there is none, as nothing may be raised for one of a batch."""
    return _as(a, np.linalg.inv(a))


def pseudo_inverse(a: Array, atol: Array, rtol: Array, *, hermitian: int = 0) -> Any:
    """By singular values, or eigenvalues of symmetric matrices; those up to a number, or to a share
    of the greatest, count as 0.
    """
    if hermitian:
        values, left = np.linalg.eigh(a)
        right = np.swapaxes(left, -1, -2)
    else:
        left, values, right = np.linalg.svd(a, full_matrices=False)
    size = np.abs(values)
    largest = size.max(-1, keepdims=True, initial=0)
    kept = size > np.maximum(atol[..., None], rtol[..., None] * largest)
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0)
    return _as(a, (np.swapaxes(right, -1, -2) * inverse[..., None, :]) @ np.swapaxes(left, -1, -2))


def solve(a: Array, b: Array) -> Any:
    """x of a x = b, for columns of b."""
    return _as(a, np.linalg.solve(a, b))


def solve_triangle(a: Array, b: Array, *, upper: int = 0, unit: int = 0) -> Any:
    """x of a x = b, where only a triangle of a is read; with ones on its diagonal if `unit`."""
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        n = a.shape[-1]
        triangle = np.where(np.eye(n, dtype=bool), np.ones((), a.dtype), triangle)
    return _as(a, np.linalg.solve(triangle, b))


def determinant(a: Array) -> Any:
    """The determinant."""
    return _as(a, np.linalg.det(a))


def log_determinant(a: Array) -> Any:
    """The sign of the determinant, and the logarithm of its absolute value."""
    return _as(a, *np.linalg.slogdet(a))


def lu(a: Array) -> Any:
    """Both triangles in one matrix by Gauss with row exchanges, and the rows exchanged, from 1."""
    found = np.array(a, copy=True)
    *lead, rows, columns = a.shape
    steps = min(rows, columns)
    pivots = np.zeros((*lead, steps), np.int32)
    for at in np.ndindex(*lead):
        m = found[at]
        for k in range(steps):
            best = k + int(np.argmax(np.abs(m[k:, k])))
            pivots[(*at, k)] = best + 1
            m[[k, best]] = m[[best, k]]
            if m[k, k] != 0:
                m[k + 1 :, k] /= m[k, k]
                m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
    return found, pivots


def permutation(pivots: Array, *, rows: int) -> Any:
    """The matrix whose product with both triangles is what was factored."""
    *lead, steps = pivots.shape
    found = np.zeros((*lead, rows, rows), np.float32)
    for at in np.ndindex(*lead):
        order = np.arange(rows)
        for k in range(steps):
            j = int(pivots[(*at, k)]) - 1
            order[[k, j]] = order[[j, k]]
        found[at][order, np.arange(rows)] = 1
    return found


def least_squares(a: Array, b: Array) -> Any:
    """x for which a x is nearest to b."""
    found = _each(lambda m, v: np.linalg.lstsq(m, v, rcond=None)[0], a, b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _as(a, np.reshape(found, (*lead, a.shape[-1], b.shape[-1])))


def exponential(a: Array) -> Any:
    """The exponential of matrices, by squaring a Taylor series of a part of them."""
    wide = a.astype(np.float64)
    size = np.abs(wide).sum(-2).max(initial=0.0) if a.size else 0.0
    halves = max(0, int(np.ceil(np.log2(max(size, 1e-30)))) + 4)
    part = wide / 2.0**halves
    total = np.broadcast_to(np.eye(a.shape[-1]), a.shape).copy()
    term = total
    for k in range(1, 19):
        term = term @ part / k
        total = total + term
    for _ in range(halves):
        total = total @ total
    return _as(a, total)


def reflections(a: Array, tau: Array) -> Any:
    """The product of Householder's reflections, of which the columns of a hold the vectors."""
    *lead, rows, columns = a.shape
    found = np.zeros_like(a)
    for at in np.ndindex(*lead):
        q = np.eye(rows, dtype=a.dtype)
        for k in range(tau.shape[-1]):
            v = np.concatenate([np.zeros(k), [1.0], a[at][k + 1 :, k]]).astype(a.dtype)
            q = q - tau[at][k] * np.outer(q @ v, v)
        found[at] = q[:, :columns]
    return found


FUNCTIONS = tuple(
    register_function(LibraryFunction("linalg", run.__name__, run))
    for run in (
        *(cholesky, qr, householder, svd, singular_values, eigh, eigvalsh, inverse),
        *(pseudo_inverse, solve, solve_triangle, determinant, log_determinant, lu),
        *(permutation, least_squares, exponential, reflections),
    )
)
