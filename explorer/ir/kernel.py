"""Loop-level kernels as data: axes, loads at affine indices, a scalar expression, a combiner.

A kernel is a list of computes (softmax is four, attention seven), so an operator and a fused
group have one type. Functions on expressions are at the end, and so is the size of kernels, which
their text and code grow with and which bounds are stated in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import copysign
from operator import is_
from typing import TypeAlias

from explorer.ir.affine import Affine, var
from explorer.ir.by_identity import by_identity
from explorer.ir.dims import Dim, Shape
from explorer.ir.scalar_functions import dtype_of_result
from explorer.ir.types import DType


@dataclass(frozen=True, slots=True)
class Const:
    """A number, or a dim where it depends on the shapes. 0.0 and -0.0 are different numbers."""

    value: float | int | bool | Dim
    dtype: DType = "float32"

    @property
    def number(self) -> float:
        """The value; TypeError if it depends on the shapes."""
        if isinstance(self.value, (int, float)):
            return self.value
        raise TypeError(f"{self.value} is not a number")

    def __eq__(self, other: object) -> bool:
        """Return True if dtype and value are equal, the sign of a zero included."""
        if not isinstance(other, Const):
            return NotImplemented
        a, b = self.value, other.value
        return (a is b or is_same(a, b)) and self.dtype == other.dtype


def is_same(a: float | Dim | None, b: float | Dim | None) -> bool:
    """Return True if two numbers are equal, the sign of a zero included."""
    if a is None or b is None or a != b:
        return a is b
    return a != 0 or copysign(1.0, a) == copysign(1.0, b)


@dataclass(frozen=True, slots=True)
class IndexValue:
    """The value of an index expression as an int64 number (Range, causal masks)."""

    index: Affine


@dataclass(frozen=True, slots=True)
class Read:
    """A load of one tensor element; outside the tensor the value is `fill` (None: never outside).

    An index is affine in the axes, or a scalar int64 expression (Gather), which is clamped to the
    tensor.
    """

    tensor: str
    index: tuple[Affine | Expr, ...]
    fill: float | None = None

    def __eq__(self, other: object) -> bool:
        """Return True if tensor, index and fill are equal, the sign of a zero fill included."""
        if not isinstance(other, Read):
            return NotImplemented
        a, b = self.fill, other.fill
        same = self.tensor == other.tensor and (a is b or is_same(a, b))
        return same and self.index == other.index


@dataclass(frozen=True, slots=True)
class Apply:
    """A call of a scalar function.

    It is one of `SCALAR_FUNCTIONS`, `cast_<dtype>`, or `bits_<dtype>`, which reinterprets the same
    bytes as another dtype of the same size.
    """

    op: str
    args: tuple[Expr, ...]


Expr: TypeAlias = Const | IndexValue | Read | Apply


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop over `0 .. extent`."""

    name: str
    extent: Dim


@dataclass(frozen=True, slots=True)
class Compute:
    """`out[store] = combiner over reduce of expr`, or `expr` itself where nothing is reduced.

    `store` is the index written, affine in the axes, one entry a dim of `out`; empty means the axes
    themselves. Different axis values write different elements. Several computes may write disjoint
    parts of one tensor (Concat).
    """

    out: str
    axes: tuple[Axis, ...]
    expr: Expr
    reduce: tuple[Axis, ...] = ()
    combiner: str | None = None
    store: tuple[Affine, ...] = ()
    origin: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def target(self) -> tuple[Affine, ...]:
        """The index written."""
        return self.store or tuple(var(a.name) for a in self.axes)

    @property
    def is_plain(self) -> bool:
        """Return True if the axes are the dims of the tensor written, in order."""
        if not self.store:
            return True
        return [i.bare for i in self.store] == [a.name for a in self.axes]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that a kernel reads or writes."""

    name: str
    shape: Shape
    dtype: DType = "float32"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loop-level kernel: computes in order over named tensors.

    `inputs` are the tensors passed in, in order, and `outputs` those that it writes for others.
    Every other tensor is internal. `constants` (a part of `inputs`) have values known at compile
    time. `updates` are pairs of an output and an input whose memory it overwrites: elements that
    are not written keep that input's values (Relax's call_tir_inplace).

    Several outputs have one shape, and are written by one compute each, all over the same axes. One
    grid of tiles partitions them all, and the task that has written an element may read it.
    """

    name: str
    tensors: tuple[TensorSpec, ...]
    computes: tuple[Compute, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: frozenset[str] = frozenset()
    updates: tuple[tuple[str, str], ...] = ()

    @property
    def output(self) -> str:
        """The only output."""
        assert len(self.outputs) == 1, "this kernel has several outputs"
        return self.outputs[0]

    def updated(self, output: str) -> str | None:
        """Return the input whose memory an output overwrites."""
        return next((i for o, i in self.updates if o == output), None)

    def spec(self, name: str) -> TensorSpec:
        """Return the tensor of that name."""
        return _specs(self)[name]

    def shape(self, name: str) -> Shape:
        """Return the shape of a tensor."""
        return self.spec(name).shape

    def dtype(self, name: str) -> DType:
        """Return the dtype of a tensor."""
        return self.spec(name).dtype

    @property
    def origin(self) -> frozenset[str]:
        """The source operators that the computes come from."""
        return frozenset[str]().union(*(c.origin for c in self.computes))


@by_identity
def _specs(kernel: Kernel) -> Mapping[str, TensorSpec]:
    return {t.name: t for t in reversed(kernel.tensors)}


@by_identity
def reads(expr: Expr) -> tuple[Read, ...]:
    """Return every load of an expression, including those inside data-dependent indices."""
    loads: list[Read] = []
    todo: list[Expr] = [expr]
    while todo:
        match todo.pop():
            case Apply(_, args):
                todo += reversed(args)
            case Read(_, index, _) as read:
                loads.append(read)
                todo += [i for i in reversed(index) if not isinstance(i, Affine)]
    return tuple(loads)


def variables(expr: Expr) -> frozenset[str]:
    """Return the axes that an expression depends on."""
    match expr:
        case Const():
            return frozenset()
        case IndexValue(index):
            return index.variables
        case Read(_, index, _):
            every = (i.variables if isinstance(i, Affine) else variables(i) for i in index)
            return frozenset[str]().union(*every)
        case Apply(_, args):
            return frozenset[str]().union(*map(variables, args))


def rewrite(expr: Expr, leaf: Callable[[Read], Expr]) -> Expr:
    """Replace every load of an expression by `leaf(load)`.

    Data-dependent indices are rewritten first. Unchanged parts are the same objects.
    """
    match expr:
        case Apply(op, args):
            new = tuple([rewrite(a, leaf) for a in args])
            return expr if all(map(is_, new, args)) else Apply(op, new)
        case Read(tensor, index, fill):
            if all([isinstance(i, Affine) for i in index]):
                return leaf(expr)
            inner = tuple([i if isinstance(i, Affine) else rewrite(i, leaf) for i in index])
            return leaf(expr if all(map(is_, inner, index)) else Read(tensor, inner, fill))
        case Const() | IndexValue():
            return expr


def substitute(expr: Expr, values: Mapping[str, Affine]) -> Expr:
    """Replace axis variables of an expression by affine values.

    Unchanged parts are the same objects.
    """
    match expr:
        case Apply(op, args):
            new = tuple([substitute(a, values) for a in args])
            return expr if all(map(is_, new, args)) else Apply(op, new)
        case Read(tensor, index, fill):
            moved = tuple([substitute_index(i, values) for i in index])
            return expr if all(map(is_, moved, index)) else Read(tensor, moved, fill)
        case IndexValue(index):
            return IndexValue(index.substitute(values))
        case Const():
            return expr


def substitute_index(index: Affine | Expr, values: Mapping[str, Affine]) -> Affine | Expr:
    """Replace axis variables in one entry of an index."""
    return index.substitute(values) if isinstance(index, Affine) else substitute(index, values)


def rename_tensors(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    """Rename tensors of a kernel; names that are not in `names` stay."""

    def new(name: str) -> str:
        return names.get(name, name)

    def leaf(read: Read) -> Expr:
        name = new(read.tensor)
        return read if name == read.tensor else Read(name, read.index, read.fill)

    if all(new(t.name) == t.name for t in kernel.tensors):
        return kernel
    return replace(
        kernel,
        tensors=tuple(TensorSpec(new(t.name), t.shape, t.dtype) for t in kernel.tensors),
        computes=tuple(
            replace(c, out=new(c.out), expr=rewrite(c.expr, leaf)) for c in kernel.computes
        ),
        inputs=tuple(new(n) for n in kernel.inputs),
        outputs=tuple(new(n) for n in kernel.outputs),
        constants=frozenset(new(n) for n in kernel.constants),
        updates=tuple((new(o), new(i)) for o, i in kernel.updates),
    )


def result_dtype(expr: Expr, kernel: Kernel) -> DType:
    """Return the dtype of a scalar expression.

    Comparisons are bool, `where` has the dtype of its second argument, other functions that of
    their first.
    """
    match expr:
        case Const(_, dtype):
            return dtype
        case IndexValue():
            return "int64"
        case Read(tensor, _, _):
            return kernel.dtype(tensor)
        case Apply(op, args):
            return dtype_of_result(op, lambda n: result_dtype(args[n], kernel))


def axes(prefix: str, shape: Shape) -> tuple[Axis, ...]:
    """Return one axis a dim, named `<prefix>0`, `<prefix>1`, ..."""
    return tuple(Axis(f"{prefix}{i}", n) for i, n in enumerate(shape))


def at(tensor: str, over: tuple[Axis, ...], fill: float | None = None) -> Read:
    """Return the load of a tensor at these axes."""
    return Read(tensor, tuple(var(a.name) for a in over), fill)


def apply(name: str, *args: Expr | float) -> Apply:
    """Apply a scalar function; plain numbers become float32 constants."""
    return Apply(name, tuple(Const(a) if isinstance(a, (int, float)) else a for a in args))


def operations_of(expr: Expr) -> int:
    """Return the number of scalar functions in an expression, without those in its indices."""
    return 1 + sum(map(operations_of, expr.args)) if isinstance(expr, Apply) else 0


@dataclass(frozen=True, slots=True)
class Size:
    """A number of scalar functions, each occurrence counted, and their nesting depth.

    Loads at indices that are loaded count as a level of nesting.
    """

    operations: int = 0
    depth: int = 0

    def within(self, bound: Size) -> bool:
        """Return True if neither number is above the bound's."""
        return self.operations <= bound.operations and self.depth <= bound.depth


@by_identity
def size_of(kernel: Kernel) -> Size:
    """Return the operations of all computes, and the depth of the deepest."""
    sizes = [expr_size(c.expr) for c in kernel.computes]
    return Size(sum(s.operations for s in sizes), max((s.depth for s in sizes), default=0))


def expr_size(expr: Expr) -> Size:
    """Return the size of one expression."""
    match expr:
        case Apply(_, args):
            sizes = [expr_size(a) for a in args]
            operations = 1 + sum(s.operations for s in sizes)
            return Size(operations, 1 + max((s.depth for s in sizes), default=0))
        case Read(_, index, _):
            sizes = [expr_size(i) for i in index if not isinstance(i, Affine)]
            if sizes:
                return Size(sum(s.operations for s in sizes), 1 + max(s.depth for s in sizes))
    return Size()
