"""Reverse mode over a function: its bindings, then their adjoints, last binding first.

Every active value has an adjoint: the derivative of the seeded results with respect to it.
Contributions of several readers are added up (Griewank and Walther, Evaluating Derivatives, 2008,
section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from explorer.autodiff.branches import reverse_branch
from explorer.autodiff.differentiating import AutodiffContext, is_active_type
from explorer.autodiff.kernel_adjoint import KernelAdjoint
from explorer.autodiff.linalg import linalg_rule
from explorer.autodiff.loop_stacks import Stacked, stack_for_reverse
from explorer.autodiff.loops import reverse_loop
from explorer.autodiff.recursion import reverse_call
from explorer.autodiff.rules import rule_of
from explorer.errors import UnsupportedOperator
from explorer.ir.affine import affine
from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    Var,
    View,
)
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, TensorSpec, at, axes
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding, Function
from explorer.ir.shapes.dims import Dim, product
from explorer.ir.types import Tensor


class Reverse:
    """One function being differentiated with respect to the parameters `wrt`.

    `active` are the values that depend on these.
    """

    def __init__(self, context: AutodiffContext, function: Function, wrt: Iterable[str]) -> None:
        """Start with an empty tape; only the parameters `wrt` are active."""
        self.context, self.function = context, function
        self.active: set[str] = {*wrt}
        self.forward: list[Binding] = []
        self.backward: list[Binding] = []
        self.tape: list[Binding] = []
        self.adjoints: dict[str, list[Var]] = {}
        self.stacked: dict[str, Stacked] = {}  # by loop
        self.current = Binding((Var(function.name, Tensor()),), View(Var("", Tensor())))

    def inner(self, function: Function, wrt: Iterable[str]) -> Reverse:
        """Start to differentiate another function of the same program."""
        return Reverse(self.context, function, wrt)

    def run(self, seeds: Sequence[tuple[Var, Var]]) -> Mapping[str, Var]:
        """Record the forward pass, seed the results, and reverse the tape."""
        for binding in self.function.body:
            self.current = binding
            self.record(binding)
        for result, seed in seeds:
            self.add_adjoint(result, seed)
        for binding in reversed(self.tape):
            if any(map(self.has_adjoint, binding.vars)):
                self.current = binding
                self.reverse(binding)
        return {p.name: self.adjoint_of(p) for p in self.function.params if self.has_adjoint(p)}

    def record(self, binding: Binding) -> None:
        """Add a binding to the forward pass and to the tape.

        An operator without a rule is lowered for the tape. If it lowers to several bindings, these
        replace it in the forward pass as well, since the backward pass reads the values between
        them.
        """
        if not any(v.name in self.active for v in binding.reads):
            self.append(binding, binding)
            return
        match binding.expr:
            case OpCall("StopGradient"):
                self.forward.append(binding)
            case OpCall() as call if rule_of(call) is None:
                lowered = self.context.lower(binding)
                if len(lowered) == 1:
                    self.append(binding, lowered[0])
                else:
                    for step in lowered:
                        self.record(step)
            case Loop() as loop:
                stacked = self.stacked[binding.name] = stack_for_reverse(self, binding, loop)
                for step in stacked.bindings:
                    self.append(step, step)
            case _:
                self.append(binding, binding)

    def append(self, binding: Binding, step: Binding) -> None:
        """Append a binding to the forward pass, and the binding that is reversed to the tape."""
        if any(v.name in self.active for v in step.reads):
            self.active.update(v.name for v in step.vars if is_active_type(v))
        self.forward.append(binding)
        self.tape.append(step)

    def has_adjoint(self, var: Var) -> bool:
        """Return True if a value has an adjoint."""
        return bool(self.adjoints.get(var.name))

    def add_adjoint(self, var: Var, adjoint: Var) -> None:
        """Add a contribution to the adjoint of an active value."""
        if var.name in self.active:
            self.adjoints.setdefault(var.name, []).append(adjoint)

    def adjoint_of(self, var: Var) -> Var:
        """Return the sum of a value's adjoint contributions."""
        parts = self.adjoints[var.name]
        if len(parts) > 1:
            over = axes("i", parts[0].tensor.dims)
            total: Scalar = at("x0", over)
            for n in range(1, len(parts)):
                total = Apply("add", (total, at(f"x{n}", over)))
            inputs = {f"x{n}": part for n, part in enumerate(parts)}
            parts[:] = [self.map("sum", over, total, inputs)]
        return parts[0]

    def reverse(self, binding: Binding) -> None:
        """Add to the adjoints of a binding's operands."""
        match binding.expr:
            case KernelCall():
                self.kernel(binding)
            case OpCall() as call if (rule := rule_of(call)) is not None:
                for arg, part in rule(self, binding, self.adjoint_of(binding.vars[0])):
                    self.add_adjoint(arg, part)
            case View(arg, offset):
                self.view(arg, offset, self.adjoint_of(binding.var))
            case MatchCast(arg):
                self.add_adjoint(arg, self.adjoint_of(binding.var))
            case Branch() as branch:
                reverse_branch(self, binding, branch)
            case Loop():
                self.loop(binding, self.stacked[binding.name])
            case FunctionCall() as call:
                reverse_call(self, binding, call)
            case LibraryCall() as library_call if (
                library_rule := linalg_rule(library_call)
            ) is not None:
                seeds = tuple(
                    self.adjoint_of(v) if self.has_adjoint(v) else None for v in binding.vars
                )
                for arg, part in library_rule(self, binding, seeds):
                    self.add_adjoint(arg, part)
            case LibraryCall(library, function, _, _):
                self.refuse(f"calls {library}.{function}, which has no kernel")
            case _:
                return

    def kernel(self, binding: Binding) -> None:
        """Reverse a kernel call."""
        adjoints = {v.name: self.adjoint_of(v) for v in binding.vars if self.has_adjoint(v)}
        context = self.context
        kernel_adjoint = KernelAdjoint(
            binding, adjoints, self.active, context.env, context.name, context.constants
        )
        for arg, part in kernel_adjoint.inputs():
            self.add_adjoint(arg, part)
        self.backward += kernel_adjoint.bindings

    def loop(self, binding: Binding, stacked: Stacked) -> None:
        """Reverse a loop, and drop the stacked rows that nothing reads."""
        read = reverse_loop(self, binding, stacked)
        first = next(n for n, b in enumerate(self.forward) if b is binding)
        self.forward[first : first + len(stacked.bindings)] = read.bindings

    def view(self, arg: Var, offset: Dim, adjoint: Var) -> None:
        """Reverse a view: the same bytes in the argument's shape, 0 where the view has no bytes."""
        elements, view_elements = product(arg.tensor.dims), product(adjoint.tensor.dims)
        if offset != 0 or not self.context.env.equal(elements, view_elements):
            (flat,) = self.bind(
                "flat", [Tensor((view_elements,), arg.tensor.element)], View(adjoint)
            )
            read = Read("x", (affine({"i": 1}, -offset),), 0.0)
            adjoint = self.map("around", (Axis("i", elements),), read, {"x": flat})
        (contribution,) = self.bind("d", [arg.tensor], View(adjoint))
        self.add_adjoint(arg, contribution)

    def zeros(self, like: Tensor) -> Var:
        """Bind a tensor of zeros."""
        over = axes("i", like.dims)
        return self.map("zeros", over, Const(0.0, like.element), {}, like.element)

    def map(
        self,
        hint: str,
        over: tuple[Axis, ...],
        expr: Scalar,
        inputs: Mapping[str, Var],
        dtype: str = "",
    ) -> Var:
        """Bind an elementwise kernel of `inputs`, which `expr` reads by name."""
        element = dtype or next(iter(inputs.values())).tensor.element
        shape = tuple(a.extent for a in over)
        specs = [TensorSpec(n, v.tensor.dims, v.tensor.element) for n, v in inputs.items()]
        compute = Compute("y", over, expr, origin=self.current.origin)
        out = TensorSpec("y", shape, element)
        kernel = Kernel(hint, (*specs, out), (compute,), tuple(inputs), ("y",))
        call = KernelCall(kernel, tuple(inputs.values()))
        (result,) = self.bind(hint, [Tensor(shape, element)], call)
        return result

    def bind(self, hint: str, types: Sequence[Tensor], expr: Expr) -> tuple[Var, ...]:
        """Bind values of the backward pass."""
        wish = f"{self.current.name}.{hint}"
        vars = tuple(Var(self.context.name(wish), t) for t in types)
        self.backward.append(Binding(vars, expr, self.current.origin))
        return vars

    def refuse(self, why: str) -> NoReturn:
        """Raise UnsupportedOperator with the source operator."""
        where = min(self.current.origin, default=self.current.name)
        raise UnsupportedOperator(
            f"{where} {why}: it has no derivative",
            where=where,
            expected="operators that are kernels",
            try_="leave it out of what the gradient is taken of, or write it in other operators",
        )
