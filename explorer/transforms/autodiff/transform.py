"""Lowering of gradients to the bindings that compute them, by reverse mode over functions.

    loss, dw = gradient f(w, x) by (0)   ->   the body of f, its result is loss
                                              the adjoints of its bindings, last first; then dw

Every active value has an adjoint: the derivative of the seeded results with respect to it.
Contributions of several readers are added up (Griewank and Walther, Evaluating Derivatives, 2008,
section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from explorer.errors import UnsupportedOperator
from explorer.ir.affine import affine
from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    Var,
    View,
)
from explorer.ir.dims import Dim, product
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, TensorSpec, at, axes
from explorer.ir.kernel import Expr as Scalar
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor, numpy_dtype
from explorer.transforms.autodiff.autodiff_context import AutodiffContext, is_active_type
from explorer.transforms.autodiff.calls import (
    inline_calls,
    is_recursive,
    reverse_branch,
    reverse_call,
)
from explorer.transforms.autodiff.kernel_adjoint import KernelAdjoint
from explorer.transforms.autodiff.linalg import linalg_rule
from explorer.transforms.autodiff.loop_stacks import Stacked, stack_for_reverse
from explorer.transforms.autodiff.loops import reverse_loop
from explorer.transforms.autodiff.rules import rule_of
from explorer.transforms.simplify.redundancy import remove_dead_code
from explorer.transforms.simplify.substitution import with_reads


def differentiated(program: Program, legalise: Callable[[Program], Program]) -> Program:
    """Return the program with every gradient replaced by the bindings that compute it."""
    functions = {f.name: f for f in program.functions}
    context = AutodiffContext(functions, program.constants, program.env, legalise)
    rewriter = _GradientRewriter(context)
    for name in functions:
        rewriter.function(name)
    result = replace(
        program,
        functions=tuple(context.functions.values()),
        constants=context.constants,
        env=context.env,
        stage=max(program.stage, Stage.DIFFERENTIATED),
    )
    return remove_dead_code(result)


class _GradientRewriter:
    """Rewrites functions, callees before callers."""

    def __init__(self, context: AutodiffContext) -> None:
        """Start with no function visited."""
        self.context = context
        self.seen: set[str] = set()

    def function(self, name: str) -> None:
        """Replace the gradients in one function, after those in its callees."""
        if name in self.seen:
            return
        self.seen.add(name)
        function = self.context.functions[name]
        for called in (n for b in function.body for n in b.calls):
            self.function(called)
        if not any(isinstance(b.expr, Gradient) for b in function.body):
            return
        values: dict[str, Var] = {}
        body: list[Binding] = []
        bound = {v.name for v in (*function.params, *(v for b in function.body for v in b.vars))}
        for b in function.body:
            expr = with_reads(b.expr, values)
            if isinstance(expr, Gradient):
                gradient = self.gradient(replace(b, expr=expr), expr)
                body += _inline(gradient, b, bound, values, self.context)
            else:
                body.append(b if expr is b.expr else replace(b, expr=expr))
        outputs = tuple(values.get(v.name, v) for v in function.outputs)
        self.context.functions[name] = replace(function, body=tuple(body), outputs=outputs)

    def gradient(self, binding: Binding, expr: Gradient) -> tuple[Function, tuple[Var, ...]]:
        """Return a function of the results and the gradients, with its arguments."""
        context = self.context
        function = context.functions[expr.function]
        if is_recursive(function.name, context.functions):
            function = context.copy(function)  # its calls still call it
        function = inline_calls(function, context)
        wrt = [function.params[n] for n in expr.wrt]
        reverse = Reverse(context, function, [p.name for p in wrt])
        count = max(1, len(expr.seeds))
        seeds = [Var(context.name(f"{binding.name}.seed"), s.type) for s in expr.seeds]
        adjoints = seeds or [_unit_seed(context, function.outputs[0])]
        gradients = reverse.run(list(zip(function.outputs[:count], adjoints)))
        outputs = [
            gradients[p.name] if p.name in gradients else reverse.zeros(p.tensor) for p in wrt
        ]
        params = (*function.params, *seeds)
        body = (*reverse.forward, *reverse.backward)
        joint = Function(function.name, params, body, (*function.outputs, *outputs))
        return joint, (*expr.args, *expr.seeds)


def _unit_seed(context: AutodiffContext, result: Var) -> Var:
    return context.constant("one", Constant(np.ones((), numpy_dtype(result.tensor.element))))


def _inline(
    gradient: tuple[Function, tuple[Var, ...]],
    binding: Binding,
    bound: set[str],
    replacements: dict[str, Var],
    context: AutodiffContext,
) -> Iterable[Binding]:
    """Yield a function's body in place of a binding, whose values are its results.

    Results without a shape there are entered in `replacements` by their names, with the body's
    values.
    """
    function, args = gradient
    values: dict[str, Var] = {p.name: a for p, a in zip(function.params, args, strict=True)}
    inside = {v.name for b in function.body for v in b.vars}
    results: dict[str, Var] = {}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if out.name in inside and result.tensor.shape is not None:
            results.setdefault(out.name, result)
    for b in function.body:
        vars = tuple(results.get(v.name) or _free(v, bound, context) for v in b.vars)
        bound.update(v.name for v in vars)
        makes = any(v.name in results for v in b.vars)
        origin = b.origin | binding.origin if makes else b.origin
        yield Binding(vars, with_reads(b.expr, values), origin)
        values |= {v.name: new for v, new in zip(b.vars, vars, strict=True)}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if result.tensor.shape is None:
            replacements[result.name] = values.get(out.name, out)
        elif results.get(out.name) != result:
            yield Binding(
                (result,), OpCall("Identity", (values.get(out.name, out),)), binding.origin
            )


def _free(var: Var, bound: set[str], context: AutodiffContext) -> Var:
    return replace(var, name=context.name(var.name)) if var.name in bound else var


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
