"""Derivatives of the functions of library "linalg".

Sources: Giles 2008, Collected matrix derivative results; for QR Walter and Lehmann 2010,
Algorithmic differentiation of linear algebra functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from explorer.ir.calls import AttrValue, LibraryCall, OpCall, Var
from explorer.ir.dims import Dim, simplify
from explorer.ir.kernel import at, axes
from explorer.ir.program import Binding, Constant
from explorer.ir.types import Tensor
from explorer.transforms.autodiff.autodiff_context import Differentiating
from explorer.transforms.autodiff.partials import Term, functions
from explorer.transforms.autodiff.rules import sum_broadcast

Rule = Callable[[Differentiating, Binding, tuple[Var | None, ...]], Iterator[tuple[Var, Var]]]


@dataclass(frozen=True)
class Matrices:
    """A value of the backward pass, a stack of one or more matrices, with its arithmetic."""

    reverse: Differentiating
    var: Var

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of the value."""
        return self.var.tensor.dims

    @property
    def T(self) -> Matrices:
        """Each matrix transposed."""
        dims = self.dims
        order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
        return self.op("Transpose", (*dims[:-2], dims[-1], dims[-2]), perm=order)

    def __matmul__(self, other: Matrices) -> Matrices:
        """Bind the matrix product."""
        lead = _broadcast(self.dims[:-2], other.dims[:-2])
        return self.op("MatMul", (*lead, self.dims[-2], other.dims[-1]), other)

    def __add__(self, other: Matrices) -> Matrices:
        """Bind the broadcast sum."""
        return self.op("Add", _broadcast(self.dims, other.dims), other)

    def __sub__(self, other: Matrices) -> Matrices:
        """Bind the broadcast difference."""
        return self.op("Sub", _broadcast(self.dims, other.dims), other)

    def __mul__(self, other: Matrices | float) -> Matrices:
        """Bind the broadcast elementwise product."""
        by = other if isinstance(other, Matrices) else self.constant(other)
        return self.op("Mul", _broadcast(self.dims, by.dims), by)

    def __truediv__(self, other: Matrices) -> Matrices:
        """Bind the broadcast elementwise quotient."""
        return self.op("Div", _broadcast(self.dims, other.dims), other)

    def __neg__(self) -> Matrices:
        """Bind the negated value."""
        return self.op("Neg", self.dims)

    def op(self, op: str, dims: tuple[Dim, ...], *others: Matrices, **attrs: AttrValue) -> Matrices:
        """Bind an operator of this value and others."""
        call = OpCall(op, (self.var, *(o.var for o in others)), tuple(attrs.items()))
        return self.bind("d", [Tensor(dims, self.var.tensor.element)], call)[0]

    def library(self, function: str, *dims: tuple[Dim, ...], **attrs: AttrValue) -> list[Matrices]:
        """Bind the results, of the given dims, of a library function of this value."""
        call = LibraryCall("linalg", function, (self.var,), tuple(attrs.items()))
        return self.bind(function, [Tensor(d, self.var.tensor.element) for d in dims], call)

    def bind(self, hint: str, types: list[Tensor], call: OpCall | LibraryCall) -> list[Matrices]:
        """Bind a call and wrap its results."""
        return [Matrices(self.reverse, v) for v in self.reverse.bind(hint, types, call)]

    def constant(self, value: Any) -> Matrices:
        """Bind a constant in this value's dtype."""
        constant = Constant(np.array(value).astype(self.var.tensor.element))
        return Matrices(self.reverse, self.reverse.context.constant("number", constant))

    @property
    def inverse(self) -> Matrices:
        """The inverse of each matrix."""
        return self.library("inverse", self.dims)[0]

    def solve(self, other: Matrices, function: str = "solve", **attrs: int) -> Matrices:
        """Bind the product of the inverse with another matrix."""
        lead = _broadcast(self.dims[:-2], other.dims[:-2])
        type = Tensor((*lead, self.dims[-1], other.dims[-1]), self.var.tensor.element)
        call = LibraryCall("linalg", function, (self.var, other.var), tuple(attrs.items()))
        return self.bind(function, [type], call)[0]

    def expand(self, axis: int) -> Matrices:
        """Reshape vectors to a row (-2) or a column (-1) of each matrix."""
        dims = self.dims
        shape = (*dims, 1) if axis == -1 else (*dims[:-1], 1, dims[-1])
        return self.op("Reshape", shape, shape=shape, allowzero=1)

    def lower(self, diagonal: int = 0) -> Matrices:
        """Bind the triangle up to a diagonal, 0 elsewhere."""
        return self.op("Trilu", self.dims, k=(diagonal,), upper=0)

    def upper(self, diagonal: int = 0) -> Matrices:
        """Bind the triangle from a diagonal on, 0 elsewhere."""
        return self.op("Trilu", self.dims, k=(diagonal,), upper=1)

    def cut(self, axis: int, begin: Dim, count: Dim) -> Matrices:
        """Bind a slice of the rows (-2) or columns (-1)."""
        rank, at_axis = len(self.dims), len(self.dims) + axis
        first = tuple(begin if d == at_axis else 0 for d in range(rank))
        dims = tuple(count if d == at_axis else n for d, n in enumerate(self.dims))
        return self.op("Slice", dims, begin=first, step=(1,) * rank, extent=dims)

    def concatenate(self, axis: int, other: Matrices) -> Matrices:
        """Concatenate both along the rows (-2) or columns (-1)."""
        at_axis = len(self.dims) + axis
        dims = list(self.dims)
        dims[axis] = simplify(dims[axis] + other.dims[axis])
        return self.op("Concat", tuple(dims), other, axis=at_axis)

    def divide_or_zero(self, divisor: Matrices) -> Matrices:
        """Divide by another value; 0 where that is 0."""
        over, dtype = axes("i", self.dims), self.var.tensor.element
        f = functions(dtype)
        value, by = (Term(at(n, over), dtype) for n in "vb")
        ratio = f("where", f("eq", by, 0.0), 0.0, value / by).expr
        inputs = {"v": self.var, "b": divisor.var}
        return Matrices(self.reverse, self.reverse.map("d", over, ratio, inputs))


@dataclass(frozen=True)
class Site:
    """A call that is differentiated: its arguments, its results, and the adjoints of these."""

    reverse: Differentiating
    args: tuple[Matrices, ...]
    results: tuple[Matrices, ...]
    adjoints: tuple[Matrices | None, ...]
    attrs: Mapping[str, Any]


Parts = Iterator[tuple[Matrices, Matrices]]  # an argument, and a contribution to its adjoint


def _inverse(site: Site) -> Parts:
    """Yield the adjoint of an inverse.

    Y = A⁻¹: dA = -Yᵀ dY Yᵀ.
    """
    (a,), (y,), (dy,) = site.args, site.results, site.adjoints
    assert dy is not None
    yield a, -(y.T @ dy @ y.T)


def _pseudo_inverse(site: Site) -> Parts:
    """Yield the adjoint of a pseudo-inverse (Golub and Pereyra 1973).

    Y = A⁺: dA = -Yᵀ dY Yᵀ + (1 - A Y) dYᵀ Y Yᵀ + Yᵀ Y dYᵀ (1 - Y A).
    """
    (a, *_), (y,), (dy,) = site.args, site.results, site.adjoints
    assert dy is not None
    above, below = dy.T @ y @ y.T, y.T @ y @ dy.T
    yield a, -(y.T @ dy @ y.T) + (above - a @ (y @ above)) + (below - below @ y @ a)


def _solve(site: Site) -> Parts:
    """Yield the adjoints of a linear solve.

    A X = B: dB = A⁻ᵀ dX, dA = -dB Xᵀ.
    """
    (a, b), (x,), (dx,) = site.args, site.results, site.adjoints
    assert dx is not None
    db = a.T.solve(dx)
    yield b, db
    yield a, -(db @ x.T)


def _solve_triangle(site: Site) -> Parts:
    """Yield the adjoints of a triangular solve: A is a triangle, and so is dA."""
    (a, b), (x,), (dx,) = site.args, site.results, site.adjoints
    assert dx is not None
    upper, unit = (site.attrs.get(n, 0) for n in ("upper", "unit"))
    db = a.T.solve(dx, "solve_triangle", upper=int(not upper), unit=unit)
    da = -(db @ x.T)
    yield b, db
    yield a, da.upper(unit) if upper else da.lower(-unit)


def _determinant(site: Site) -> Parts:
    """Yield the adjoint of a determinant.

    y = det A: dA = dy y A⁻ᵀ.
    """
    (a,), (y,), (dy,) = site.args, site.results, site.adjoints
    assert dy is not None
    yield a, a.inverse.T * (dy * y).expand(-1).expand(-1)


def _log_determinant(site: Site) -> Parts:
    """Yield the adjoint of a log-determinant.

    y = log |det A|: dA = dy A⁻ᵀ. The sign has no derivative.
    """
    (a,), (_, dy) = site.args, site.adjoints
    if dy is not None:
        yield a, a.inverse.T * dy.expand(-1).expand(-1)


def _cholesky(site: Site) -> Parts:
    """Yield the adjoint of a Cholesky factorisation.

    A = L Lᵀ: dA = (S + Sᵀ) / 2 with S = L⁻ᵀ Φ(Lᵀ dL) L⁻¹. Φ is the lower triangle with its diagonal
    halved.
    """
    (a,), (low,), (dl,) = site.args, site.results, site.adjoints
    assert dl is not None
    if site.attrs.get("upper"):
        low, dl = low.T, dl.T
    inverse, inner = low.inverse, low.T @ dl
    product = inverse.T @ (inner.lower() + inner.lower(-1)) @ inverse
    yield a, (product + product.T) * 0.25


def _eigenvectors(site: Site) -> Parts:
    """Yield the adjoint of a symmetric eigendecomposition.

    A = V Λ Vᵀ: dA = V (dΛ + Vᵀ dV / (λⱼ - λᵢ)) Vᵀ.
    """
    (a,), (dw, *dv) = site.args, site.adjoints
    w, v = site.results if dv else a.library("eigh", a.dims[:-1], a.dims, **site.attrs)
    inner = None
    if dv and dv[0] is not None:
        inner = _skew(v.T @ dv[0]).divide_or_zero(w.expand(-2) - w.expand(-1)) * 0.5
    left = _sum(v @ inner if inner is not None else None, v * dw.expand(-2) if dw else None)
    yield a, left @ v.T


def _singular_values(site: Site) -> Parts:
    """Yield the adjoint of the singular values.

    A = U S Vᵀ: dA = U dS Vᵀ.
    """
    (a,), (ds,) = site.args, site.adjoints
    assert ds is not None
    *lead, rows, columns = a.dims
    least = ds.dims[-1]
    u, _, v = a.library("svd", (*lead, rows, least), ds.dims, (*lead, least, columns), full=0)
    yield a, u * ds.expand(-2) @ v


def _singular_vectors(site: Site) -> Parts:
    """Yield the adjoint of a singular value decomposition.

    A = U S Vᵀ, with E = sⱼ² - sᵢ²:
    dA = U (dS + (UᵀdU - dUᵀU) / E S + S (VᵀdV - dVᵀV) / E) Vᵀ + (1 - U Uᵀ) dU S⁻¹ Vᵀ
    + U S⁻¹ dVᵀ (1 - V Vᵀ). The last two terms are the part of dU and dV outside of the vectors'
    span.
    """
    (a,), (u, s, v) = site.args, site.results
    least = s.dims[-1]
    u, v = u.cut(-1, 0, least), v.cut(-2, 0, least)
    du, ds, dv = site.adjoints
    square = s * s
    gaps = square.expand(-2) - square.expand(-1)
    inner = left = right = None
    if du is not None:
        du = du.cut(-1, 0, least)
        inner = _skew(u.T @ du).divide_or_zero(gaps) * s.expand(-2)
        left = du / s.expand(-2)
        left = (left - u @ (u.T @ left)) @ v
    if dv is not None:
        dv = dv.cut(-2, 0, least)
        inner = _sum(inner, _skew(v @ dv.T).divide_or_zero(gaps) * s.expand(-1))
        right = dv / s.expand(-1)
        right = u @ (right - right @ v.T @ v)
    middle = _sum(u @ inner if inner else None, u * ds.expand(-2) if ds else None)
    yield a, _sum(middle @ v, left, right)


def _qr(site: Site) -> Parts:
    """Yield the adjoint of a QR factorisation.

    A = Q R: dA = (dQ + Q M) R⁻ᵀ. M is symmetric; above its diagonal it is dR Rᵀ - Qᵀ dQ.

    If A has more columns than rows, A₂ = Q R₂ are the other columns: dA₂ = Q dR₂, and dQ gets A₂
    dR₂ᵀ.
    """
    (a,), (q, r), (dq, dr) = site.args, site.results, site.adjoints
    rows, columns = a.dims[-2:]
    equal = site.reverse.context.env.equal
    if site.attrs.get("mode") == "r":
        site.reverse.refuse("returns a triangle without its orthogonal columns")
    has_more_columns = equal(q.dims[-1], columns) is not True
    further = None
    if has_more_columns:
        if not (isinstance(rows, int) and isinstance(columns, int) and rows < columns):
            site.reverse.refuse("has more orthogonal columns than the matrix has")
        last = rows, columns - rows
        r = r.cut(-1, 0, rows)
        if dr is not None:
            end, dr = dr.cut(-1, *last), dr.cut(-1, 0, rows)
            dq = _sum(dq, a.cut(-1, *last) @ end.T)
            further = q @ end
    inner = _sum(dr @ r.T if dr is not None else None, -(q.T @ dq) if dq is not None else None)
    turned = _sum(dq, q @ (inner.upper() + inner.upper(1).T))
    da = r.solve(turned.T, "solve_triangle", upper=1, unit=0).T
    if has_more_columns:
        da = da.concatenate(-1, further if further is not None else a.cut(-1, *last) * 0.0)
    yield a, da


def _lu(site: Site) -> Parts:
    """Yield the adjoint of an LU factorisation.

    A = P L U: dA = P L⁻ᵀ (Φ + Ψ) U⁻ᵀ. Φ is Lᵀ dL below the diagonal, Ψ is dU Uᵀ on and above it.

    Further columns U₂ = L⁻¹ A₂ have dA₂ = L⁻ᵀ dU₂, and dA₂ U₂ᵀ is subtracted from dL. Further rows
    L₂ = A₂ U⁻¹ have dA₂ = dL₂ U⁻ᵀ, and L₂ᵀ dA₂ is subtracted from dU.
    """
    (a,), (packed, pivots), (d, _) = site.args, site.results, site.adjoints
    rows, columns = a.dims[-2:]
    assert d is not None and isinstance(rows, int) and isinstance(columns, int)
    least = min(rows, columns)
    core = packed.cut(-2, 0, least).cut(-1, 0, least)

    def left(x: Matrices) -> Matrices:
        return core.T.solve(x, "solve_triangle", upper=1, unit=1)

    def right(x: Matrices) -> Matrices:
        return core.solve(x.T, "solve_triangle", upper=1, unit=0).T

    dl = du = d.cut(-2, 0, least).cut(-1, 0, least)
    more = None
    if columns > least:
        more = left(d.cut(-1, least, columns - least))
        dl = dl - more @ packed.cut(-1, least, columns - least).T
    if rows > least:
        more = right(d.cut(-2, least, rows - least))
        du = du - packed.cut(-2, least, rows - least).T @ more
    inner = (core.lower(-1).T @ dl + dl).lower(-1) + (du @ core.upper().T).upper()
    da = right(left(inner))
    if more is not None:
        da = da.concatenate(-1 if columns > least else -2, more)
    shape = Tensor((*a.dims[:-2], rows, rows), "float32")
    call = LibraryCall("linalg", "permutation", (pivots.var,), (("rows", rows),))
    (order,) = a.bind("order", [shape], call)
    (order,) = a.bind(
        "order", [Tensor(shape.dims, a.var.tensor.element)], OpCall("CastLike", (order.var, a.var))
    )
    yield a, order @ da


def _reflections(site: Site) -> Parts:
    """Yield the adjoints of a product of Householder reflections.

    Q = H₀ H₁ … with H = 1 - τ v vᵀ: dH = Lᵀ dQ Rᵀ, where L and R are the reflections on the left
    and on the right; dτ = -vᵀ dH v and dv = -τ (dH + dHᵀ) v.
    """
    (a, tau), (dq,) = site.args, site.adjoints
    rows, columns = a.dims[-2:]
    count = tau.dims[-1]
    if not all(isinstance(n, int) for n in (rows, columns, count)):
        site.reverse.refuse("has matrices whose sizes only a run knows")
    assert dq is not None and isinstance(rows, int) and isinstance(columns, int)
    assert isinstance(count, int)
    eye, row = np.eye(rows, max(rows, columns)), tau.expand(-2)
    vectors = [a.lower(-1).cut(-1, i, 1) + a.constant(eye[:, i : i + 1]) for i in range(count)]
    factors = [row.cut(-1, i, 1) for i in range(count)]
    right = [dq * 0.0 + a.constant(eye[:, :columns])]
    for v, t in zip(vectors[:0:-1], factors[:0:-1], strict=True):
        right.append(right[-1] - v @ (v.T @ right[-1]) * t)
    left, dv, dt = dq, [], []
    for v, t, after in zip(vectors, factors, reversed(right), strict=True):
        column, row_product = left @ (after.T @ v), after @ (left.T @ v)
        dt.append(-(v.T @ column))
        dv.append(-((column + row_product) * t))
        left = left - v @ (v.T @ left) * t
    if columns > count:
        dv.append(a.cut(-1, count, columns - count) * 0.0)
    yield a, reduce(lambda x, y: x.concatenate(-1, y), dv).lower(-1)
    yield tau, reduce(lambda x, y: x.concatenate(-1, y), dt).op("Reshape", tau.dims, shape=tau.dims)


def _exponential(site: Site) -> Parts:
    """Yield the adjoint of a matrix exponential.

    dA is the block above the diagonal of exp [[Aᵀ, dY], [0, Aᵀ]].
    """
    (a,), (dy,) = site.args, site.adjoints
    assert dy is not None
    size = a.dims[-1]
    above, below = a.T.concatenate(-1, dy), (dy * 0.0).concatenate(-1, a.T)
    both = above.concatenate(-2, below)
    exponential = both.library("exponential", both.dims)[0]
    yield a, exponential.cut(-2, 0, size).cut(-1, size, size)


RULES: Mapping[str, Callable[[Site], Parts]] = {
    "inverse": _inverse,
    "pseudo_inverse": _pseudo_inverse,
    "solve": _solve,
    "solve_triangle": _solve_triangle,
    "determinant": _determinant,
    "log_determinant": _log_determinant,
    "cholesky": _cholesky,
    "eigh": _eigenvectors,
    "eigvalsh": _eigenvectors,
    "singular_values": _singular_values,
    "svd": _singular_vectors,
    "qr": _qr,
    "lu": _lu,
    "reflections": _reflections,
    "exponential": _exponential,
}


def linalg_rule(call: LibraryCall) -> Rule | None:
    """Return the derivative rule of a library function, or None if it has none."""
    adjoint_rule = RULES.get(call.function) if call.library == "linalg" else None
    if adjoint_rule is None:
        return None

    def rule(
        reverse: Differentiating, binding: Binding, seeds: tuple[Var | None, ...]
    ) -> Iterator[tuple[Var, Var]]:
        args, results = (
            tuple(Matrices(reverse, v) for v in vars) for vars in (binding.reads, binding.vars)
        )
        adjoints = tuple(None if v is None else Matrices(reverse, v) for v in seeds)
        for arg, part in adjoint_rule(Site(reverse, args, results, adjoints, dict(call.attrs))):
            same = len(arg.dims) == len(part.dims) and arg.dims == part.dims
            yield arg.var, part.var if same else sum_broadcast(reverse, part.var, arg.var)

    return rule


def _sum(*parts: Matrices | None) -> Matrices:
    """Return the sum of the parts that are not None; at least one is not."""
    first, *others = (part for part in parts if part is not None)
    return sum(others, first)


def _skew(x: Matrices) -> Matrices:
    return x - x.T


def _broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return the broadcast dims of two values."""
    rank = max(len(a), len(b))
    wide = [(*(1 for _ in range(rank - len(dims))), *dims) for dims in (a, b)]
    return tuple(m if n == 1 else n for n, m in zip(*wide, strict=True))
