"""A copy folded into the kernel that reads it, or into the kernel whose result it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Compute, Expr, Kernel, Read, TensorSpec, reads, rewrite
from explorer.ir.shapes.dims import Shape, ShapeEnv
from explorer.ir.types import Tensor
from explorer.passes.copies.copy_maps import CopyMap, Origin
from explorer.passes.copies.index_maps import Index, Split
from explorer.passes.copies.split_axes import contractions, ranges_of, split_axis

MaySplit = Callable[[Kernel, int, str], bool]


def never(kernel: Kernel, n: int, axis: str) -> bool:
    """No axis is cut."""
    return False


def everywhere(kernel: Kernel, n: int, axis: str) -> bool:
    """Any axis may be cut."""
    return True


def is_elementwise(kernel: Kernel) -> bool:
    """Whether nothing in a kernel is reduced."""
    return not any(c.reduce for c in kernel.computes)


def where_free(kernel: Kernel, n: int, axis: str) -> bool:
    """An axis may be cut where that is free: in a kernel without sums, or but for a contraction's
    column.
    """
    forms = contractions(kernel)
    found = forms[n]
    summed = all(f is not None for f, c in zip(forms, kernel.computes, strict=True) if c.reduce)
    return summed and (found is None or found.column.name != axis)


def where_folded(kernel: Kernel, n: int, axis: str) -> bool:
    """An axis may be cut where that is free, or in a compute that folds without multiplying two
    operands: its rows, and what it folds, may be iterated over by two loops.
    """
    return where_free(kernel, n, axis) or contractions(kernel)[n] is None


def read_through(
    call: KernelCall,
    place: int,
    source: Var,
    copy: CopyMap,
    env: ShapeEnv,
    may_split: MaySplit,
    origin: frozenset[str] = frozenset(),
    constant: bool = False,
) -> KernelCall | None:
    """The call with argument `place`, a copy of `source`, replaced by `source`: its loads go where
    the copy's went.
    """
    name = call.kernel.inputs[place]
    if any(name == taken for _, taken in call.kernel.updates):
        return None  # it is written over, and not what it is a copy of
    kernel = _split_for_reads(call.kernel, name, copy, env, may_split)
    if kernel is None:
        return None

    def moved(c: Compute) -> Compute:
        touched = False

        def leaf(read: Read) -> Expr:
            nonlocal touched
            if read.tensor != name:
                return read
            found = _origin(read, c, copy, env)
            assert isinstance(found, Origin)
            touched = True
            return Read(name, found.index, found.fill)

        expr = rewrite(c.expr, leaf)
        return replace(c, expr=expr, origin=c.origin | origin) if touched else c

    kernel = replace(kernel, computes=tuple(moved(c) for c in kernel.computes))
    kernel = _with_shape(kernel, name, copy.source)
    if constant:
        kernel = replace(kernel, constants=kernel.constants | {name})
    args = (*call.args[:place], source, *call.args[place + 1 :])
    return merge_inputs(replace(call, kernel=kernel, args=args))


def _split_for_reads(
    kernel: Kernel, name: str, copy: CopyMap, env: ShapeEnv, may_split: MaySplit
) -> Kernel | None:
    """The kernel with axes cut so that each load of a tensor can go through the map."""
    while True:
        request: tuple[int, Split] | None = None
        for n, c in enumerate(kernel.computes):
            for read in reads(c.expr):
                if read.tensor != name:
                    continue
                found = _origin(read, c, copy, env)
                if found is None:
                    return None
                if isinstance(found, Split):
                    request = (n, found)
        if request is None:
            return kernel
        n, split = request
        if not may_split(kernel, n, split.axis):
            return None
        cut = split_axis(kernel, n, split, env)
        if cut is None:
            return None
        kernel = cut


def _origin(read: Read, c: Compute, copy: CopyMap, env: ShapeEnv) -> Origin | Split | None:
    entries = tuple(i for i in read.index if isinstance(i, Affine))
    if len(entries) != len(read.index):
        return None
    return copy.origin(entries, read.fill, ranges_of(c, env))


def merge_inputs(call: KernelCall) -> KernelCall:
    """After: no value is given to a kernel twice under two names of the same shape."""
    kernel, kept = call.kernel, dict[Var, str]()
    names: dict[str, str] = {}
    over = {taken for _, taken in kernel.updates}
    for name, arg in zip(kernel.inputs, call.args, strict=True):
        first = kept.setdefault(arg, name)
        alike = first != name and kernel.shape(first) == kernel.shape(name)
        if alike and not over & {first, name}:
            names[name] = first
    if not names:
        return call

    def leaf(read: Read) -> Expr:
        return replace(read, tensor=names.get(read.tensor, read.tensor))

    args = tuple(a for n, a in zip(kernel.inputs, call.args, strict=True) if n not in names)
    kernel = replace(
        kernel,
        computes=tuple(replace(c, expr=rewrite(c.expr, leaf)) for c in kernel.computes),
        tensors=tuple(t for t in kernel.tensors if t.name not in names),
        inputs=tuple(n for n in kernel.inputs if n not in names),
        constants=kernel.constants - set(names),
    )
    return replace(call, kernel=kernel, args=args)


def store_through(
    call: KernelCall,
    result: Var,
    copy: CopyMap,
    env: ShapeEnv,
    may_split: MaySplit,
    origin: frozenset[str] = frozenset(),
) -> KernelCall | None:
    """The call that writes what a copy of its result would hold: its stores go where the copy's
    went.
    """
    kernel: Kernel | None = call.kernel
    assert kernel is not None and isinstance(result.type, Tensor)
    if len(kernel.outputs) > 1 or kernel.updates:
        return None  # its stores go together, or into memory that is there
    if any(r.tensor == kernel.output for c in kernel.computes for r in reads(c.expr)):
        return None
    if not copy.result and any(c.axes for c in kernel.computes if c.out == kernel.output):
        return None  # a store without dims would mean the axes themselves
    kernel = _split_for_stores(kernel, copy, env, may_split)
    if kernel is None:
        return None

    def moved(c: Compute) -> Compute:
        if c.out != kernel.output:
            return c
        found = copy.destination(c.target, ranges_of(c, env))
        assert isinstance(found, tuple)
        return replace(c, store=found, origin=c.origin | origin)

    new = replace(kernel, computes=tuple(moved(c) for c in kernel.computes))
    return replace(call, kernel=_with_shape(new, kernel.output, copy.result))


def _split_for_stores(
    kernel: Kernel, copy: CopyMap, env: ShapeEnv, may_split: MaySplit
) -> Kernel | None:
    while True:
        request: tuple[int, Split] | None = None
        for n, c in enumerate(kernel.computes):
            if c.out == kernel.output:
                found: Index | Split | None = copy.destination(c.target, ranges_of(c, env))
                if found is None:
                    return None
                if isinstance(found, Split):
                    request = (n, found)
        if request is None:
            return kernel
        n, split = request
        cut = split_axis(kernel, n, split, env) if may_split(kernel, n, split.axis) else None
        if cut is None:
            return None
        kernel = cut


def _with_shape(kernel: Kernel, name: str, shape: Shape) -> Kernel:
    def spec(t: TensorSpec) -> TensorSpec:
        return replace(t, shape=shape) if t.name == name else t

    return replace(kernel, tensors=tuple(map(spec, kernel.tensors)))
