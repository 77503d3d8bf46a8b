"""Lowering of an operator to bindings: loop nests, views, constants and temporaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall, ShapeOf, Var, View
from explorer.ir.dims import Dim, Shape
from explorer.ir.kernel import Axis, Compute, Const, Expr, Kernel, Read, TensorSpec, reads
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding, Constant, Function, fresh
from explorer.ir.types import DType, Tensor
from explorer.ops.record import Array, Site

LETTERS = "ijklmnpq"
UNROLL = 32  # steps of a recurrent layer: there a loop is as fast, and compiles sooner
Number = bool | int | float


class Lowering:
    """One operator being lowered: its site, the results to bind, and the bindings so far."""

    def __init__(
        self,
        site: Site,
        results: tuple[Var, ...],
        origin: frozenset[str],
        constants: Mapping[str, Constant],
        read: Callable[[str], bool],
        taken: set[str],
        unroll: int = UNROLL,
    ) -> None:
        """Start without bindings; `read` tells which results are read.

        `taken` are the names of the program's values and constants; those of new ones are added.
        """
        self.site, self.results, self.origin, self.is_read = site, results, origin, read
        self.outer_constants, self.taken, self.unroll = constants, taken, unroll
        self.constants: dict[str, Constant] = {}
        self.bindings: list[Binding] = []
        self.functions: list[Function] = []

    def lowering_of(
        self,
        site: Site,
        results: tuple[Var, ...],
        constants: Mapping[str, Constant],
        read: Callable[[str], bool] | None = None,
    ) -> Lowering:
        """Start to lower another operator in place of this one."""
        read = read or self.is_read
        return Lowering(site, results, self.origin, constants, read, self.taken, self.unroll)

    def within(self, hint: str) -> Lowering:
        """Start a body of this operator; its values are named by `hint`."""
        inner = tuple(Var(self.name(hint, r), r.type) for r in self.results)
        return self.lowering_of(self.site, inner, {**self.outer_constants, **self.constants})

    def function(
        self, body: Lowering, params: Sequence[Var], outputs: Sequence[Var]
    ) -> tuple[str, tuple[Var, ...]]:
        """Make a body a function with these parameters.

        Return its name, and the outer values that it reads, which are its last parameters.
        """
        own = {v.name for v in params} | {v.name for b in body.bindings for v in b.vars}
        read = dict.fromkeys(v for b in body.bindings for v in b.reads if v.name not in own)
        args = tuple(v for v in read if body.constant_of(v) is None)
        body_function = Function(
            body.result.name, (*params, *args), tuple(body.bindings), tuple(outputs)
        )
        self.functions.append(body_function)
        self.constants.update(body.constants)
        return body_function.name, args

    def absorb(self, other: Lowering) -> None:
        """Take over the bindings, functions and constants of another lowering."""
        self.constants.update(other.constants)
        self.bindings += other.bindings
        self.functions += other.functions

    def steps(self, value: Var) -> tuple[Dim, ...] | None:
        """Return the broadcast steps along an argument's dims, if the host computes them."""
        rows: Any = self.site.attrs.get("steps") if "extents" in self.site.attrs else None
        if rows is None or value not in self.site.args:
            return None
        return tuple(rows[self.site.args.index(value)])

    @property
    def result(self) -> Var:
        """The first value to bind."""
        return self.results[0]

    @property
    def shape(self) -> Shape:
        """The shape of the first value to bind."""
        return shape_of(self.result)

    def least(self, extent: Dim) -> int:
        """Return the least value that an extent can have."""
        return self.site.env.bounds(extent)[0]

    def constant_of(self, value: Var) -> Constant | None:
        """Return a constant of the program or of this operator, or None for another value."""
        return self.outer_constants.get(value.name) or self.constants.get(value.name)

    def array(self, value: Var) -> Array | None:
        """Return the value of a constant, or None."""
        constant = self.constant_of(value)
        return None if constant is None else constant.array

    def scalar(self, value: Var) -> Number | None:
        """Return the value of a constant of one element, or None."""
        constant = self.constant_of(value)
        if constant is None or constant.size != 1:
            return None
        number: Number = constant.array.reshape(()).item()
        return number

    def constant(self, value: Array | Constant, hint: str) -> Var:
        """Add a constant to the program."""
        constant = value if isinstance(value, Constant) else Constant(np.asarray(value))
        variable = Var(self.name(hint), constant.type)
        self.constants[variable.name] = constant
        return variable

    def temporary(self, hint: str, shape: Shape, dtype: DType) -> Var:
        """Return a new intermediate value."""
        return Var(self.name(hint), Tensor(tuple(shape), dtype))

    def name(self, hint: str, of: Var | None = None) -> str:
        """Return a name that the program does not have yet: a model may name its own values so."""
        name = fresh(f"{(of or self.result).name}.{hint}", self.taken)
        self.taken.add(name)
        return name

    def bind(self, result: Var, expr: KernelCall | View | ShapeOf) -> Var:
        """Bind a value."""
        self.bindings.append(Binding((result,), expr, self.origin))
        return result

    def view(self, result: Var, arg: Var, offset: Dim = 0) -> Var:
        """Bind the same bytes in another shape."""
        return self.bind(result, View(arg, offset))

    def nest(self, name: str) -> Nest:
        """Start a kernel."""
        return Nest(self, name)


class Nest:
    """A kernel being written: computes over arguments that are read by short names."""

    def __init__(self, lowering: Lowering, name: str) -> None:
        """Start without computes."""
        self.lowering, self.name = lowering, name
        self.args: dict[str, Var] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.computes: list[Compute] = []

    def tensor(self, value: Var, name: str) -> str:
        """Return the short name of an argument; equal arguments share one."""
        for short, arg in self.args.items():
            if arg == value:
                return short
        fresh, count = name, 1
        while fresh in self.specs:
            count += 1
            fresh = f"{name}{count}"
        self.args[fresh] = value
        self.specs[fresh] = TensorSpec(fresh, value.tensor.dims, value.tensor.element)
        return fresh

    def load(
        self, value: Var, name: str, index: Sequence[Affine | Scalar], fill: float | None = None
    ) -> Expr:
        """Load one element of an argument; a constant of one element becomes a number."""
        number = self.lowering.scalar(value) if fill is None else None
        if number is not None:
            return Const(number, value.tensor.element)
        return Read(self.tensor(value, name), tuple(index), fill)

    def along(self, value: Var, name: str, axes: Sequence[Axis]) -> Expr:
        """Load the element of an argument that NumPy's broadcasting aligns with these axes."""
        shape = value.tensor.dims
        if len(shape) > len(axes):
            raise ValueError(f"{value.name!r} of rank {len(shape)} is read along {len(axes)} axes")
        last = axes[len(axes) - len(shape) :]
        index = [entry(a, n) for a, n in zip(last, shape, strict=True)]
        steps = self.lowering.steps(value)
        if steps is not None:
            index = [i * step for i, step in zip(index, steps, strict=True)]
        return self.load(value, name, index)

    def compute(
        self,
        out: str,
        shape: Shape,
        dtype: DType,
        axes: Sequence[Axis],
        expr: Expr,
        reduce: Sequence[Axis] = (),
        combiner: str | None = None,
        store: Sequence[Affine] = (),
    ) -> str:
        """Add a compute that writes a tensor or a part; the last one's tensor is the result."""
        self.specs[out] = TensorSpec(out, tuple(shape), dtype)
        origin = self.lowering.origin
        self.computes.append(
            Compute(out, tuple(axes), expr, tuple(reduce), combiner, tuple(store), origin)
        )
        return out

    def map(self, out: str, result: Var, expr: Callable[[tuple[Axis, ...]], Expr]) -> Var:
        """Add an elementwise compute of a result, and bind the result to the kernel."""
        axes = letters(result.tensor.dims)
        self.compute(out, result.tensor.dims, result.tensor.element, axes, expr(axes))
        return self.into(result)

    def into(self, result: Var) -> Var:
        """Bind a value to the kernel written so far, without dead computes."""
        self.bind_outputs({self.computes[-1].out: result})
        return result

    def bind_outputs(self, results: Mapping[str, Var]) -> None:
        """Bind values, by their tensors, to the kernel written so far, without dead computes."""
        self.computes = _needed(self.computes, results)
        read = {r.tensor for c in self.computes for r in reads(c.expr)}
        self.args = {n: v for n, v in self.args.items() if n in read}
        constants = frozenset(
            n for n, v in self.args.items() if self.lowering.constant_of(v) is not None
        )
        order = (*self.args, *dict.fromkeys(c.out for c in self.computes))
        kernel = Kernel(
            self.name,
            tuple(self.specs[n] for n in order),
            tuple(self.computes),
            tuple(self.args),
            tuple(results),
            constants,
        )
        call, low = KernelCall(kernel, tuple(self.args.values())), self.lowering
        low.bindings.append(Binding(tuple(results.values()), call, low.origin))


def _needed(computes: Sequence[Compute], tensors: Iterable[str]) -> list[Compute]:
    """Return the computes that some tensors depend on."""
    needed = {*tensors}
    live: list[Compute] = []
    for compute in reversed(computes):
        if compute.out in needed:
            live.append(compute)
            needed.update(r.tensor for r in reads(compute.expr))
    return live[::-1]


def shape_of(value: Var) -> Shape:
    """Return the shape of a value."""
    return value.tensor.dims


def entry(axis: Axis, extent: Dim) -> Affine:
    """Return the index along an axis into a dim that may be broadcast."""
    return Affine() if extent == 1 else var(axis.name)


def letters(shape: Shape) -> tuple[Axis, ...]:
    """Return an axis for each dim: i, j, k, ..."""
    names = LETTERS if len(shape) <= len(LETTERS) else tuple(f"i{d}" for d in range(len(shape)))
    return tuple(Axis(n, e) for n, e in zip(names, shape, strict=False))


def at(
    name: str, axes: Sequence[Axis], shape: Shape | None = None, fill: float | None = None
) -> Read:
    """Load an inner tensor at these axes."""
    dims = shape or tuple(a.extent for a in axes)
    return Read(name, tuple(entry(a, n) for a, n in zip(axes, dims, strict=True)), fill)
