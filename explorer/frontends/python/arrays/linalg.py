"""`explorer.np.linalg`: the array API's linear algebra on traced values.

Factorisations and solutions are calls of the library "linalg", labelled as such in the program.
Products, norms and traces are composed of other operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from explorer.frontends.python.arrays.creation import eye, stack
from explorer.frontends.python.arrays.elementwise import abs as absolute
from explorer.frontends.python.arrays.elementwise import multiply, sqrt, square, subtract
from explorer.frontends.python.arrays.elementwise import pow as power
from explorer.frontends.python.arrays.reductions import (
    count_nonzero,
    einsum,
    matmul,
    outer,
    tensordot,
    vecdot,
)
from explorer.frontends.python.arrays.reductions import max as greatest
from explorer.frontends.python.arrays.reductions import min as least
from explorer.frontends.python.arrays.reductions import sum as total
from explorer.frontends.python.arrays.shaping import (
    axes_of,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    matrix_transpose,
    moveaxis,
    refuse,
    squeeze,
)
from explorer.frontends.python.arrays.ufuncs import greater, maximum, minimum, not_equal
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.dims import plain_dim
from explorer.frontends.python.tracing.emit import bind, common_dtype, converted, traced
from explorer.frontends.python.tracing.frames import current_frame
from explorer.frontends.python.tracing.operation import operation
from explorer.ir.calls import AttrValue, LibraryCall
from explorer.ir.dims import Dim
from explorer.ir.types import Tensor

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

of_numpy = numpy.linalg


def call_library(
    function: str, args: Sequence[TracedArray], shapes: Sequence[Any], **attrs: AttrValue
) -> list[TracedArray]:
    """Call a function of the library "linalg".

    Each result has a shape of `shapes` and the dtype of the first argument; a list of a shape and a
    dtype states both.
    """
    frame = current_frame()
    own = tuple(frame.own(a.value, a.home) for a in args)
    types = []
    for result in shapes:
        dims, dtype = result if isinstance(result, list) else (result, args[0].type.element)
        types.append(Tensor(tuple(map(_dim, dims)), dtype))
    call = LibraryCall("linalg", function, own, tuple(attrs.items()))
    return bind(frame, call, types, function)


def _dim(value: Any) -> Dim:
    plain = plain_dim(value)
    assert plain is not None, "a dim is a number or arithmetic on others"
    return plain


def _as_matrices(name: str, x: Any, square_ones: bool = False) -> TracedArray:
    """Return x as matrices of floats; refuse what is not a matrix, or not a square one."""
    matrices = traced(x)
    if matrices.ndim < 2:
        refuse(f"{name} takes matrices, and this has {matrices.ndim} dims")
    if square_ones and matrices.type.dims[-1] != matrices.type.dims[-2]:
        refuse(f"{name} takes square matrices, and this is {matrices.type}")
    return matrices if matrices.dtype.kind == "f" else converted(matrices, "float64")


class EighResult(NamedTuple):
    """Results of `eigh`."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Results of `qr`."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """Results of `slogdet`."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """Results of `svd`."""

    U: Any
    S: Any
    Vh: Any


@operation(of_numpy.cholesky)
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """Apply NumPy's `linalg.cholesky`."""
    a = _as_matrices("cholesky", x, True)
    return call_library("cholesky", [a], [a.shape], upper=int(upper))[0]


@operation(of_numpy.inv)
def inv(x: Any, /) -> Any:
    """Apply NumPy's `linalg.inv`."""
    a = _as_matrices("inv", x, True)
    return call_library("inverse", [a], [a.shape])[0]


@operation(of_numpy.det)
def det(x: Any, /) -> Any:
    """Apply NumPy's `linalg.det`."""
    a = _as_matrices("det", x, True)
    return call_library("determinant", [a], [a.shape[:-2]])[0]


@operation(of_numpy.slogdet)
def slogdet(x: Any, /) -> Any:
    """Apply NumPy's `linalg.slogdet`."""
    a = _as_matrices("slogdet", x, True)
    return SlogdetResult(*call_library("log_determinant", [a], [a.shape[:-2], a.shape[:-2]]))


@operation(of_numpy.eigh)
def eigh(x: Any, /) -> Any:
    """Apply NumPy's `linalg.eigh`, on the lower triangle."""
    a = _as_matrices("eigh", x, True)
    return EighResult(*call_library("eigh", [a], [a.shape[:-1], a.shape], lower=1))


@operation(of_numpy.eigvalsh)
def eigvalsh(x: Any, /) -> Any:
    """Apply NumPy's `linalg.eigvalsh`, on the lower triangle."""
    a = _as_matrices("eigvalsh", x, True)
    return call_library("eigvalsh", [a], [a.shape[:-1]], lower=1)[0]


@operation(of_numpy.qr)
def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """Apply NumPy's `linalg.qr`, with mode "reduced" or "complete"."""
    if mode not in ("reduced", "complete"):
        refuse(f"qr has no mode {mode!r}; it has 'reduced' and 'complete'")
    a = _as_matrices("qr", x)
    *lead, rows, columns = a.shape
    inner = rows if mode == "complete" else _smaller_extent(rows, columns)
    return QRResult(
        *call_library("qr", [a], [(*lead, rows, inner), (*lead, inner, columns)], mode=mode)
    )


def _smaller_extent(rows: Any, columns: Any) -> Any:
    return rows if rows is columns else minimum(rows, columns)


@operation(of_numpy.svd)
def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """Apply NumPy's `linalg.svd`."""
    a = _as_matrices("svd", x)
    *lead, rows, columns = a.shape
    inner = _smaller_extent(rows, columns)
    n, m = (rows, columns) if full_matrices else (inner, inner)
    shapes = [(*lead, rows, n), (*lead, inner), (*lead, m, columns)]
    return SVDResult(*call_library("svd", [a], shapes, full=int(full_matrices)))


@operation(of_numpy.svdvals)
def svdvals(x: Any, /) -> Any:
    """Apply NumPy's `linalg.svdvals`."""
    a = _as_matrices("svdvals", x)
    *lead, rows, columns = a.shape
    return call_library("singular_values", [a], [(*lead, _smaller_extent(rows, columns))])[0]


@operation(of_numpy.solve)
def solve(x1: Any, x2: Any, /) -> Any:
    """Apply NumPy's `linalg.solve`; a second argument of one dim is one vector."""
    dtype = common_dtype((x1, x2))
    dtype = dtype if dtype.kind == "f" else numpy.dtype("float64")
    a, b = converted(_as_matrices("solve", x1, True), dtype), converted(x2, dtype)
    columns = b if b.ndim > 1 else expand_dims(b, -1)
    lead = broadcast_arrays(a[..., :1, :1], columns[..., :1, :1])[0].shape[:-2]
    shape = (*lead, a.shape[-1], columns.shape[-1])
    solution = call_library("solve", [a, columns], [shape])[0]
    return solution if b.ndim > 1 else squeeze(solution, (-1,))


@operation(of_numpy.pinv)
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Apply NumPy's `linalg.pinv`: singular values up to `rtol` times the greatest count as 0."""
    a = _as_matrices("pinv", x)
    *lead, rows, columns = a.shape
    none, share = converted(0.0, a.dtype), _relative_tolerance(a, rtol)
    return call_library("pseudo_inverse", [a, none, share], [(*lead, columns, rows)], hermitian=0)[
        0
    ]


@operation(of_numpy.matrix_rank)
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """Apply NumPy's `linalg.matrix_rank`: count singular values above `rtol` times the greatest."""
    a = _as_matrices("matrix_rank", x)
    values, share = svdvals(a), _relative_tolerance(a, rtol)
    limit = multiply(greatest(values, -1, keepdims=True), expand_dims(share, -1))
    return count_nonzero(greater(values, limit), -1)


def _relative_tolerance(a: TracedArray, rtol: Any) -> TracedArray:
    """Return the fraction of the greatest singular value that counts as 0, in the dtype of `a`."""
    if rtol is None:
        rtol = multiply(maximum(*a.shape[-2:]), float(numpy.finfo(a.dtype.name).eps))
    return converted(rtol, a.dtype)


@operation(of_numpy.matrix_power)
def matrix_power(x: Any, n: int, /) -> Any:
    """Apply NumPy's `linalg.matrix_power`; a negative power is one of the inverse."""
    a = traced(x)
    if not isinstance(n, int):
        refuse(f"matrix_power takes an integer, not {n!r}")
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    if n == 1:
        return a
    half = matrix_power(a, n // 2)
    squared = matmul(half, half)
    return matmul(squared, a) if n % 2 else squared


@operation(of_numpy.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Apply NumPy's `linalg.diagonal` to the last two dims; a positive offset is above the main."""
    a = traced(x)
    if a.ndim < 2:
        refuse(f"diagonal takes matrices, and this has {a.ndim} dims")
    part = a[..., offset:] if offset >= 0 else a[..., -offset:, :]
    count = _smaller_extent(*part.shape[-2:])
    part = part[..., :count, :count]
    if part.dtype.kind == "b":
        return converted(einsum("...ii->...i", converted(part, "uint8")), "bool")
    return einsum("...ii->...i", part)


@operation(of_numpy.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Apply NumPy's `linalg.trace`: the sum of a diagonal of the last two dims."""
    return total(diagonal(traced(x), offset=offset), -1, dtype)


@operation(of_numpy.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Apply NumPy's `linalg.cross` to vectors of three elements."""
    a, b = broadcast_arrays(traced(x1), traced(x2))
    (axis,) = axes_of(axis, a.ndim)
    if a.type.dims[axis] != 3:
        refuse(f"cross takes vectors of 3 elements, and these have {a.type.dims[axis]}")
    a, b = moveaxis(a, axis, 0), moveaxis(b, axis, 0)
    pairs = ((1, 2), (2, 0), (0, 1))
    rows = [subtract(multiply(a[i], b[j]), multiply(a[j], b[i])) for i, j in pairs]
    return moveaxis(stack(rows), 0, axis)


@operation(of_numpy.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Apply NumPy's `linalg.vector_norm` to real numbers."""
    a = traced(x)
    a = a if a.dtype.kind == "f" else converted(a, "float64")
    size = absolute(a)
    if ord == numpy.inf:
        return greatest(size, axis, keepdims=keepdims)
    if ord == -numpy.inf:
        return least(size, axis, keepdims=keepdims)
    if ord == 0:
        return total(converted(not_equal(a, 0), a.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return total(size, axis, keepdims=keepdims)
    if ord == 2:
        return sqrt(total(square(a), axis, keepdims=keepdims))
    if not isinstance(ord, (int, float)):
        refuse(f"vector_norm has no norm {ord!r}; ord must be a number")
    return power(total(power(size, ord), axis, keepdims=keepdims), 1 / ord)


@operation(of_numpy.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Apply NumPy's `linalg.matrix_norm` to the last two dims."""
    a = _as_matrices("matrix_norm", x)
    if ord == "fro":
        return vector_norm(a, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, numpy.inf, -numpy.inf):
        along = -2 if abs(ord) == 1 else -1
        sums = total(absolute(a), along, keepdims=True)
        norm = (greatest if ord > 0 else least)(sums, (-2, -1), keepdims=True)
    elif ord in (2, -2, "nuc"):
        of = {2: greatest, -2: least, "nuc": total}[ord]
        norm = expand_dims(of(svdvals(a), -1, keepdims=True), -1)
    else:
        refuse(f"matrix_norm has no norm {ord!r}; it has 'fro', 'nuc', 1, -1, 2, -2 and infinity")
    return norm if keepdims else squeeze(norm, (-2, -1))
