"""Library "blas": matrix products by NumPy, which calls the BLAS it was built with."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from explorer.allowance import cores, reported_cores
from explorer.ir.shapes.dims import Shape
from explorer.ir.types import Tensor
from explorer.ops.reference.library_functions import LibraryFunction, register_function

Array = np.ndarray
DTYPES = ("float32", "float64")  # dtypes of BLAS functions

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


FUNCTIONS = tuple(
    register_function(LibraryFunction("blas", run.__name__, run, annotation))
    for run, annotation in (
        (matmul, _matmul_type),
        (matmul_add, _matmul_type),
        (gemm, _gemm_type),
    )
)
