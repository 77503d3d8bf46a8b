"""The adjoints of what a kernel reads, from those of what it writes: one kernel each.

The values that a kernel makes and keeps inside are computed again where a derivative needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.autodiff.partials import partials
from explorer.autodiff.transpose import transposed
from explorer.errors import UnsupportedOperator
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import (
    Apply,
    Compute,
    Const,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    at,
    axes,
    reads,
)
from explorer.ir.program import Binding, Constant
from explorer.ir.shapes.dims import Shape, ShapeEnv
from explorer.ir.types import DType, Tensor
from explorer.passes.pipeline.names import fresh

Name = Callable[[str], str]


class KernelAdjoint:
    """The reverse of one kernel call; `bindings` are what it takes, in order."""

    def __init__(
        self,
        binding: Binding,
        adjoints: Mapping[str, Var],
        active: Collection[str],
        env: ShapeEnv,
        name: Name,
        constants: Mapping[str, Constant],
    ) -> None:
        call = binding.kernel_call
        self.binding, self.kernel, self.env, self.name = binding, call.kernel, env, name
        self.constants = constants
        self.scope = call.kernel
        self.bindings: list[Binding] = []
        self.values: dict[str, Var] = dict(zip(call.kernel.inputs, call.args, strict=True))
        self.values |= zip(call.kernel.outputs, binding.vars, strict=True)
        self.names: dict[str, str] = {}  # of values of the backward pass, as kernels here read them
        self.given: dict[str, list[Var]] = {}
        for tensor, var in zip(call.kernel.outputs, binding.vars, strict=True):
            if var.name in adjoints:
                self.given[tensor] = [adjoints[var.name]]
        inputs = zip(call.kernel.inputs, call.args, strict=True)
        self.active = _active(call.kernel, {t for t, v in inputs if v.name in active})

    def inputs(self) -> Iterator[tuple[Var, Var]]:
        """Each argument with what it gets of the adjoints."""
        for c in reversed(self.kernel.computes):
            found = self.given.get(c.out)
            if found and c.out in self.active:
                self.compute(c, self.whole(c.out))
        for tensor, var in zip(self.kernel.inputs, self.binding.kernel_call.args, strict=True):
            for part in self.given.get(tensor, ()) if tensor in self.active else ():
                yield var, part

    def whole(self, tensor: str) -> Var:
        """The adjoint of a tensor: the sum of what is known by now."""
        parts = self.given[tensor]
        if len(parts) > 1:
            spec = self.kernel.spec(tensor)
            over = axes("i", spec.shape)
            total: Expr = at(self.tensor(parts[0]), over)
            for part in parts[1:]:
                total = Apply("add", (total, at(self.tensor(part), over)))
            made = Compute("sum", over, total, origin=self.binding.origin)
            parts[:] = [self.make("sum", spec.shape, spec.dtype, [made])]
        return parts[0]

    def compute(self, c: Compute, adjoint: Var) -> None:
        """What one compute's reads get."""
        given = self.reduced(c, self.read(adjoint, c))
        stored = None if c.reduce else Read(c.out, c.target)
        found = partials(c.expr, given, self.scope, self.active, stored)
        for read, expr in found.items():
            spec = self.kernel.spec(read.tensor)
            out = f"d_{read.tensor}"
            parts = transposed(self.scope, c, read, expr, out, self.env)
            made = self.make(out, spec.shape, spec.dtype, parts)
            self.given.setdefault(read.tensor, []).append(made)

    def read(self, adjoint: Var, c: Compute) -> Expr:
        """The adjoint of what a compute writes; a number where it is a constant of one element."""
        known = self.constants.get(adjoint.name)
        if known is not None and known.array.size == 1:
            return Const(known.array.item(), adjoint.tensor.element)
        return Read(self.tensor(adjoint), c.target)

    def reduced(self, c: Compute, adjoint: Expr) -> Expr:
        """What each element of a reduction gets: ties of max and min share it, as PyTorch's amax
        does.
        """
        dtype = self.kernel.dtype(c.out)
        if not c.reduce or c.combiner in (None, "sum"):
            return adjoint
        result = Read(self.value(c.out), c.target)
        if c.combiner in ("max", "min"):
            hit = Apply("eq", (c.expr, result))
            one, none = Const(1.0, dtype), Const(0.0, dtype)
            count = self.beside(c, "ties", Apply("where", (hit, one, none)), "sum")
            return Apply("where", (hit, Apply("div", (adjoint, count)), none))
        if c.combiner == "prod":
            return Apply("mul", (adjoint, self.others(c)))
        raise UnsupportedOperator(
            f"{self.binding.name}: a reduction by {c.combiner!r} has no derivative",
            where=self.binding.name,
            expected="sum, prod, max or min",
        )

    def others(self, c: Compute) -> Expr:
        """The product of all other elements of a product: also where one is 0, or several are."""
        dtype = self.kernel.dtype(c.out)
        one, none = Const(1.0, dtype), Const(0.0, dtype)
        zero = Apply("eq", (c.expr, none))
        zeros = self.beside(c, "zeros", Apply("where", (zero, one, none)), "sum")
        rest = self.beside(c, "rest", Apply("where", (zero, one, c.expr)), "prod")
        alone = Apply("and", (zero, Apply("eq", (zeros, one))))
        whole = Apply("where", (Apply("eq", (zeros, none)), Apply("div", (rest, c.expr)), none))
        return Apply("where", (alone, rest, whole))

    def beside(self, c: Compute, hint: str, expr: Expr, combiner: str) -> Read:
        """Another reduction over the same elements, as it is read where the first is written."""
        spec = self.kernel.spec(c.out)
        made = replace(c, out=hint, expr=expr, combiner=combiner)
        return Read(self.tensor(self.make(hint, spec.shape, spec.dtype, [made])), c.target)

    def value(self, tensor: str) -> str:
        """A tensor that can be read here; one from inside of the kernel is computed again."""
        if tensor not in self.values:
            spec = self.kernel.spec(tensor)
            parts = [c for c in self.kernel.computes if c.out == tensor]
            self.values[tensor] = self.make(tensor, spec.shape, spec.dtype, parts)
        return tensor

    def tensor(self, var: Var) -> str:
        """A value of the backward pass as the kernels here read it."""
        if var.name not in self.names:
            name = self.names[var.name] = fresh(f"a{len(self.names)}", self.values)
            self.values[name] = var
            spec = TensorSpec(name, var.tensor.dims, var.tensor.element)
            self.scope = replace(self.scope, tensors=(*self.scope.tensors, spec))
        return self.names[var.name]

    def make(self, hint: str, shape: Shape, dtype: DType, parts: Sequence[Compute]) -> Var:
        """A kernel of its own for one tensor."""
        names = dict.fromkeys(r.tensor for c in parts for r in reads(c.expr))
        for name in names:
            self.value(name)
        specs = [self.scope.spec(name) for name in names]
        var = Var(self.name(f"{self.binding.name}.{hint}"), Tensor(shape, dtype))
        out = TensorSpec(fresh(hint, names), shape, dtype)
        computes = tuple(replace(c, out=out.name, origin=self.origin(c)) for c in parts)
        known = frozenset(n for n in names if self.values[n].name in self.constants)
        kernel = Kernel(hint, (*specs, out), computes, tuple(names), (out.name,), known)
        call = KernelCall(kernel, tuple(self.values[n] for n in names))
        self.bindings.append(Binding((var,), call, self.binding.origin))
        return var

    def origin(self, c: Compute) -> frozenset[str]:
        return c.origin or self.binding.origin


def _active(kernel: Kernel, inputs: Iterable[str]) -> set[str]:
    """The tensors of floats that depend on some inputs."""
    found = {*inputs}
    for c in kernel.computes:
        if is_float(kernel.dtype(c.out)) and any(r.tensor in found for r in reads(c.expr)):
            found.add(c.out)
    return found
