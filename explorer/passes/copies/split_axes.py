"""An axis cut in two, and with it every inner tensor's dim that it runs along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.ir.affine import Affine, var
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
from explorer.ir.kernels.normal import drop_unit_axes
from explorer.ir.patterns.contraction import Contraction, contraction
from explorer.ir.shapes.dims import Dim, ShapeEnv
from explorer.passes.copies.index_maps import Ranges, Split, divide, quotient
from explorer.passes.pipeline.names import fresh

LEAST_COLUMNS = 32  # of a contraction that fill register tiles; chosen, no measurement kept


def ranges_of(compute: Compute, env: ShapeEnv) -> Ranges:
    """The extents of all axes of a compute."""
    return Ranges({a.name: a.extent for a in (*compute.axes, *compute.reduce)}, env)


def split_axis(kernel: Kernel, n: int, split: Split, env: ShapeEnv) -> Kernel | None:
    """`axis == outer * inner + rest` in compute `n`; inner tensors indexed along it get two dims
    for the one.

    None where a reader or writer of such a tensor cannot follow, and where a contraction would stop
    being one.
    """
    if _is_shared(kernel, n, split.axis):
        return None
    cut = _cut(kernel, n, split)
    opened = _split_dims(cut, _merged_dims(cut, n, split.inner), split.inner, env)
    if opened is None:
        return None
    return opened if _keeps_contractions(kernel, opened) else None


def _is_shared(kernel: Kernel, n: int, axis: str) -> bool:
    """Whether computes that write other parts of the same tensor, or another output, iterate over
    the same axis.
    """
    out = kernel.computes[n].out
    beside = kernel.outputs if out in kernel.outputs else (out,)  # outputs share their axes
    return any(
        a.name == axis
        for m, c in enumerate(kernel.computes)
        if m != n and c.out in beside
        for a in c.axes
    )


def _keeps_contractions(before: Kernel, after: Kernel) -> bool:
    """Whether each contraction still is one, with columns enough to fill register tiles."""
    pairs = zip(contractions(before), contractions(after), strict=True)
    return all(b is not None and _wide(a, b) for a, b in pairs if a is not None)


def _wide(before: Contraction, after: Contraction) -> bool:
    was, now = before.column.extent, after.column.extent
    return was == now or (isinstance(now, int) and now >= LEAST_COLUMNS)


def contractions(kernel: Kernel) -> list[Contraction | None]:
    """Each compute as a contraction, where it is one; loops that run once do not count."""
    return [contraction(c) for c in drop_unit_axes(kernel).computes]


def fresh_axis(kernel: Kernel, wish: str) -> str:
    """An axis name that the kernel does not have."""
    taken = {a.name for c in kernel.computes for a in (*c.axes, *c.reduce)}
    return fresh(wish, taken)


def _cut(kernel: Kernel, n: int, split: Split) -> Kernel:
    outer, rest = (fresh_axis(kernel, f"{split.axis}_{end}") for end in ("out", "in"))
    value = {split.axis: var(outer) * split.inner + var(rest)}

    def two(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        out: list[Axis] = []
        for a in axes:
            if a.name != split.axis:
                out.append(a)
                continue
            count = quotient(a.extent, split.inner)
            assert count is not None, "a split must divide its axis"
            out += [Axis(outer, count), Axis(rest, split.inner)]
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
    """The dims of inner tensors at which compute `n` now has a sum of the two parts as index."""
    c = kernel.computes[n]
    made = {k.out for k in kernel.computes} - {*kernel.outputs}
    found: dict[tuple[str, int], None] = {}
    entries = [(c.out, c.target), *((r.tensor, r.index) for r in reads(c.expr))]
    for tensor, index in entries:
        if tensor not in made:
            continue
        for d, entry in enumerate(index):
            terms = entry.terms if isinstance(entry, Affine) else ()
            if len(terms) > 1 and any(factor == inner for _, factor in terms):
                found[(tensor, d)] = None
    return sorted(found, key=lambda t: -t[1])  # from the last dim on: the others keep their place


def open_inner_dims(kernel: Kernel, env: ShapeEnv) -> Kernel:
    """After: an inner tensor that one compute writes at merged indices has a dim for each axis.

    `t[g * 80 + o] = ...; y[c] = f(t[c])` becomes `t[g, o] = ...; y[g' * 80 + o'] = f(t[g', o'])`,
    where all readers can follow.
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
    """Dims written at `outer * inner + rest`, and what `inner` is; the last dim first."""
    extents = {a.name: a.extent for a in c.axes}
    for d in reversed(range(len(c.target))):
        terms = c.target[d].terms
        rest = next((name for name, factor in terms if factor == 1), None)
        if len(terms) > 1 and rest is not None:
            yield d, extents[rest]


def split_dim(kernel: Kernel, tensor: str, dim: int, inner: Dim, env: ShapeEnv) -> Kernel | None:
    """Dim `dim` of an inner tensor as two, the second of extent `inner`; all its readers and
    writers follow.
    """
    return _split_dims(kernel, [(tensor, dim)], inner, env)


def _split_dims(
    kernel: Kernel, wanted: list[tuple[str, int]], inner: Dim, env: ShapeEnv
) -> Kernel | None:
    """Dims of inner tensors as two each, and with them every dim along which an axis runs that is
    then cut: first all axes, then all dims, so that each is met once whatever reads whatever.
    """
    new, dims = kernel, dict.fromkeys(d for d in wanted if kernel.shape(d[0])[d[1]] != inner)
    while True:
        requests = [_request(new, tensor, dim, inner, env) for tensor, dim in dims]
        if None in requests:
            return None
        request = next((r for r in requests if isinstance(r, tuple)), None)
        if request is None:
            break
        n, split = request
        if _is_shared(new, n, split.axis):
            return None
        new = _cut(new, n, split)
        dims |= dict.fromkeys(_merged_dims(new, n, inner))
    for tensor, dim in sorted(dims, key=lambda d: -d[1]):  # the others keep their place
        count = quotient(new.shape(tensor)[dim], inner)
        assert count is not None, "an index was taken apart, so the dim can be"
        new = _apply(new, tensor, dim, (count, inner), env)
    return new


def _request(
    kernel: Kernel, tensor: str, dim: int, inner: Dim, env: ShapeEnv
) -> tuple[int, Split] | bool | None:
    """A compute and the axis of it that must be cut before the dim can be; False where none must;
    None where it cannot be.
    """
    if quotient(kernel.shape(tensor)[dim], inner) is None:
        return None
    entries = _entries(kernel, tensor, dim, inner, env)
    if entries is None:
        return None
    return next(((n, e) for n, e in entries if isinstance(e, Split)), False)


Entry = tuple[Affine, Affine] | Split


def _entries(
    kernel: Kernel, tensor: str, dim: int, inner: Dim, env: ShapeEnv
) -> list[tuple[int, Entry]] | None:
    """Each index at the dim, taken apart or asking for a split; None if one can do neither."""
    out: list[tuple[int, Entry]] = []
    for n, c in enumerate(kernel.computes):
        indices = [r.index for r in reads(c.expr) if r.tensor == tensor]
        if c.out == tensor:
            indices.append(c.target)
        for index in indices:
            entry = index[dim]
            found = divide(entry, inner, ranges_of(c, env)) if isinstance(entry, Affine) else None
            if found is None:
                return None
            out.append((n, found))
    return out


def _apply(
    kernel: Kernel, tensor: str, dim: int, extents: tuple[Dim, Dim], env: ShapeEnv
) -> Kernel:
    def apart(index: tuple[Affine | Expr, ...], c: Compute) -> tuple[Affine | Expr, ...]:
        entry = index[dim]
        assert isinstance(entry, Affine)
        found = divide(entry, extents[1], ranges_of(c, env))
        assert isinstance(found, tuple)
        return (*index[:dim], *found, *index[dim + 1 :])

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
