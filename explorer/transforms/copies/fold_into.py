"""Folding of a copy into its reader, or into the kernel whose result it copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dims import Shape, ShapeEnv
from explorer.ir.kernel import Compute, Expr, Kernel, Read, TensorSpec, reads, rewrite
from explorer.ir.types import Tensor
from explorer.transforms.copies.index_maps import CopyMap, Index, Origin, Split
from explorer.transforms.copies.split_axes import contractions, ranges_of, split_axis

MaySplit = Callable[[Kernel, int, str], bool]


def split_nowhere(kernel: Kernel, n: int, axis: str) -> bool:
    """Split no axis."""
    return False


def split_everywhere(kernel: Kernel, n: int, axis: str) -> bool:
    """Split any axis."""
    return True


def is_elementwise(kernel: Kernel) -> bool:
    """Return True if a kernel reduces nothing."""
    return not any(c.reduce for c in kernel.computes)


def split_if_free(kernel: Kernel, n: int, axis: str) -> bool:
    """Allow free splits: in kernels without sums, and of any axis but a contraction's column."""
    forms = contractions(kernel)
    form = forms[n]
    summed = all(f is not None for f, c in zip(forms, kernel.computes, strict=True) if c.reduce)
    return summed and (form is None or form.column.name != axis)


def split_if_free_or_reduction(kernel: Kernel, n: int, axis: str) -> bool:
    """Allow free splits, and splits of reductions that do not multiply two operands.

    Rows and reduction axes of these may be iterated over by two loops.
    """
    return split_if_free(kernel, n, axis) or contractions(kernel)[n] is None


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
    """Replace argument `place`, a copy of `source`, by `source` in a call.

    Its reads are composed with the copy's index map. Returns None if that is impossible.
    """
    name = call.kernel.inputs[place]
    if any(name == taken for _, taken in call.kernel.updates):
        return None  # the copy is written over, its source is not
    kernel = _split_for_reads(call.kernel, name, copy, env, may_split)
    if kernel is None:
        return None

    def rewrite_compute(c: Compute) -> Compute:
        touched = False

        def leaf(read: Read) -> Expr:
            nonlocal touched
            if read.tensor != name:
                return read
            source = _origin(read, c, copy, env)
            assert isinstance(source, Origin)
            touched = True
            return Read(name, source.index, source.fill)

        expr = rewrite(c.expr, leaf)
        return replace(c, expr=expr, origin=c.origin | origin) if touched else c

    kernel = replace(kernel, computes=tuple(rewrite_compute(c) for c in kernel.computes))
    kernel = _with_shape(kernel, name, copy.source)
    if constant:
        kernel = replace(kernel, constants=kernel.constants | {name})
    args = (*call.args[:place], source, *call.args[place + 1 :])
    return merge_inputs(replace(call, kernel=kernel, args=args))


def _split_for_reads(
    kernel: Kernel, name: str, copy: CopyMap, env: ShapeEnv, may_split: MaySplit
) -> Kernel | None:
    """Split axes so that each read of a tensor can be composed with the map."""
    while True:
        request: tuple[int, Split] | None = None
        for n, c in enumerate(kernel.computes):
            for read in reads(c.expr):
                if read.tensor != name:
                    continue
                source = _origin(read, c, copy, env)
                if source is None:
                    return None
                if isinstance(source, Split):
                    request = (n, source)
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
    """Pass each value to a kernel only once.

    After: no value is passed twice under two names of the same shape.
    """
    kernel, first_names = call.kernel, dict[Var, str]()
    names: dict[str, str] = {}
    over = {taken for _, taken in kernel.updates}
    for name, arg in zip(kernel.inputs, call.args, strict=True):
        first = first_names.setdefault(arg, name)
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
    """Let a call write a copy of its result: its stores are composed with the copy's map."""
    kernel: Kernel | None = call.kernel
    assert kernel is not None and isinstance(result.type, Tensor)
    if len(kernel.outputs) > 1 or kernel.updates:
        return None  # its stores share an index, or update existing memory
    if any(r.tensor == kernel.output for c in kernel.computes for r in reads(c.expr)):
        return None
    if not copy.result and any(c.axes for c in kernel.computes if c.out == kernel.output):
        return None  # a store without dims would mean the axes themselves
    kernel = _split_for_stores(kernel, copy, env, may_split)
    if kernel is None:
        return None

    def rewrite_compute(c: Compute) -> Compute:
        if c.out != kernel.output:
            return c
        stored_at = copy.destination(c.target, ranges_of(c, env))
        assert isinstance(stored_at, tuple)
        return replace(c, store=stored_at, origin=c.origin | origin)

    new = replace(kernel, computes=tuple(rewrite_compute(c) for c in kernel.computes))
    return replace(call, kernel=_with_shape(new, kernel.output, copy.result))


def _split_for_stores(
    kernel: Kernel, copy: CopyMap, env: ShapeEnv, may_split: MaySplit
) -> Kernel | None:
    while True:
        request: tuple[int, Split] | None = None
        for n, c in enumerate(kernel.computes):
            if c.out == kernel.output:
                stored_at: Index | Split | None = copy.destination(c.target, ranges_of(c, env))
                if stored_at is None:
                    return None
                if isinstance(stored_at, Split):
                    request = (n, stored_at)
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
