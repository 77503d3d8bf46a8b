"""`explorer.np.linalg`: the array API's linear algebra, on traced values.

Factorisations and solutions are calls of the library "linalg", labelled as such in the program;
products, norms and traces are written with other operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from explorer.frontends.arrays.axes import axes_of, refuse
from explorer.frontends.arrays.choices import greater, maximum, minimum, not_equal
from explorer.frontends.arrays.creation import eye
from explorer.frontends.arrays.elementwise import abs as absolute
from explorer.frontends.arrays.elementwise import multiply, sqrt, square, subtract
from explorer.frontends.arrays.elementwise import pow as power
from explorer.frontends.arrays.joining import stack
from explorer.frontends.arrays.products import einsum, matmul, outer, tensordot, vecdot
from explorer.frontends.arrays.reductions import count_nonzero
from explorer.frontends.arrays.reductions import max as greatest
from explorer.frontends.arrays.reductions import min as least
from explorer.frontends.arrays.reductions import sum as total
from explorer.frontends.arrays.shaping import (
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    matrix_transpose,
    moveaxis,
    squeeze,
)
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.dims import plain_dim
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import common_dtype, converted, traced
from explorer.ir.calls import AttrValue, LibraryCall
from explorer.ir.shapes.dims import Dim
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


def library(
    function: str, args: Sequence[TracedArray], shapes: Sequence[Any], **attrs: AttrValue
) -> list[TracedArray]:
    """What a function of the library gives: arrays of these shapes, in the dtype of the first
    argument; a pair is a shape and a dtype.
    """
    frame = current_frame()
    own = tuple(frame.own(a.value, a.home) for a in args)
    types = []
    for found in shapes:
        dims, dtype = found if isinstance(found, list) else (found, args[0].type.element)
        types.append(Tensor(tuple(map(_dim, dims)), dtype))
    call = LibraryCall("linalg", function, own, tuple(attrs.items()))
    return bind(frame, call, types, function)


def _dim(value: Any) -> Dim:
    found = plain_dim(value)
    assert found is not None, "a dim is a number or arithmetic on others"
    return found


def _matrices(name: str, x: Any, square_ones: bool = False) -> TracedArray:
    """Return matrices of floats; TraceError where there is no matrix, or none that is square."""
    found = traced(x)
    if found.ndim < 2:
        refuse(f"{name} takes matrices, and this has {found.ndim} dims")
    if square_ones and found.type.dims[-1] != found.type.dims[-2]:
        refuse(f"{name} takes square matrices, and this is {found.type}")
    return found if found.dtype.kind == "f" else converted(found, "float64")


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Any
    R: Any


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Any
    S: Any
    Vh: Any


@operation(of_numpy.cholesky)
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """NumPy's `linalg.cholesky`."""
    a = _matrices("cholesky", x, True)
    return library("cholesky", [a], [a.shape], upper=int(upper))[0]


@operation(of_numpy.inv)
def inv(x: Any, /) -> Any:
    """NumPy's `linalg.inv`."""
    a = _matrices("inv", x, True)
    return library("inverse", [a], [a.shape])[0]


@operation(of_numpy.det)
def det(x: Any, /) -> Any:
    """NumPy's `linalg.det`."""
    a = _matrices("det", x, True)
    return library("determinant", [a], [a.shape[:-2]])[0]


@operation(of_numpy.slogdet)
def slogdet(x: Any, /) -> Any:
    """NumPy's `linalg.slogdet`."""
    a = _matrices("slogdet", x, True)
    return SlogdetResult(*library("log_determinant", [a], [a.shape[:-2], a.shape[:-2]]))


@operation(of_numpy.eigh)
def eigh(x: Any, /) -> Any:
    """NumPy's `linalg.eigh`, by the lower triangle."""
    a = _matrices("eigh", x, True)
    return EighResult(*library("eigh", [a], [a.shape[:-1], a.shape], lower=1))


@operation(of_numpy.eigvalsh)
def eigvalsh(x: Any, /) -> Any:
    """NumPy's `linalg.eigvalsh`, by the lower triangle."""
    a = _matrices("eigvalsh", x, True)
    return library("eigvalsh", [a], [a.shape[:-1]], lower=1)[0]


@operation(of_numpy.qr)
def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """NumPy's `linalg.qr`, reduced or complete."""
    if mode not in ("reduced", "complete"):
        refuse(f"qr has no mode {mode!r}; it has 'reduced' and 'complete'")
    a = _matrices("qr", x)
    *lead, rows, columns = a.shape
    inner = rows if mode == "complete" else _least(rows, columns)
    return QRResult(*library("qr", [a], [(*lead, rows, inner), (*lead, inner, columns)], mode=mode))


def _least(rows: Any, columns: Any) -> Any:
    return rows if rows is columns else minimum(rows, columns)


@operation(of_numpy.svd)
def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """NumPy's `linalg.svd`."""
    a = _matrices("svd", x)
    *lead, rows, columns = a.shape
    inner = _least(rows, columns)
    n, m = (rows, columns) if full_matrices else (inner, inner)
    shapes = [(*lead, rows, n), (*lead, inner), (*lead, m, columns)]
    return SVDResult(*library("svd", [a], shapes, full=int(full_matrices)))


@operation(of_numpy.svdvals)
def svdvals(x: Any, /) -> Any:
    """NumPy's `linalg.svdvals`."""
    a = _matrices("svdvals", x)
    *lead, rows, columns = a.shape
    return library("singular_values", [a], [(*lead, _least(rows, columns))])[0]


@operation(of_numpy.solve)
def solve(x1: Any, x2: Any, /) -> Any:
    """NumPy's `linalg.solve`: a second argument of one dim is one vector."""
    dtype = common_dtype((x1, x2))
    dtype = dtype if dtype.kind == "f" else numpy.dtype("float64")
    a, b = converted(_matrices("solve", x1, True), dtype), converted(x2, dtype)
    columns = b if b.ndim > 1 else expand_dims(b, -1)
    lead = broadcast_arrays(a[..., :1, :1], columns[..., :1, :1])[0].shape[:-2]
    shape = (*lead, a.shape[-1], columns.shape[-1])
    found = library("solve", [a, columns], [shape])[0]
    return found if b.ndim > 1 else squeeze(found, (-1,))


@operation(of_numpy.pinv)
def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """NumPy's `linalg.pinv`: singular values up to `rtol` of the greatest one count as 0."""
    a = _matrices("pinv", x)
    *lead, rows, columns = a.shape
    none, share = converted(0.0, a.dtype), _share(a, rtol)
    return library("pseudo_inverse", [a, none, share], [(*lead, columns, rows)], hermitian=0)[0]


@operation(of_numpy.matrix_rank)
def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """NumPy's `linalg.matrix_rank`: how many singular values are more than `rtol` of the greatest
    one.
    """
    a = _matrices("matrix_rank", x)
    values, share = svdvals(a), _share(a, rtol)
    limit = multiply(greatest(values, -1, keepdims=True), expand_dims(share, -1))
    return count_nonzero(greater(values, limit), -1)


def _share(a: TracedArray, rtol: Any) -> TracedArray:
    """Return the share of the greatest singular value that counts as 0, in the matrices' dtype."""
    if rtol is None:
        rtol = multiply(maximum(*a.shape[-2:]), float(numpy.finfo(a.dtype.name).eps))
    return converted(rtol, a.dtype)


@operation(of_numpy.matrix_power)
def matrix_power(x: Any, n: int, /) -> Any:
    """NumPy's `linalg.matrix_power`: a matrix times itself, n times; its inverse below 0."""
    a = traced(x)
    if not isinstance(n, int):
        refuse(f"matrix_power takes a whole number of times, and this is {n!r}")
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    if n == 1:
        return a
    half = matrix_power(a, n // 2)
    whole = matmul(half, half)
    return matmul(whole, a) if n % 2 else whole


@operation(of_numpy.diagonal)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """NumPy's `linalg.diagonal`, of the last two dims; above the main one by `offset`."""
    a = traced(x)
    if a.ndim < 2:
        refuse(f"diagonal takes matrices, and this has {a.ndim} dims")
    part = a[..., offset:] if offset >= 0 else a[..., -offset:, :]
    count = _least(*part.shape[-2:])
    part = part[..., :count, :count]
    if part.dtype.kind == "b":
        return converted(einsum("...ii->...i", converted(part, "uint8")), "bool")
    return einsum("...ii->...i", part)


@operation(of_numpy.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """NumPy's `linalg.trace`: the sum of a diagonal of the last two dims."""
    return total(diagonal(traced(x), offset=offset), -1, dtype)


@operation(of_numpy.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """NumPy's `linalg.cross`, of vectors of three elements."""
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
    """NumPy's `linalg.vector_norm`, of real numbers."""
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
        refuse(f"vector_norm has no norm {ord!r}; it has numbers")
    return power(total(power(size, ord), axis, keepdims=keepdims), 1 / ord)


@operation(of_numpy.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """NumPy's `linalg.matrix_norm`, of the last two dims."""
    a = _matrices("matrix_norm", x)
    if ord == "fro":
        return vector_norm(a, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, numpy.inf, -numpy.inf):
        along = -2 if abs(ord) == 1 else -1
        sums = total(absolute(a), along, keepdims=True)
        found = (greatest if ord > 0 else least)(sums, (-2, -1), keepdims=True)
    elif ord in (2, -2, "nuc"):
        of = {2: greatest, -2: least, "nuc": total}[ord]
        found = expand_dims(of(svdvals(a), -1, keepdims=True), -1)
    else:
        refuse(f"matrix_norm has no norm {ord!r}; it has 'fro', 'nuc', 1, -1, 2, -2 and infinity")
    return found if keepdims else squeeze(found, (-2, -1))
