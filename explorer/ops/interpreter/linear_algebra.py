"""Libraries "blas" and "linalg": products, factorisations and solutions by NumPy.

NumPy calls the BLAS and the LAPACK that it was built with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from explorer.ir.dims import Shape
from explorer.ir.types import Tensor
from explorer.ops.interpreter.library_functions import LibraryFunction, register_function
from explorer.process.allowance import cores, reported_cores

Array = np.ndarray


# Library "blas": matrix products.


BLAS_DTYPES = ("float32", "float64")  # dtypes of BLAS functions

if cores() < reported_cores():  # it started as many threads as the system reports
    threadpool_limits(cores(), user_api="blas")


def matmul(a: Array, b: Array, *, out: Array) -> None:
    """Compute `out = a @ b` as NumPy's matmul, batches included."""
    np.matmul(a, b, out=out)


def matmul_add(a: Array, b: Array, c: Array, *, out: Array) -> None:
    """Compute `out = a @ b + c`, the bias as a second step."""
    np.matmul(a, b, out=out)
    np.add(out, c, out=out)


def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    out: Array,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> None:
    """Compute ONNX's Gemm: `out = alpha * a' @ b' + beta * c`."""
    np.dot(a.T if transA else a, b.T if transB else b, out=out)
    if alpha != 1.0:
        np.multiply(out, out.dtype.type(alpha), out=out)
    if c is not None:
        np.add(out, c if beta == 1.0 else out.dtype.type(beta) * c, out=out)


def _matmul_type(a: Tensor, b: Tensor, *bias: Tensor) -> Tensor:
    rows = a.dims[-2:-1] if len(a.dims) > 1 else ()
    columns = b.dims[-1:] if len(b.dims) > 1 else ()
    return Tensor((*_batch(a.dims[:-2], b.dims[:-2]), *rows, *columns), a.element)


def _batch(a: Shape, b: Shape) -> Shape:
    """Return the broadcast leading dims."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(n if m == 1 else m for m, n in pairs)


def _gemm_type(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, transA: int = 0, transB: int = 0
) -> Tensor:
    return Tensor((a.dims[1 if transA else 0], b.dims[0 if transB else 1]), a.element)


BLAS = tuple(
    register_function(LibraryFunction("blas", run.__name__, run, annotation))
    for run, annotation in (
        (matmul, _matmul_type),
        (matmul_add, _matmul_type),
        (gemm, _gemm_type),
    )
)


# Library "linalg": factorisations and solutions.


def _as(like: Array, *results: Any) -> Any:
    """Convert results to the dtype of an argument."""
    each = tuple(np.asarray(f, like.dtype) for f in results)
    return each if len(each) > 1 else each[0]


def _each(run: Callable[..., Any], *arrays: Array) -> list[Any]:
    """Apply a function of single matrices to each of a batch."""
    lead = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    wide = [np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in arrays]
    return [run(*(w[at] for w in wide)) for at in np.ndindex(lead)]


def cholesky(a: Array, *, upper: int = 0) -> Any:
    """Return the triangle whose product with its transpose is a."""
    low = np.linalg.cholesky(np.swapaxes(a, -1, -2) if upper else a)
    return _as(a, np.swapaxes(low, -1, -2) if upper else low)


def qr(a: Array, *, mode: str = "reduced") -> Any:
    """Return orthogonal columns and a triangle whose product is a."""
    factors = np.linalg.qr(a, mode)  # type: ignore[call-overload]
    return _as(a, factors) if mode == "r" else _as(a, *factors)


def householder(a: Array) -> Any:
    """Return a triangle with the reflections' vectors below its diagonal, and their factors."""
    vectors, tau = np.linalg.qr(a, "raw")
    return _as(a, np.swapaxes(vectors, -1, -2), tau)


def svd(a: Array, *, full: int = 0) -> Any:
    """Return left vectors, singular values in descending order, and right vectors in rows."""
    return _as(a, *np.linalg.svd(a, full_matrices=bool(full)))


def singular_values(a: Array) -> Any:
    """Return the singular values in descending order."""
    return _as(a, np.linalg.svd(a, compute_uv=False))


def eigh(a: Array, *, lower: int = 1) -> Any:
    """Return ascending eigenvalues, and eigenvectors in columns, of symmetric matrices."""
    return _as(a, *np.linalg.eigh(a, "L" if lower else "U"))


def eigvalsh(a: Array, *, lower: int = 1) -> Any:
    """Return the eigenvalues of symmetric matrices in ascending order."""
    return _as(a, np.linalg.eigvalsh(a, "L" if lower else "U"))


def inverse(a: Array) -> Any:
    """Return the inverse."""
    return _as(a, np.linalg.inv(a))


def pseudo_inverse(a: Array, atol: Array, rtol: Array, *, hermitian: int = 0) -> Any:
    """Return the pseudo-inverse by singular values, or eigenvalues of symmetric matrices.

    Values up to `atol`, or up to the share `rtol` of the greatest, count as 0.
    """
    if hermitian:
        values, left = np.linalg.eigh(a)
        right = np.swapaxes(left, -1, -2)
    else:
        left, values, right = np.linalg.svd(a, full_matrices=False)
    size = np.abs(values)
    largest = size.max(-1, keepdims=True, initial=0)
    significant = size > np.maximum(atol[..., None], rtol[..., None] * largest)
    inverse = np.where(significant, 1 / np.where(significant, values, 1), 0)
    return _as(a, (np.swapaxes(right, -1, -2) * inverse[..., None, :]) @ np.swapaxes(left, -1, -2))


def solve(a: Array, b: Array) -> Any:
    """Return x of a x = b, for columns of b."""
    return _as(a, np.linalg.solve(a, b))


def solve_triangle(a: Array, b: Array, *, upper: int = 0, unit: int = 0) -> Any:
    """Return x of a x = b for a triangle of a; its diagonal is ones if `unit`."""
    triangle = np.triu(a) if upper else np.tril(a)
    if unit:
        n = a.shape[-1]
        triangle = np.where(np.eye(n, dtype=bool), np.ones((), a.dtype), triangle)
    return _as(a, np.linalg.solve(triangle, b))


def determinant(a: Array) -> Any:
    """Return the determinant."""
    return _as(a, np.linalg.det(a))


def log_determinant(a: Array) -> Any:
    """Return the sign of the determinant, and the logarithm of its absolute value."""
    return _as(a, *np.linalg.slogdet(a))


def lu(a: Array) -> Any:
    """Return both triangles in one matrix, by row pivoting, and the exchanged rows, from 1."""
    packed = np.array(a, copy=True)
    *lead, rows, columns = a.shape
    steps = min(rows, columns)
    pivots = np.zeros((*lead, steps), np.int32)
    for at in np.ndindex(*lead):
        m = packed[at]
        for k in range(steps):
            best = k + int(np.argmax(np.abs(m[k:, k])))
            pivots[(*at, k)] = best + 1
            m[[k, best]] = m[[best, k]]
            if m[k, k] != 0:
                m[k + 1 :, k] /= m[k, k]
                m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
    return packed, pivots


def permutation(pivots: Array, *, rows: int) -> Any:
    """Return the permutation matrix P of A = P L U."""
    *lead, steps = pivots.shape
    matrices = np.zeros((*lead, rows, rows), np.float32)
    for at in np.ndindex(*lead):
        order = np.arange(rows)
        for k in range(steps):
            j = int(pivots[(*at, k)]) - 1
            order[[k, j]] = order[[j, k]]
        matrices[at][order, np.arange(rows)] = 1
    return matrices


def least_squares(a: Array, b: Array) -> Any:
    """Return the x for which a x is nearest to b."""
    solutions = _each(lambda m, v: np.linalg.lstsq(m, v, rcond=None)[0], a, b)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _as(a, np.reshape(solutions, (*lead, a.shape[-1], b.shape[-1])))


def exponential(a: Array) -> Any:
    """Return the matrix exponential, by scaling and squaring of a Taylor series."""
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
    """Return the product of Householder reflections whose vectors are the columns of a."""
    *lead, rows, columns = a.shape
    products = np.zeros_like(a)
    for at in np.ndindex(*lead):
        q = np.eye(rows, dtype=a.dtype)
        for k in range(tau.shape[-1]):
            v = np.concatenate([np.zeros(k), [1.0], a[at][k + 1 :, k]]).astype(a.dtype)
            q = q - tau[at][k] * np.outer(q @ v, v)
        products[at] = q[:, :columns]
    return products


LINALG = tuple(
    register_function(LibraryFunction("linalg", run.__name__, run))
    for run in (
        *(cholesky, qr, householder, svd, singular_values, eigh, eigvalsh, inverse),
        *(pseudo_inverse, solve, solve_triangle, determinant, log_determinant, lu),
        *(permutation, least_squares, exponential, reflections),
    )
)
