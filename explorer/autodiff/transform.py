"""Lowering of gradients to the bindings that compute them.

loss, dw = gradient f(w, x) by (0)   ->   the body of f, its result is loss
                                          the adjoints of its bindings, last first; then dw
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from explorer.autodiff.calls import inline_calls
from explorer.autodiff.differentiating import AutodiffContext
from explorer.autodiff.recursion import is_recursive
from explorer.autodiff.reverse import Reverse
from explorer.ir.calls import Gradient, OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import numpy_dtype
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.simplify.dead_code import remove_dead_code
from explorer.passes.simplify.substitution import with_reads


@compiler_pass(
    "differentiate", paper="Griewank and Walther 2008, Evaluating Derivatives, chapter 3"
)
@dataclass(frozen=True, slots=True)
class Differentiate:
    """Gradients as explicit bindings; `legalise` lowers an operator to loop nests."""

    legalise: Callable[[Program], Program]

    def __call__(self, program: Program) -> Program:
        """Replace every gradient.

        After: no gradient is left. The differentiated function is inlined with its operators,
        followed by kernels that compute the derivatives.
        """
        if not any(isinstance(b.expr, Gradient) for _, b in program.bindings()):
            return program
        functions = {f.name: f for f in program.functions}
        context = AutodiffContext(functions, program.constants, program.env, self.legalise)
        rewriter = _GradientRewriter(context)
        for name in functions:
            rewriter.function(name)
        differentiated = replace(
            program,
            functions=tuple(context.functions.values()),
            constants=context.constants,
            env=context.env,
            stage=max(program.stage, Stage.DIFFERENTIATED),
        )
        return remove_dead_code(differentiated)


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
