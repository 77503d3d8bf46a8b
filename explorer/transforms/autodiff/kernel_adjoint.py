"""Adjoints of a kernel's inputs from the adjoints of its outputs, one kernel each.

Values that live only inside the kernel are recomputed where a derivative needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from explorer.errors import UnsupportedOperator
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dims import Shape, ShapeEnv
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
from explorer.ir.program import Binding, Constant, fresh
from explorer.ir.types import DType, Tensor
from explorer.transforms.autodiff.partials import partials
from explorer.transforms.autodiff.transpose import transposed

Name = Callable[[str], str]


class KernelAdjoint:
    """The reverse of one kernel call; `bindings` are its kernels, in order."""

    def __init__(
        self,
        binding: Binding,
        adjoints: Mapping[str, Var],
        active: Collection[str],
        env: ShapeEnv,
        name: Name,
        constants: Mapping[str, Constant],
    ) -> None:
        """Seed the adjoints of the kernel's outputs, and find its active tensors."""
        call = binding.kernel_call
        self.binding, self.kernel, self.env, self.name = binding, call.kernel, env, name
        self.constants = constants
        self.scope = call.kernel
        self.bindings: list[Binding] = []
        self.values: dict[str, Var] = dict(zip(call.kernel.inputs, call.args, strict=True))
        self.values |= zip(call.kernel.outputs, binding.vars, strict=True)
        self.names: dict[str, str] = {}  # of values of the backward pass, as kernels here read them
        self.adjoints: dict[str, list[Var]] = {}
        for tensor, var in zip(call.kernel.outputs, binding.vars, strict=True):
            if var.name in adjoints:
                self.adjoints[tensor] = [adjoints[var.name]]
        inputs = zip(call.kernel.inputs, call.args, strict=True)
        self.active = _active(call.kernel, {t for t, v in inputs if v.name in active})

    def inputs(self) -> Iterator[tuple[Var, Var]]:
        """Yield each argument with each contribution to its adjoint."""
        for c in reversed(self.kernel.computes):
            contributions = self.adjoints.get(c.out)
            if contributions and c.out in self.active:
                self.compute(c, self.adjoint_of(c.out))
        for tensor, var in zip(self.kernel.inputs, self.binding.kernel_call.args, strict=True):
            for part in self.adjoints.get(tensor, ()) if tensor in self.active else ():
                yield var, part

    def adjoint_of(self, tensor: str) -> Var:
        """Return the sum of the contributions so far to a tensor's adjoint."""
        parts = self.adjoints[tensor]
        if len(parts) > 1:
            spec = self.kernel.spec(tensor)
            over = axes("i", spec.shape)
            total: Expr = at(self.tensor(parts[0]), over)
            for part in parts[1:]:
                total = Apply("add", (total, at(self.tensor(part), over)))
            total_compute = Compute("sum", over, total, origin=self.binding.origin)
            parts[:] = [self.make("sum", spec.shape, spec.dtype, [total_compute])]
        return parts[0]

    def compute(self, c: Compute, adjoint: Var) -> None:
        """Add the adjoint of each operand of a compute."""
        element_adjoint = self.reduced(c, self.read(adjoint, c))
        stored = None if c.reduce else Read(c.out, c.target)
        derivatives = partials(c.expr, element_adjoint, self.scope, self.active, stored)
        for read, expr in derivatives.items():
            spec = self.kernel.spec(read.tensor)
            out = f"d_{read.tensor}"
            parts = transposed(self.scope, c, read, expr, out, self.env)
            contribution = self.make(out, spec.shape, spec.dtype, parts)
            self.adjoints.setdefault(read.tensor, []).append(contribution)

    def read(self, adjoint: Var, c: Compute) -> Expr:
        """Return the adjoint of a compute's result; a number if it is a constant of one element."""
        constant = self.constants.get(adjoint.name)
        if constant is not None and constant.size == 1:
            return Const(constant.array.item(), adjoint.tensor.element)
        return Read(self.tensor(adjoint), c.target)

    def reduced(self, c: Compute, adjoint: Expr) -> Expr:
        """Return the adjoint of each element that a reduction combines.

        Ties of max and min share it, as in PyTorch's amax.
        """
        dtype = self.kernel.dtype(c.out)
        if not c.reduce or c.combiner in (None, "sum"):
            return adjoint
        result = Read(self.value(c.out), c.target)
        if c.combiner in ("max", "min"):
            hit = Apply("eq", (c.expr, result))
            unit, zero = Const(1.0, dtype), Const(0.0, dtype)
            count = self.add_reduction(c, "ties", Apply("where", (hit, unit, zero)), "sum")
            return Apply("where", (hit, Apply("div", (adjoint, count)), zero))
        if c.combiner == "prod":
            return Apply("mul", (adjoint, self.product_of_others(c)))
        raise UnsupportedOperator(
            f"{self.binding.name}: a reduction by {c.combiner!r} has no derivative",
            where=self.binding.name,
            expected="sum, prod, max or min",
        )

    def product_of_others(self, c: Compute) -> Expr:
        """Return the product of all other elements of a product, also if one or several are 0."""
        dtype = self.kernel.dtype(c.out)
        unit, nought = Const(1.0, dtype), Const(0.0, dtype)
        zero = Apply("eq", (c.expr, nought))
        zeros = self.add_reduction(c, "zeros", Apply("where", (zero, unit, nought)), "sum")
        nonzero_product = self.add_reduction(
            c, "rest", Apply("where", (zero, unit, c.expr)), "prod"
        )
        is_only_zero = Apply("and", (zero, Apply("eq", (zeros, unit))))
        quotient = Apply(
            "where", (Apply("eq", (zeros, nought)), Apply("div", (nonzero_product, c.expr)), nought)
        )
        return Apply("where", (is_only_zero, nonzero_product, quotient))

    def add_reduction(self, c: Compute, hint: str, expr: Expr, combiner: str) -> Read:
        """Add another reduction over the same elements, read where the first one is written."""
        spec = self.kernel.spec(c.out)
        reduction = replace(c, out=hint, expr=expr, combiner=combiner)
        return Read(self.tensor(self.make(hint, spec.shape, spec.dtype, [reduction])), c.target)

    def value(self, tensor: str) -> str:
        """Make a tensor readable here; one from inside of the kernel is recomputed."""
        if tensor not in self.values:
            spec = self.kernel.spec(tensor)
            parts = [c for c in self.kernel.computes if c.out == tensor]
            self.values[tensor] = self.make(tensor, spec.shape, spec.dtype, parts)
        return tensor

    def tensor(self, var: Var) -> str:
        """Return the name by which the kernels here read a value of the backward pass."""
        if var.name not in self.names:
            name = self.names[var.name] = fresh(f"a{len(self.names)}", self.values)
            self.values[name] = var
            spec = TensorSpec(name, var.tensor.dims, var.tensor.element)
            self.scope = replace(self.scope, tensors=(*self.scope.tensors, spec))
        return self.names[var.name]

    def make(self, hint: str, shape: Shape, dtype: DType, parts: Sequence[Compute]) -> Var:
        """Bind a kernel that computes one tensor."""
        names = dict.fromkeys(r.tensor for c in parts for r in reads(c.expr))
        for name in names:
            self.value(name)
        specs = [self.scope.spec(name) for name in names]
        var = Var(self.name(f"{self.binding.name}.{hint}"), Tensor(shape, dtype))
        out = TensorSpec(fresh(hint, names), shape, dtype)
        computes = tuple(replace(c, out=out.name, origin=self.origin(c)) for c in parts)
        constants = frozenset(n for n in names if self.values[n].name in self.constants)
        kernel = Kernel(hint, (*specs, out), computes, tuple(names), (out.name,), constants)
        call = KernelCall(kernel, tuple(self.values[n] for n in names))
        self.bindings.append(Binding((var,), call, self.binding.origin))
        return var

    def origin(self, c: Compute) -> frozenset[str]:
        """Return the source operators of a compute, or else those of the kernel call."""
        return c.origin or self.binding.origin


def _active(kernel: Kernel, inputs: Iterable[str]) -> set[str]:
    """Return the float tensors that depend on some inputs."""
    active = {*inputs}
    for c in kernel.computes:
        if is_float(kernel.dtype(c.out)) and any(r.tensor in active for r in reads(c.expr)):
            active.add(c.out)
    return active
