"""Splits of an axis in two, with the dims of inner tensors that it indexes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.ir.affine import Affine, var
from explorer.ir.dims import Dim, ShapeEnv
from explorer.ir.kernel import (
    Axis,
    Compute,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    reads,
    rewrite,
    substitute,
)
from explorer.ir.kernels.contraction import Contraction, contraction
from explorer.ir.kernels.normal import drop_unit_axes
from explorer.ir.program import fresh
from explorer.transforms.copies.index_maps import Ranges, Split, divide, quotient

LEAST_COLUMNS = 32  # columns of a contraction that fill register tiles; chosen, unmeasured


def ranges_of(compute: Compute, env: ShapeEnv) -> Ranges:
    """Return the extents of all axes of a compute."""
    return Ranges({a.name: a.extent for a in (*compute.axes, *compute.reduce)}, env)


def split_axis(kernel: Kernel, n: int, split: Split, env: ShapeEnv) -> Kernel | None:
    """Split an axis of compute `n` such that `axis == outer * inner + rest`.

    Inner tensors indexed along it get two dims for the one. Returns None if a reader or writer of
    such a tensor cannot follow, or if a contraction would not remain one.
    """
    if _is_shared(kernel, n, split.axis):
        return None
    cut = _split_in_compute(kernel, n, split)
    opened = _split_dims(cut, _merged_dims(cut, n, split.inner), split.inner, env)
    if opened is None:
        return None
    return opened if _keeps_contractions(kernel, opened) else None


def _is_shared(kernel: Kernel, n: int, axis: str) -> bool:
    """Return True if computes of other parts of the tensor, or of other outputs, share the axis."""
    out = kernel.computes[n].out
    beside = kernel.outputs if out in kernel.outputs else (out,)  # outputs share their axes
    return any(
        a.name == axis
        for m, c in enumerate(kernel.computes)
        if m != n and c.out in beside
        for a in c.axes
    )


def _keeps_contractions(before: Kernel, after: Kernel) -> bool:
    """Return True if each contraction remains one, with enough columns to fill register tiles."""
    pairs = zip(contractions(before), contractions(after), strict=True)
    return all(b is not None and _is_wide_enough(a, b) for a, b in pairs if a is not None)


def _is_wide_enough(before: Contraction, after: Contraction) -> bool:
    was, now = before.column.extent, after.column.extent
    return was == now or (isinstance(now, int) and now >= LEAST_COLUMNS)


def contractions(kernel: Kernel) -> list[Contraction | None]:
    """Return each compute as a contraction or None; loops that run once are ignored."""
    return [contraction(c) for c in drop_unit_axes(kernel).computes]


def fresh_axis(kernel: Kernel, wish: str) -> str:
    """Return an unused axis name."""
    taken = {a.name for c in kernel.computes for a in (*c.axes, *c.reduce)}
    return fresh(wish, taken)


def _split_in_compute(kernel: Kernel, n: int, split: Split) -> Kernel:
    outer, inner_name = (fresh_axis(kernel, f"{split.axis}_{end}") for end in ("out", "in"))
    value = {split.axis: var(outer) * split.inner + var(inner_name)}

    def two(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        out: list[Axis] = []
        for a in axes:
            if a.name != split.axis:
                out.append(a)
                continue
            count = quotient(a.extent, split.inner)
            assert count is not None, "a split must divide its axis"
            out += [Axis(outer, count), Axis(inner_name, split.inner)]
        return tuple(out)

    c = kernel.computes[n]
    new = replace(
        c,
        axes=two(c.axes),
        reduce=two(c.reduce),
        expr=substitute(c.expr, value),
        store=tuple(i.substitute(value) for i in c.target),
    )
    return replace(kernel, computes=(*kernel.computes[:n], new, *kernel.computes[n + 1 :]))


def _merged_dims(kernel: Kernel, n: int, inner: Dim) -> list[tuple[str, int]]:
    """Return the dims of inner tensors that compute `n` now indexes by a sum of the two parts."""
    c = kernel.computes[n]
    inner_tensors = {k.out for k in kernel.computes} - {*kernel.outputs}
    merged: dict[tuple[str, int], None] = {}
    entries = [(c.out, c.target), *((r.tensor, r.index) for r in reads(c.expr))]
    for tensor, index in entries:
        if tensor not in inner_tensors:
            continue
        for d, entry in enumerate(index):
            terms = entry.terms if isinstance(entry, Affine) else ()
            if len(terms) > 1 and any(factor == inner for _, factor in terms):
                merged[(tensor, d)] = None
    return sorted(
        merged, key=lambda t: -t[1]
    )  # last dim first, so that the positions of others stay valid


def open_inner_dims(kernel: Kernel, env: ShapeEnv) -> Kernel:
    """Split the dims of inner tensors that are written at merged indices.

    After: an inner tensor that one compute writes has a dim for each axis, if all readers can
    follow. `t[g * 80 + o] = ...; y[c] = f(t[c])` becomes `t[g, o] = ...; y[g' * 80 + o'] = f(t[g',
    o'])`.
    """
    for name in dict.fromkeys(c.out for c in kernel.computes if c.out not in kernel.outputs):
        writers = [c for c in kernel.computes if c.out == name]
        while len(writers) == 1:
            merged = next(_merged_entries(writers[0]), None)
            opened = None if merged is None else split_dim(kernel, name, *merged, env)
            if opened in (None, kernel) or not _keeps_contractions(kernel, opened):
                break
            kernel = opened
            writers = [c for c in kernel.computes if c.out == name]
    return kernel


def _merged_entries(c: Compute) -> Iterator[tuple[int, Dim]]:
    """Yield the dims written at `outer * inner + rest`, with `inner`; the last dim first."""
    extents = {a.name: a.extent for a in c.axes}
    for d in reversed(range(len(c.target))):
        terms = c.target[d].terms
        inner_axis = next((name for name, factor in terms if factor == 1), None)
        if len(terms) > 1 and inner_axis is not None:
            yield d, extents[inner_axis]


def split_dim(kernel: Kernel, tensor: str, dim: int, inner: Dim, env: ShapeEnv) -> Kernel | None:
    """Split a dim of an inner tensor in two, the second of extent `inner`; all users follow."""
    return _split_dims(kernel, [(tensor, dim)], inner, env)


def _split_dims(
    kernel: Kernel, wanted: list[tuple[str, int]], inner: Dim, env: ShapeEnv
) -> Kernel | None:
    """Split dims of inner tensors, and every dim indexed by an axis that is split for it.

    All axes are split first, then all dims, so that each is visited once whatever the reads are.
    """
    new, dims = kernel, dict.fromkeys(d for d in wanted if kernel.shape(d[0])[d[1]] != inner)
    while True:
        requests = [_required_split(new, tensor, dim, inner, env) for tensor, dim in dims]
        if None in requests:
            return None
        request = next((r for r in requests if isinstance(r, tuple)), None)
        if request is None:
            break
        n, split = request
        if _is_shared(new, n, split.axis):
            return None
        new = _split_in_compute(new, n, split)
        dims |= dict.fromkeys(_merged_dims(new, n, inner))
    for tensor, dim in sorted(
        dims, key=lambda d: -d[1]
    ):  # last dim first, so that the positions of others stay valid
        count = quotient(new.shape(tensor)[dim], inner)
        assert count is not None, "an index was taken apart, so the dim can be"
        new = _split_index(new, tensor, dim, (count, inner), env)
    return new


def _required_split(
    kernel: Kernel, tensor: str, dim: int, inner: Dim, env: ShapeEnv
) -> tuple[int, Split] | bool | None:
    """Return a compute and the axis to split before the dim is split.

    Returns False if no axis must be split, None if the dim cannot be.
    """
    if quotient(kernel.shape(tensor)[dim], inner) is None:
        return None
    entries = _decomposed_entries(kernel, tensor, dim, inner, env)
    if entries is None:
        return None
    return next(((n, e) for n, e in entries if isinstance(e, Split)), False)


Entry = tuple[Affine, Affine] | Split


def _decomposed_entries(
    kernel: Kernel, tensor: str, dim: int, inner: Dim, env: ShapeEnv
) -> list[tuple[int, Entry]] | None:
    """Return each index at the dim, decomposed or as a required split.

    Returns None if an index has neither.
    """
    out: list[tuple[int, Entry]] = []
    for n, c in enumerate(kernel.computes):
        indices = [r.index for r in reads(c.expr) if r.tensor == tensor]
        if c.out == tensor:
            indices.append(c.target)
        for index in indices:
            entry = index[dim]
            decomposed = (
                divide(entry, inner, ranges_of(c, env)) if isinstance(entry, Affine) else None
            )
            if decomposed is None:
                return None
            out.append((n, decomposed))
    return out


def _split_index(
    kernel: Kernel, tensor: str, dim: int, extents: tuple[Dim, Dim], env: ShapeEnv
) -> Kernel:
    def apart(index: tuple[Affine | Expr, ...], c: Compute) -> tuple[Affine | Expr, ...]:
        entry = index[dim]
        assert isinstance(entry, Affine)
        decomposed = divide(entry, extents[1], ranges_of(c, env))
        assert isinstance(decomposed, tuple)
        return (*index[:dim], *decomposed, *index[dim + 1 :])

    def moved(c: Compute) -> Compute:
        def leaf(read: Read) -> Expr:
            return replace(read, index=apart(read.index, c)) if read.tensor == tensor else read

        expr = rewrite(c.expr, leaf)
        if c.out != tensor:
            return replace(c, expr=expr)
        store = tuple(i for i in apart(c.target, c) if isinstance(i, Affine))
        return replace(c, expr=expr, store=store)

    def spec(t: TensorSpec) -> TensorSpec:
        shape = (*t.shape[:dim], *extents, *t.shape[dim + 1 :])
        return replace(t, shape=shape) if t.name == tensor else t

    return replace(
        kernel,
        computes=tuple(map(moved, kernel.computes)),
        tensors=tuple(map(spec, kernel.tensors)),
    )
