"""Derivatives of the library "linalg": Giles 2008, Collected matrix derivative results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from explorer.autodiff.differentiating import Differentiating
from explorer.ir.calls import AttrValue, LibraryCall, OpCall, Var
from explorer.ir.program import Binding, Constant
from explorer.ir.types import Tensor

Given = tuple[Var | None, ...]  # the adjoints of the results
Rule = Callable[[Differentiating, Binding, Given], Iterator[tuple[Var, Var]]]


def _inverse(reverse: Differentiating, binding: Binding, given: Given) -> Iterator[tuple[Var, Var]]:
    """Y = A⁻¹: dA = -Yᵀ dY Yᵀ."""
    (dy,), (a,) = given, binding.reads
    assert dy is not None
    turned = _turned(reverse, binding.var)
    yield a, _less(reverse, _product(reverse, _product(reverse, turned, dy), turned))


def _solve(reverse: Differentiating, binding: Binding, given: Given) -> Iterator[tuple[Var, Var]]:
    """A X = B: dB = A⁻ᵀ dX, dA = -dB Xᵀ."""
    (dx,), (a, b), x = given, binding.reads, binding.var
    assert dx is not None
    if not (a.tensor.dims[:-2] == b.tensor.dims[:-2] == x.tensor.dims[:-2]):
        reverse.refuse("solves for matrices of which some stand for several")
    db = _call(reverse, "solve", b.tensor, _turned(reverse, a), dx)
    yield b, db
    yield a, _less(reverse, _product(reverse, db, _turned(reverse, x)))


def _determinant(
    reverse: Differentiating, binding: Binding, given: Given
) -> Iterator[tuple[Var, Var]]:
    """y = det A: dA = dy y A⁻ᵀ."""
    (dy,), (a,) = given, binding.reads
    assert dy is not None
    yield a, _times_inverse(reverse, a, _op(reverse, "Mul", dy.tensor, dy, binding.var))


def _log_determinant(
    reverse: Differentiating, binding: Binding, given: Given
) -> Iterator[tuple[Var, Var]]:
    """y = log |det A|: dA = dy A⁻ᵀ; the sign is flat."""
    (_, dy), (a,) = given, binding.reads
    if dy is not None:
        yield a, _times_inverse(reverse, a, dy)


def _cholesky(
    reverse: Differentiating, binding: Binding, given: Given
) -> Iterator[tuple[Var, Var]]:
    """A = L Lᵀ: dA = (S + Sᵀ) / 2 with S = L⁻ᵀ Φ(Lᵀ dL) L⁻¹; Φ is the lower triangle, its diagonal
    halved.
    """
    (dl,), (a,), low = given, binding.reads, binding.var
    assert dl is not None and isinstance(binding.expr, LibraryCall)
    if dict(binding.expr.attrs).get("upper"):
        low, dl = _turned(reverse, low), _turned(reverse, dl)
    inverse = _call(reverse, "inverse", low.tensor, low)
    inner = _lower(reverse, _product(reverse, _turned(reverse, low), dl), 0.5)
    whole = _product(reverse, _product(reverse, _turned(reverse, inverse), inner), inverse)
    both = _op(reverse, "Add", a.tensor, whole, _turned(reverse, whole))
    yield a, _op(reverse, "Mul", a.tensor, both, _number(reverse, 0.5, a))


def _eigenvalues(
    reverse: Differentiating, binding: Binding, given: Given
) -> Iterator[tuple[Var, Var]]:
    """A = V Λ Vᵀ: dA = V dΛ Vᵀ; vectors have a sign that nothing says, and no derivative here."""
    dw, (a,) = given[0], binding.reads
    if any(v is not None for v in given[1:]):
        reverse.refuse("gives eigenvectors, which have no derivative here")
    assert dw is not None and isinstance(binding.expr, LibraryCall)
    call = LibraryCall("linalg", "eigh", (a,), binding.expr.attrs)
    _, v = reverse.bind("eigh", [dw.tensor, a.tensor], call)
    scaled = _op(reverse, "Mul", a.tensor, v, _wide(reverse, dw, -2))
    yield a, _product(reverse, scaled, _turned(reverse, v))


def _singular_values(
    reverse: Differentiating, binding: Binding, given: Given
) -> Iterator[tuple[Var, Var]]:
    """A = U S Vᵀ: dA = U dS Vᵀ."""
    (ds,), (a,) = given, binding.reads
    assert ds is not None
    *lead, rows, columns = a.tensor.dims
    types = [
        Tensor((*lead, rows, ds.tensor.dims[-1]), a.tensor.element),
        ds.tensor,
        Tensor((*lead, ds.tensor.dims[-1], columns), a.tensor.element),
    ]
    u, _, v = reverse.bind("svd", types, LibraryCall("linalg", "svd", (a,), (("full", 0),)))
    yield a, _product(reverse, _op(reverse, "Mul", u.tensor, u, _wide(reverse, ds, -2)), v)


RULES: Mapping[str, Rule] = {
    "inverse": _inverse,
    "solve": _solve,
    "determinant": _determinant,
    "log_determinant": _log_determinant,
    "cholesky": _cholesky,
    "eigh": _eigenvalues,
    "eigvalsh": _eigenvalues,
    "singular_values": _singular_values,
}


def linalg_rule(call: LibraryCall) -> Rule | None:
    """The rule of a function of the library; None where it has none."""
    return RULES.get(call.function) if call.library == "linalg" else None


# Matrices.


def _op(reverse: Differentiating, op: str, type: Tensor, *args: Var) -> Var:
    return reverse.bind("d", [type], OpCall(op, args))[0]


def _call(reverse: Differentiating, function: str, type: Tensor, *args: Var) -> Var:
    attrs: tuple[tuple[str, AttrValue], ...] = ()
    return reverse.bind(function, [type], LibraryCall("linalg", function, args, attrs))[0]


def _turned(reverse: Differentiating, a: Var) -> Var:
    dims = a.tensor.dims
    order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
    type = Tensor((*dims[:-2], dims[-1], dims[-2]), a.tensor.element)
    return reverse.bind("turned", [type], OpCall("Transpose", (a,), (("perm", order),)))[0]


def _product(reverse: Differentiating, a: Var, b: Var) -> Var:
    type = Tensor((*a.tensor.dims[:-1], b.tensor.dims[-1]), a.tensor.element)
    return _op(reverse, "MatMul", type, a, b)


def _less(reverse: Differentiating, a: Var) -> Var:
    return _op(reverse, "Neg", a.tensor, a)


def _wide(reverse: Differentiating, v: Var, axis: int) -> Var:
    dims = v.tensor.dims
    shape = (*dims, 1) if axis == -1 else (*dims[:-1], 1, dims[-1])
    call = OpCall("Reshape", (v,), (("shape", shape), ("allowzero", 1)))
    return reverse.bind("wide", [Tensor(shape, v.tensor.element)], call)[0]


def _times_inverse(reverse: Differentiating, a: Var, factor: Var) -> Var:
    across = _turned(reverse, _call(reverse, "inverse", a.tensor, a))
    each = _wide(reverse, _wide(reverse, factor, -1), -1)
    return _op(reverse, "Mul", a.tensor, across, each)


def _number(reverse: Differentiating, value: float, like: Var) -> Var:
    return _constant(reverse, np.array(value), like)


def _constant(reverse: Differentiating, array: np.ndarray, like: Var) -> Var:
    return reverse.around.constant("number", Constant(array.astype(like.tensor.element)))


def _size(reverse: Differentiating, a: Var) -> int:
    n = a.tensor.dims[-1]
    if not isinstance(n, int):
        reverse.refuse("is of matrices whose sizes only a run knows")
    return n


def _lower(reverse: Differentiating, a: Var, diagonal: float) -> Var:
    n = _size(reverse, a)
    mask = np.tril(np.ones((n, n)), -1) + diagonal * np.eye(n)
    return _op(reverse, "Mul", a.tensor, a, _constant(reverse, mask, a))
