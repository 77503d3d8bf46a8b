"""Reverse mode over a function: its bindings, then what each of them hands back, last one first.

Every value that depends on what is differentiated by has an adjoint: the derivative of the results,
times their seeds, by that value. What several readers hand back is added up (Griewank and Walther,
Evaluating Derivatives, 2008, section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from explorer.autodiff.branches import reverse_branch
from explorer.autodiff.differentiating import Surroundings, is_active_type
from explorer.autodiff.kernel_adjoint import KernelAdjoint
from explorer.autodiff.linalg import linalg_rule
from explorer.autodiff.loop_stacks import Stacked, stacking
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
    """One function being differentiated by the parameters `wrt`. `active` are the values that
    depend on these.
    """

    def __init__(self, around: Surroundings, function: Function, wrt: Iterable[str]) -> None:
        self.around, self.function = around, function
        self.active: set[str] = {*wrt}
        self.forward: list[Binding] = []
        self.backward: list[Binding] = []
        self.tape: list[Binding] = []
        self.adjoints: dict[str, list[Var]] = {}
        self.stacked: dict[str, Stacked] = {}  # by loop: what it stacks of its trips
        self.here = Binding((Var(function.name, Tensor()),), View(Var("", Tensor())))

    def inner(self, function: Function, wrt: Iterable[str]) -> Reverse:
        return Reverse(self.around, function, wrt)

    def run(self, seeds: Sequence[tuple[Var, Var]]) -> Mapping[str, Var]:
        for binding in self.function.body:
            self.here = binding
            self.record(binding)
        for result, seed in seeds:
            self.give(result, seed)
        for binding in reversed(self.tape):
            if any(map(self.given, binding.vars)):
                self.here = binding
                self.reverse(binding)
        return {p.name: self.whole(p) for p in self.function.params if self.given(p)}

    def record(self, binding: Binding) -> None:
        """A binding stays as it is, an operator that becomes several aside: what these hand on is
        needed backward.
        """
        if not any(v.name in self.active for v in binding.reads):
            self.done(binding, binding)
            return
        match binding.expr:
            case OpCall("StopGradient"):
                self.forward.append(binding)
            case OpCall() as call if rule_of(call) is None:
                lowered = self.around.lowered(binding)
                if len(lowered) == 1:
                    self.done(binding, lowered[0])
                else:
                    for step in lowered:
                        self.record(step)
            case Loop() as loop:
                made = self.stacked[binding.name] = stacking(self, binding, loop)
                for step in made.bindings:
                    self.done(step, step)
            case _:
                self.done(binding, binding)

    def done(self, binding: Binding, step: Binding) -> None:
        """What the forward pass does, and as what it is reversed."""
        if any(v.name in self.active for v in step.reads):
            self.active.update(v.name for v in step.vars if is_active_type(v))
        self.forward.append(binding)
        self.tape.append(step)

    def given(self, var: Var) -> bool:
        return bool(self.adjoints.get(var.name))

    def give(self, var: Var, adjoint: Var) -> None:
        if var.name in self.active:
            self.adjoints.setdefault(var.name, []).append(adjoint)

    def whole(self, var: Var) -> Var:
        parts = self.adjoints[var.name]
        if len(parts) > 1:
            over = axes("i", parts[0].tensor.dims)
            total: Scalar = at("x0", over)
            for n in range(1, len(parts)):
                total = Apply("add", (total, at(f"x{n}", over)))
            given = {f"x{n}": part for n, part in enumerate(parts)}
            parts[:] = [self.map("sum", over, total, given)]
        return parts[0]

    def reverse(self, binding: Binding) -> None:
        """Hand back what a binding's results were given."""
        match binding.expr:
            case KernelCall():
                self.kernel(binding)
            case OpCall() as call if (rule := rule_of(call)) is not None:
                for arg, part in rule(self, binding, self.whole(binding.vars[0])):
                    self.give(arg, part)
            case View(arg, offset):
                self.view(arg, offset, self.whole(binding.var))
            case MatchCast(arg):
                self.give(arg, self.whole(binding.var))
            case Branch() as branch:
                reverse_branch(self, binding, branch)
            case Loop():
                self.loop(binding, self.stacked[binding.name])
            case FunctionCall() as call:
                reverse_call(self, binding, call)
            case LibraryCall() as library_call if (found := linalg_rule(library_call)) is not None:
                given = tuple(self.whole(v) if self.given(v) else None for v in binding.vars)
                for arg, part in found(self, binding, given):
                    self.give(arg, part)
            case LibraryCall(library, function, _, _):
                self.refuse(f"calls {library}.{function}, of which no kernel is known")
            case _:
                return

    def kernel(self, binding: Binding) -> None:
        adjoints = {v.name: self.whole(v) for v in binding.vars if self.given(v)}
        around = self.around
        found = KernelAdjoint(
            binding, adjoints, self.active, around.env, around.name, around.constants
        )
        for arg, part in found.inputs():
            self.give(arg, part)
        self.backward += found.bindings

    def loop(self, binding: Binding, stacked: Stacked) -> None:
        """Reversed, a loop stacks no more than is read."""
        read = reverse_loop(self, binding, stacked)
        first = next(n for n, b in enumerate(self.forward) if b is binding)
        self.forward[first : first + len(stacked.bindings)] = read.bindings

    def view(self, arg: Var, offset: Dim, adjoint: Var) -> None:
        """The same bytes under the argument's shape; those that the view leaves out get nothing."""
        whole, part = product(arg.tensor.dims), product(adjoint.tensor.dims)
        if offset != 0 or not self.around.env.equal(whole, part):
            (flat,) = self.bind("flat", [Tensor((part,), arg.tensor.element)], View(adjoint))
            read = Read("x", (affine({"i": 1}, -offset),), 0.0)
            adjoint = self.map("around", (Axis("i", whole),), read, {"x": flat})
        (made,) = self.bind("d", [arg.tensor], View(adjoint))
        self.give(arg, made)

    def zeros(self, like: Tensor) -> Var:
        over = axes("i", like.dims)
        return self.map("zeros", over, Const(0.0, like.element), {}, like.element)

    def map(
        self,
        hint: str,
        over: tuple[Axis, ...],
        expr: Scalar,
        given: Mapping[str, Var],
        dtype: str = "",
    ) -> Var:
        element = dtype or next(iter(given.values())).tensor.element
        shape = tuple(a.extent for a in over)
        specs = [TensorSpec(n, v.tensor.dims, v.tensor.element) for n, v in given.items()]
        made = Compute("y", over, expr, origin=self.here.origin)
        out = TensorSpec("y", shape, element)
        kernel = Kernel(hint, (*specs, out), (made,), tuple(given), ("y",))
        call = KernelCall(kernel, tuple(given.values()))
        (found,) = self.bind(hint, [Tensor(shape, element)], call)
        return found

    def bind(self, hint: str, types: Sequence[Tensor], expr: Expr) -> tuple[Var, ...]:
        wish = f"{self.here.name}.{hint}"
        vars = tuple(Var(self.around.name(wish), t) for t in types)
        self.backward.append(Binding(vars, expr, self.here.origin))
        return vars

    def refuse(self, why: str) -> NoReturn:
        where = min(self.here.origin, default=self.here.name)
        raise UnsupportedOperator(
            f"{where} {why}: it has no derivative",
            where=where,
            expected="operators that are kernels",
            try_="leave it out of what the gradient is taken of, or write it in other operators",
        )
