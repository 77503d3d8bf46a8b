"""The normal form in which kernels are tiled: producers inlined, epilogues on producers' axes.

Computes without elements and empty reductions are removed by `without_empty`, once extents are
numbers.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from operator import is_

from explorer.ir.affine import Affine, is_one, var
from explorer.ir.combiners import COMBINERS
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    Kernel,
    Read,
    Size,
    expr_size,
    reads,
    result_dtype,
    rewrite,
    substitute,
)
from explorer.ir.kernels.contraction import contraction

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
    """Return an equivalent kernel in normal form.

    It has no axis of extent 1, producers are inlined and epilogues aligned.
    """
    return align(inline(drop_unit_axes(kernel)))


def drop_unit_axes(kernel: Kernel) -> Kernel:
    """Remove loops of one iteration, except the only one, and unit dims of internal tensors.

    A unit dim stays if the tensor is read past its border along it.
    """
    computes = tuple(map(_without_unit_axes, kernel.computes))
    same = all(map(is_, computes, kernel.computes))
    return _without_unit_dims(kernel if same else replace(kernel, computes=computes))


def _without_unit_dims(kernel: Kernel) -> Kernel:
    units = [
        t
        for t in kernel.tensors
        if t.name not in (*kernel.inputs, *kernel.outputs) and any(map(is_one, t.shape))
    ]
    if not units:
        return kernel
    left = {(r.tensor, d) for c in kernel.computes for r in reads(c.expr) for d in _past_border(r)}
    kept_dims = {
        t.name: tuple(d for d, n in enumerate(t.shape) if not is_one(n) or (t.name, d) in left)
        or (len(t.shape) - 1,)
        for t in units
    }

    def leaf(read: Read) -> Expr:
        if read.tensor not in kept_dims:
            return read
        return replace(read, index=tuple(read.index[d] for d in kept_dims[read.tensor]))

    def compute(c: Compute) -> Compute:
        store = tuple(c.target[d] for d in kept_dims[c.out]) if c.out in kept_dims else c.store
        return replace(c, expr=rewrite(c.expr, leaf), store=store)

    tensors = tuple(
        replace(t, shape=tuple(t.shape[d] for d in kept_dims[t.name])) if t.name in kept_dims else t
        for t in kernel.tensors
    )
    return replace(kernel, tensors=tensors, computes=tuple(compute(c) for c in kernel.computes))


def _past_border(read: Read) -> tuple[int, ...]:
    """Return the dims along which a load may be out of bounds and get its fill value."""
    if read.fill is None:
        return ()
    return tuple(d for d, i in enumerate(read.index) if i != Affine())


def _without_unit_axes(c: Compute) -> Compute:
    gone = {a.name: Affine() for a in (*c.axes, *c.reduce) if is_one(a.extent)}
    if not gone:
        return c
    axes = tuple(a for a in c.axes if a.name not in gone) or c.axes[-1:]
    over = tuple(a for a in c.reduce if a.name not in gone) or c.reduce[-1:]
    for a in (*axes, *over):
        gone.pop(a.name, None)
    if not gone:
        return c
    store = tuple(i.substitute(gone) for i in c.target)
    return replace(c, axes=axes, reduce=over, store=store, expr=substitute(c.expr, gone))


def writers(kernel: Kernel, tensor: str) -> list[Compute]:
    """Return the computes that write a tensor."""
    return [c for c in kernel.computes if c.out == tensor]


def stores(kernel: Kernel) -> list[Compute]:
    """Return the computes that write outputs, in order; tiles cut the axes of the last one."""
    return [c for c in kernel.computes if c.out in kernel.outputs]


def inline(kernel: Kernel) -> Kernel:
    """Inline each element-wise compute that one compute reads at one index.

    After: none is left, unless the expression would be larger than `LARGEST`.
    """
    return _Inliner(kernel).run()


class _Inliner:
    """Inlining of computes in their slots, the first possible one first."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.slots: list[Compute | None] = list(kernel.computes)
        self.sizes = [expr_size(c.expr) for c in kernel.computes]
        self.loads: list[list[Read]] = [[] for _ in self.slots]
        self.writers: dict[str, list[int]] = {}
        self.readers: dict[str, set[int]] = {}
        for n, c in enumerate(kernel.computes):
            self.writers.setdefault(c.out, []).append(n)
            self._record_loads(n, c)

    def run(self) -> Kernel:
        """Inline until nothing more can be inlined, and return the kernel."""
        todo = list(range(len(self.slots)))
        waiting, gone = set(todo), set[str]()
        while todo:
            n = heappop(todo)
            waiting.discard(n)
            producer = self.slots[n]
            user = None if producer is None else self._inlining_target(n, producer)
            if producer is None or user is None:
                continue
            self._inline(n, producer, user)
            gone.add(producer.out)
            for other in {user, *(w for r in self.loads[user] for w in self._writers(r))} - waiting:
                heappush(todo, other)
                waiting.add(other)
        if not gone:
            return self.kernel
        computes = tuple(c for c in self.slots if c is not None)
        tensors = tuple(t for t in self.kernel.tensors if t.name not in gone)
        return replace(self.kernel, computes=computes, tensors=tensors)

    def _record_loads(self, n: int, c: Compute) -> None:
        self.loads[n] = list(reads(c.expr))
        for read in self.loads[n]:
            self.readers.setdefault(read.tensor, set()).add(n)

    def _writers(self, read: Read) -> list[int]:
        return self.writers.get(read.tensor, [])

    def _inlining_target(self, n: int, p: Compute) -> int | None:
        """Return the slot of the compute that a producer can be inlined into."""
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

    def _inline(self, n: int, p: Compute, place: int) -> None:
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
        self._record_loads(place, new)


def is_cheap(expr: Expr) -> bool:
    """Return True if recomputing an expression costs less than storing it."""
    match expr:
        case Apply(op, args):
            return (op in CHEAP or op.startswith("cast_")) and all(is_cheap(a) for a in args)
        case _:
            return True


def _values(p: Compute, read: Read) -> dict[str, Affine] | None:
    """Return the producer's axes as functions of the reader's for one load, None if unknown."""
    values: dict[str, Affine] = {}
    for stored, index in zip(p.target, read.index, strict=True):
        if not isinstance(index, Affine):
            return None
        if stored.bare is None:
            if stored == index:  # the same constant, such as index 0 of a unit dim
                continue
            return None
        values[stored.bare] = index
    return values if len(values) == len(p.axes) else None


def epilogue_of(kernel: Kernel, c: Compute) -> Compute | None:
    """Return the next element-wise compute if it is an epilogue of this compute.

    It must be the only reader, read point by point, and have all its other inputs ready.
    """
    user = reader_of(kernel, c)
    if user is None or user.reduce:
        return None
    mine = next(r for r in reads(user.expr) if r.tensor == c.out)
    return user if _reader_axes(c, user, mine) is not None else None


def reader_of(kernel: Kernel, c: Compute) -> Compute | None:
    """Return the only reader of a compute, if it reads all of it at one place for each point.

    All its other inputs must be ready before this compute.
    """
    if c.out in kernel.outputs or len(writers(kernel, c.out)) > 1:
        return None
    users = [k for k in kernel.computes if any(r.tensor == c.out for r in reads(k.expr))]
    if len(users) != 1:
        return None
    (user,) = users
    place = kernel.computes.index(c)
    ready = {k.out for k in kernel.computes[:place]} | {c.out, *kernel.inputs}
    mine = [r for r in reads(user.expr) if r.tensor == c.out]
    if any(r.tensor not in ready for r in reads(user.expr)) or any(
        r.fill is not None for r in mine
    ):
        return None
    return user if len({r.index for r in mine}) == 1 and _reads_all(kernel, user, mine[0]) else None


def _reads_all(kernel: Kernel, user: Compute, read: Read) -> bool:
    """Return True if a load at bare axes covers the whole tensor, not just its first part."""
    extents = {a.name: a.extent for a in (*user.axes, *user.reduce)}
    pairs = zip(read.index, kernel.shape(read.tensor))
    return all(
        extents[i.bare] == n for i, n in pairs if isinstance(i, Affine) and i.bare in extents
    )


def _reader_axes(c: Compute, user: Compute, read: Read) -> dict[str, Affine] | None:
    """Return the reader's axes as functions of the writer's.

    Each dim must be read at a bare axis, or at the constant it is stored at.
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
    """Give each epilogue the axes of its producer, in the producer's order, under new names.

    `t[n, g*68 + o] = sum ...; y[n, c] = max(t[n, c], 0)` becomes
    `y[n, g'*68 + o'] = max(t[n, g'*68 + o'], 0)`.
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
    """Return the compute over other axes; `values` maps its old axes to functions of new ones."""
    return replace(
        c,
        axes=axes,
        expr=substitute(c.expr, values),
        store=tuple(i.substitute(values) for i in c.target),
    )


def without_empty(kernel: Kernel) -> Kernel:
    """Remove computes and outputs without elements, and computes that only these needed.

    Before and after:

        y[i] = sum[k < 0] x[i, k]          ->  y[i] = 0
        y[i] = x[i] or 1 past its border   ->  y[i] = 1   where x has no elements
    """
    if not any(_is_empty(c, kernel) for c in kernel.computes):
        return kernel
    computes = tuple(
        _without_empty_reads(c, kernel)
        for c in kernel.computes
        if all(a.extent != 0 for a in c.axes)
    )
    outputs = tuple(t for t in kernel.outputs if all(n != 0 for n in kernel.shape(t)))
    computes = _live_computes(computes, outputs)
    updates = tuple((out, taken) for out, taken in kernel.updates if out in outputs)
    named = {*kernel.inputs, *outputs, *(c.out for c in computes)}
    tensors = tuple(t for t in kernel.tensors if t.name in named)
    return replace(kernel, tensors=tensors, computes=computes, outputs=outputs, updates=updates)


def _live_computes(computes: tuple[Compute, ...], outputs: tuple[str, ...]) -> tuple[Compute, ...]:
    """Return the computes that the outputs depend on."""
    live: list[Compute] = []
    named = set(outputs)
    for c in reversed(computes):
        if c.out in named:
            named |= {r.tensor for r in reads(c.expr)}
            live.append(c)
    return tuple(reversed(live))


def _is_empty(c: Compute, kernel: Kernel) -> bool:
    return any(a.extent == 0 for a in (*c.axes, *c.reduce)) or _without_empty_reads(c, kernel) != c


def _without_empty_reads(c: Compute, kernel: Kernel) -> Compute:
    """Return a compute with empty reductions and loads of empty tensors replaced by constants."""

    def leaf(read: Read) -> Expr:
        nothing = read.fill is not None and any(n == 0 for n in kernel.shape(read.tensor))
        return Const(read.fill, kernel.dtype(read.tensor)) if nothing else read

    if any(a.extent == 0 for a in c.reduce):
        dtype = kernel.dtype(c.out)
        first = COMBINERS[c.combiner or "sum"].identity(dtype)
        return replace(c, expr=Const(first, dtype), reduce=(), combiner=None)
    return replace(c, expr=rewrite(c.expr, leaf))
