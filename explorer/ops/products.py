"""Matrix products: one contraction each, and its epilogue; determinants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import Var
from explorer.ir.dims import Dim, Shape
from explorer.ir.dims import product as product_of
from explorer.ir.dtypes import HALF_FLOATS, DType, numpy_dtype
from explorer.ir.kernel import Axis, Expr, Read, apply
from explorer.ir.program import Constant
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call
from explorer.ops.lowering import Lowering, Nest, at, entry, letters, shape_of
from explorer.ops.record import OperatorRecord, Site
from explorer.ops.run_time import broadcast_rule
from explorer.ops.shape_rules import agree, broadcast


def check_depth(site: Site, left: Dim, right: Dim) -> None:
    """Raise ShapeError unless the summed extents agree."""
    if left != right and not agree(left, right, site.env):
        site.fail(
            f"inner is {left} on the left and {right} on the right; is an operand transposed?"
        )


def _matmul_types(site: Site) -> tuple[Tensor, ...]:
    a, b = site.shape(0), site.shape(1)
    if not a or not b:
        site.fail("an operand is a scalar")
    check_depth(site, a[-1], b[-2] if len(b) > 1 else b[0])
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    return (Tensor((*broadcast(site, [a[:-2], b[:-2]]), *rows, *columns), site.dtype()),)


FEW_ROWS = 32  # of float32, below which reading the weights takes longest; chosen
LARGE_BYTES = 1 << 20  # of weights that are not read from a near cache; chosen
FIRST_ELEMENTS = 4096  # tell nearly always that weights are no 16-bit numbers


def _weights(low: Lowering, nest: Nest, name: str, axes: list[Axis]) -> Expr:
    """Load the right operand; large constant weights for few rows as 16-bit floats, if they fit."""
    narrow = _narrow_weights(low)
    if narrow is None:
        return _load(nest, low.site, 1, name, axes, low.site.shape(1))
    loaded = at(nest.tensor(low.constant(narrow, "narrow"), name), axes[-2:])
    return call("cast_float32", loaded)


def _narrow_weights(low: Lowering) -> Constant | None:
    """Return large weights for few rows as float16 or bfloat16, if all are numbers of that.

    The weights of most language models are, and a product of few rows takes as long as its weights
    are read.
    """
    rows = low.site.env.hint(product_of(low.shape[:-1]))
    weights = low.constant_of(low.site.arg(1)) if rows < FEW_ROWS else None
    is_matrix = len(low.site.shape(1)) == 2 and low.site.dtype() == "float32"
    if weights is None or not is_matrix or weights.nbytes < LARGE_BYTES:
        return None
    dtype = next((d for d in HALF_FLOATS if _are_all(weights, d)), None)
    if dtype is None:
        return None
    kind = Tensor(weights.type.dims, dtype)
    return weights.derived("narrow", kind, lambda array: array.astype(numpy_dtype(dtype)))


def _are_all(weights: Constant, dtype: DType) -> bool:
    """Return True if every float32 is a number of a narrower dtype."""
    array = weights.array
    first = array.reshape(-1)[:FIRST_ELEMENTS]
    with np.errstate(over="ignore"):  # a number beyond the largest one becomes infinite
        return all(
            np.array_equal(x.astype(numpy_dtype(dtype)).astype(np.float32), x, equal_nan=True)
            for x in (first, array)
        )


def _lower_matmul(low: Lowering) -> None:
    a, b, shape = low.site.shape(0), low.site.shape(1), low.shape
    rows, columns = len(a) > 1, len(b) > 1
    batch = [Axis(f"b{d}", n) for d, n in enumerate(shape[: len(shape) - rows - columns])]
    i = [Axis("i", shape[len(batch)])] if rows else []
    j = [Axis("j", shape[-1])] if columns else []
    k, nest = Axis("k", a[-1]), low.nest("matmul")
    left = _load(nest, low.site, 0, "a", [*batch, *i, k], a)
    right = _weights(low, nest, "b", [*batch, k, *j])
    nest.compute(
        "y", shape, low.site.dtype(), [*batch, *i, *j], apply("mul", left, right), [k], "sum"
    )
    nest.into(low.result)


def _load(nest: Nest, site: Site, i: int, name: str, axes: list[Axis], shape: Shape) -> Expr:
    last = axes[len(axes) - len(shape) :]
    value, steps = site.arg(i), nest.lowering.steps(site.arg(i)) or ()
    index = [entry(a, n) for a, n in zip(last, shape, strict=True)]
    index = [e * step for e, step in zip(index, steps, strict=False)] + index[len(steps) :]
    return Read(nest.tensor(value, name), tuple(index))


# Gemm.


def _gemm_types(site: Site) -> tuple[Tensor, ...]:
    if len(site.shape(0)) != 2 or len(site.shape(1)) != 2:
        site.fail("both operands must be matrices")
    (m, k), (depth, n) = site.shape(0), site.shape(1)
    if site.integer("transA"):
        m, k = k, m
    if site.integer("transB"):
        depth, n = n, depth
    check_depth(site, k, depth)
    if site.has(2) and broadcast(site, [(m, n), site.shape(2)]) != (m, n):
        site.fail(
            f"what is added has shape {list(site.shape(2))}, and the product {[m, n]}",
            expected="a shape that broadcasts to the product's",
        )
    return (Tensor((m, n), site.dtype()),)


def _lower_gemm(low: Lowering) -> None:
    site, nest, shape = low.site, low.nest("gemm"), low.shape
    depth = site.shape(0)[0 if site.integer("transA") else 1]
    i, j, k = Axis("i", shape[0]), Axis("j", shape[1]), Axis("k", depth)
    left = [k, i] if site.integer("transA") else [i, k]
    right = [j, k] if site.integer("transB") else [k, j]
    a = _load(nest, site, 0, "a", left, site.shape(0))
    b = _weights(low, nest, "b", right)
    dtype, alpha, beta = site.dtype(), site.number("alpha", 1.0), site.number("beta", 1.0)
    added = site.has(2) and beta != 0  # times 0 it is not read, so no NaN of it counts
    plain = alpha == 1 and not added
    product = apply("mul", a, b)
    nest.compute("y" if plain else "acc", shape, dtype, [i, j], product, [k], "sum")
    if not plain:
        y: Expr = at("acc", [i, j])
        y = y if alpha == 1 else call("mul", y, alpha, dtype=dtype)
        if added:
            c = nest.along(site.arg(2), "c", [i, j])
            y = call("add", y, c if beta == 1 else call("mul", c, beta, dtype=dtype))
        nest.compute("y", shape, dtype, [i, j], y)
    nest.into(low.result)


def _gemm_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    a = args[0].T if attrs.get("transA") else args[0]
    b = args[1].T if attrs.get("transB") else args[1]
    y = a.dtype.type(attrs.get("alpha", 1.0)) * (a @ b)
    return (
        y
        if len(args) < 3 or args[2] is None or attrs.get("beta") == 0
        else y + a.dtype.type(attrs.get("beta", 1.0)) * args[2]
    )


# Einsum, of one or two operands.


def _letters(site: Site) -> tuple[list[str], str]:
    """Return the letters of each operand's dims and the result's; an ellipsis becomes capitals."""
    equation = site.text("equation", "").replace(" ", "")
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(site.args):
        site.fail(f"the equation names {len(terms)} operands and there are {len(site.args)}")
    spans = [len(site.shape(i)) - len(t.replace("...", "")) for i, t in enumerate(terms)]
    widest = max((n for n, t in zip(spans, terms, strict=True) if "..." in t), default=0)
    used = {c for c in equation if c.isalpha()}
    free = [c for c in _ANY if c not in used][:widest]
    if any(n < 0 for n in spans) or len(free) < widest:
        site.fail(f"the equation {equation!r} does not fit its operands")
    named = "".join(free)
    if not arrow:
        singles = sorted(c for c in used if left.count(c) == 1)
        out = ("..." if widest else "") + "".join(singles)
    expanded = [
        t.replace("...", named[widest - n :] if n else "")
        for n, t in zip(spans, terms, strict=True)
    ]
    return expanded, out.replace("...", named)


_ANY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _einsum_extents(site: Site) -> tuple[list[str], str, dict[str, Dim]]:
    terms, out = _letters(site)
    extents: dict[str, Dim] = {}
    for i, term in enumerate(terms):
        if len(term) != len(site.shape(i)):
            site.fail(f"{term!r} does not name the {len(site.shape(i))} dims of operand {i}")
        for letter, extent in zip(term, site.shape(i), strict=True):
            seen = extents.setdefault(letter, extent)
            if seen == 1:
                extents[letter] = extent
            elif extent != 1 and seen != extent and not agree(seen, extent, site.env):
                site.fail(f"{letter!r} is both {seen} and {extent}")
    if not set(out) <= extents.keys() or len(set(out)) < len(out):
        site.fail(f"the result's dims {out!r} are not each one of the operands'")
    return terms, out, extents


def _einsum_types(site: Site) -> tuple[Tensor, ...]:
    _, out, extents = _einsum_extents(site)
    return (Tensor(tuple(extents[c] for c in out), site.dtype()),)


def _lower_einsum(low: Lowering) -> None:
    """Lower an einsum to one contraction; several operands are contracted from the left."""
    terms, out, extents = _einsum_extents(low.site)
    operands = list(zip(terms, low.site.present_args, strict=True))
    while len(operands) > 2:
        (a, x), (b, y), later_operands = operands[0], operands[1], operands[2:]
        later = set(out).union(*(t for t, _ in later_operands))
        remaining = "".join(c for c in dict.fromkeys(a + b) if c in later)
        shape = tuple(extents[c] for c in remaining)
        part = low.temporary(f"part{len(later_operands)}", shape, low.site.dtype())
        operands = [
            (remaining, _contract(low, part, [(a, x), (b, y)], remaining, extents)),
            *later_operands,
        ]
    _contract(low, low.result, operands, out, extents)


def _contract(
    low: Lowering,
    result: Var,
    operands: list[tuple[str, Var]],
    out: str,
    extents: dict[str, Dim],
) -> Var:
    nest = low.nest("einsum")
    loads: list[Expr] = []
    for name, (term, value) in zip("ab", operands, strict=False):
        shape = shape_of(value)
        loads.append(at(nest.tensor(value, name), [Axis(c, extents[c]) for c in term], shape))
    here = dict.fromkeys("".join(t for t, _ in operands))
    axes = [Axis(c, extents[c]) for c in out]
    summed = [Axis(c, extents[c]) for c in here if c not in out]
    expr = apply("mul", *loads) if len(loads) == 2 else loads[0]
    dtype = low.site.dtype()
    nest.compute("y", shape_of(result), dtype, axes, expr, summed, "sum" if summed else None)
    return nest.into(result)


# Det, by its definition for small matrices.


def _det_types(site: Site) -> tuple[Tensor, ...]:
    shape = site.shape()
    if len(shape) < 2 or not agree(shape[-1], shape[-2], site.env):
        site.fail(f"the input of shape {shape} holds no square matrices")
    return (Tensor(shape[:-2], site.dtype()),)


def _lower_det(low: Lowering) -> None:
    site, nest = low.site, low.nest("det")
    size = site.shape()[-1]
    if not isinstance(size, int) or not 1 <= size <= 4:
        site.unsupported(f"matrices of {size} rows have no kernel rule")
        return
    axes = letters(low.shape)
    batch = tuple(var(a.name) for a in axes)
    x = nest.tensor(site.arg(0), "x")

    def minor(row: int, columns: tuple[int, ...]) -> Expr:
        determinant: Expr | None = None
        for i, column in enumerate(columns):
            part: Expr = Read(x, (*batch, Affine((), row), Affine((), column)))
            other_columns = (*columns[:i], *columns[i + 1 :])
            part = call("mul", part, minor(row + 1, other_columns)) if other_columns else part
            if determinant is None:
                determinant = part
            else:
                determinant = call("sub" if i % 2 else "add", determinant, part)
        assert determinant is not None
        return determinant

    nest.compute("y", low.shape, site.dtype(), axes, minor(0, tuple(range(size))))
    nest.into(low.result)


def _det(attrs: Mapping[str, Any], args: Any) -> Any:
    return np.asarray(np.linalg.det(args[0]), args[0].dtype)


RECORDS = (
    OperatorRecord(
        "MatMul",
        "matmul",
        _matmul_types,
        lambda attrs, args: np.matmul(*args),
        _lower_matmul,
        run_time=broadcast_rule("MatMul"),
    ),
    OperatorRecord("Gemm", "matmul", _gemm_types, _gemm_reference, _lower_gemm),
    OperatorRecord(
        "Einsum",
        "matmul",
        _einsum_types,
        lambda attrs, args: np.einsum(attrs["equation"], *args),
        _lower_einsum,
        first=12,
    ),
    OperatorRecord("Det", "matmul", _det_types, _det, _lower_det),
)
