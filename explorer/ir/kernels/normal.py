"""The normal form that kernels are tiled in: what one compute alone needs is part of it, and
epilogues share its axes.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from operator import is_

from explorer.ir.affine import Affine, is_one, var
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Expr,
    Kernel,
    Read,
    reads,
    result_dtype,
    rewrite,
    substitute,
)
from explorer.ir.kernels.kernel_size import Size, expr_size
from explorer.ir.patterns.contraction import contraction

LARGEST = Size(operations=256, depth=64)  # of one expression
CHEAP = frozenset(
    {
        "add",
        "sub",
        "mul",
        "neg",
        "max",
        "min",
        "abs",
        "where",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and",
        "or",
        "not",
    }
)


def normalise(kernel: Kernel) -> Kernel:
    """The same values from a kernel in normal form: no axis of extent 1, producers inlined,
    epilogues aligned.
    """
    return align(inline(drop_unit_axes(kernel)))


def drop_unit_axes(kernel: Kernel) -> Kernel:
    """After: no loop runs once, except where it is the only one, and no tensor made inside has a
    dim of extent 1, but one that is read past its border along that dim.
    """
    computes = tuple(map(_without_units, kernel.computes))
    same = all(map(is_, computes, kernel.computes))
    return _squeezed(kernel if same else replace(kernel, computes=computes))


def _squeezed(kernel: Kernel) -> Kernel:
    units = [
        t
        for t in kernel.tensors
        if t.name not in (*kernel.inputs, *kernel.outputs) and any(map(is_one, t.shape))
    ]
    if not units:
        return kernel
    left = {(r.tensor, d) for c in kernel.computes for r in reads(c.expr) for d in _past_border(r)}
    kept = {
        t.name: tuple(d for d, n in enumerate(t.shape) if not is_one(n) or (t.name, d) in left)
        or (len(t.shape) - 1,)
        for t in units
    }

    def leaf(read: Read) -> Expr:
        if read.tensor not in kept:
            return read
        return replace(read, index=tuple(read.index[d] for d in kept[read.tensor]))

    def compute(c: Compute) -> Compute:
        store = tuple(c.target[d] for d in kept[c.out]) if c.out in kept else c.store
        return replace(c, expr=rewrite(c.expr, leaf), store=store)

    tensors = tuple(
        replace(t, shape=tuple(t.shape[d] for d in kept[t.name])) if t.name in kept else t
        for t in kernel.tensors
    )
    return replace(kernel, tensors=tensors, computes=tuple(compute(c) for c in kernel.computes))


def _past_border(read: Read) -> tuple[int, ...]:
    """The dims in which a load may stand elsewhere than at 0 and find its fill there."""
    if read.fill is None:
        return ()
    return tuple(d for d, i in enumerate(read.index) if i != Affine())


def _without_units(c: Compute) -> Compute:
    gone = {a.name: Affine() for a in (*c.axes, *c.reduce) if is_one(a.extent)}
    if not gone:
        return c
    kept = tuple(a for a in c.axes if a.name not in gone) or c.axes[-1:]
    over = tuple(a for a in c.reduce if a.name not in gone) or c.reduce[-1:]
    for a in (*kept, *over):
        gone.pop(a.name, None)
    if not gone:
        return c
    store = tuple(i.substitute(gone) for i in c.target)
    return replace(c, axes=kept, reduce=over, store=store, expr=substitute(c.expr, gone))


def writers(kernel: Kernel, tensor: str) -> list[Compute]:
    """The computes that write a tensor."""
    return [c for c in kernel.computes if c.out == tensor]


def stores(kernel: Kernel) -> list[Compute]:
    """The computes that write outputs, in order; the last one's axes are those that tiles cut."""
    return [c for c in kernel.computes if c.out in kernel.outputs]


def inline(kernel: Kernel) -> Kernel:
    """After: an element-wise compute that one compute reads at one index is part of it, unless the
    expression would be larger than `LARGEST`.
    """
    return _Inliner(kernel).done()


class _Inliner:
    """Computes in their slots while some become part of others; the first that can goes first."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.slots: list[Compute | None] = list(kernel.computes)
        self.sizes = [expr_size(c.expr) for c in kernel.computes]
        self.loads: list[list[Read]] = [[] for _ in self.slots]
        self.writers: dict[str, list[int]] = {}
        self.readers: dict[str, set[int]] = {}
        for n, c in enumerate(kernel.computes):
            self.writers.setdefault(c.out, []).append(n)
            self._note(n, c)

    def done(self) -> Kernel:
        """The kernel when nothing more can become part of something else."""
        todo = list(range(len(self.slots)))
        waiting, gone = set(todo), set[str]()
        while todo:
            n = heappop(todo)
            waiting.discard(n)
            producer = self.slots[n]
            user = None if producer is None else self._user(n, producer)
            if producer is None or user is None:
                continue
            self._join(n, producer, user)
            gone.add(producer.out)
            for other in {user, *(w for r in self.loads[user] for w in self._writers(r))} - waiting:
                heappush(todo, other)
                waiting.add(other)
        if not gone:
            return self.kernel
        computes = tuple(c for c in self.slots if c is not None)
        tensors = tuple(t for t in self.kernel.tensors if t.name not in gone)
        return replace(self.kernel, computes=computes, tensors=tensors)

    def _note(self, n: int, c: Compute) -> None:
        self.loads[n] = list(reads(c.expr))
        for read in self.loads[n]:
            self.readers.setdefault(read.tensor, set()).add(n)

    def _writers(self, read: Read) -> list[int]:
        return self.writers.get(read.tensor, [])

    def _user(self, n: int, p: Compute) -> int | None:
        """The slot of the compute that the producer can become part of."""
        users = self.readers.get(p.out, set())
        if p.reduce or p.out in self.kernel.outputs or len(self.writers[p.out]) > 1:
            return None
        if len(users) != 1 or result_dtype(p.expr, self.kernel) != self.kernel.dtype(p.out):
            return None
        (place,) = users
        user = self.slots[place]
        assert user is not None
        mine = [r for r in self.loads[place] if r.tensor == p.out]
        if len({r.index for r in mine}) != 1 and not is_cheap(p.expr):
            return None
        if contraction(user) and not isinstance(p.expr, Read):
            return None
        if any(_values(p, r) is None or r.fill is not None for r in mine):
            return None
        return place if self._joined_size(place, n, len(mine)).within(LARGEST) else None

    def _joined_size(self, user: int, producer: int, times: int) -> Size:
        a, b = self.sizes[user], self.sizes[producer]
        return Size(a.operations + times * b.operations, a.depth + b.depth)

    def _join(self, n: int, p: Compute, place: int) -> None:
        user = self.slots[place]
        assert user is not None

        def moved(read: Read) -> Expr:
            if read.tensor != p.out:
                return read
            values = _values(p, read)
            assert values is not None
            return substitute(p.expr, values)

        new = replace(user, expr=rewrite(user.expr, moved), origin=user.origin | p.origin)
        for slot in (n, place):
            for read in self.loads[slot]:
                self.readers[read.tensor].discard(slot)
        self.slots[n], self.slots[place] = None, new
        self.sizes[place] = expr_size(new.expr)
        self._note(place, new)


def is_cheap(expr: Expr) -> bool:
    """Whether computing it again costs less than keeping it."""
    match expr:
        case Apply(op, args):
            return (op in CHEAP or op.startswith("cast_")) and all(is_cheap(a) for a in args)
        case _:
            return True


def _values(p: Compute, read: Read) -> dict[str, Affine] | None:
    """The producer's axes in terms of the reader's, for one load; None where nobody can tell."""
    values: dict[str, Affine] = {}
    for stored, index in zip(p.target, read.index, strict=True):
        if not isinstance(index, Affine):
            return None
        if stored.bare is None:
            if stored == index:  # both a constant, such as the one place of a unit dim
                continue
            return None
        values[stored.bare] = index
    return values if len(values) == len(p.axes) else None


def epilogue_of(kernel: Kernel, c: Compute) -> Compute | None:
    """The next element-wise compute, if it alone reads this one, point by point, and all else that
    it reads is ready.
    """
    if c.out in kernel.outputs or len(writers(kernel, c.out)) > 1:
        return None
    users = [k for k in kernel.computes if any(r.tensor == c.out for r in reads(k.expr))]
    if len(users) != 1 or users[0].reduce:
        return None
    user = users[0]
    place = kernel.computes.index(c)
    ready = {k.out for k in kernel.computes[:place]} | {c.out, *kernel.inputs}
    mine = [r for r in reads(user.expr) if r.tensor == c.out]
    if any(r.tensor not in ready for r in reads(user.expr)) or any(
        r.fill is not None for r in mine
    ):
        return None
    same = len({r.index for r in mine}) == 1 and _reader_axes(c, user, mine[0]) is not None
    return user if same and _reads_all(kernel, user, mine[0]) else None


def _reads_all(kernel: Kernel, user: Compute, read: Read) -> bool:
    """Whether a load at bare axes is of the whole tensor, and not of its first part."""
    extents = {a.name: a.extent for a in user.axes}
    pairs = zip(read.index, kernel.shape(read.tensor))
    return all(
        extents[i.bare] == n for i, n in pairs if isinstance(i, Affine) and i.bare in extents
    )


def _reader_axes(c: Compute, user: Compute, read: Read) -> dict[str, Affine] | None:
    """The reader's axes in terms of the writer's: each dim is read at a bare axis, or at the
    constant it is stored at.
    """
    values: dict[str, Affine] = {}
    own = {a.name for a in c.axes}
    for stored, index in zip(c.target, read.index, strict=True):
        if not isinstance(index, Affine) or stored.variables - own:
            return None
        if index == stored and not index.terms:
            continue
        if index.bare is None or index.bare in values:
            return None
        values[index.bare] = stored
    return values if set(values) == {a.name for a in user.axes} else None


def align(kernel: Kernel) -> Kernel:
    """After: an epilogue has the axes of the compute it follows, in its order, under names of its
    own.

    `t[n, g*68 + o] = sum ...; y[n, c] = max(t[n, c], 0)` becomes `y[n, g'*68 + o'] = max(t[n, g'*68
    + o'], 0)`.
    """
    for n in range(len(kernel.computes)):
        c = kernel.computes[n]
        user = epilogue_of(kernel, c)
        if user is None:
            continue
        read = next(r for r in reads(user.expr) if r.tensor == c.out)
        values = _reader_axes(c, user, read)
        assert values is not None
        if len(user.axes) == len(c.axes) and all(
            values[u.name].bare == a.name for u, a in zip(user.axes, c.axes, strict=True)
        ):
            continue
        names = {a.name: f"{a.name}_e{n}" for a in c.axes}
        renamed = {a: var(b) for a, b in names.items()}
        moved = {u: v.substitute(renamed) for u, v in values.items()}
        axes = tuple(Axis(names[a.name], a.extent) for a in c.axes)
        shared = len(kernel.outputs) > 1 and user.out in kernel.outputs
        beside = kernel.outputs if shared else ()
        computes = (
            _with_axes(k, axes, moved) if k is user or k.out in beside else k
            for k in kernel.computes
        )
        kernel = replace(kernel, computes=tuple(computes))
    return kernel


def _with_axes(c: Compute, axes: tuple[Axis, ...], values: dict[str, Affine]) -> Compute:
    """The compute over other axes, `values` being its own in terms of them."""
    return replace(
        c,
        axes=axes,
        expr=substitute(c.expr, values),
        store=tuple(i.substitute(values) for i in c.target),
    )
