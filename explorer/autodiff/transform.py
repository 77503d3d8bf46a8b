"""Gradients become what computes them.

loss, dw = gradient f(w, x) by (0)   ->   the body of f, its result is loss
                                          what its bindings hand back, last one first; then dw
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from explorer.autodiff.calls import without_calls
from explorer.autodiff.differentiating import Surroundings
from explorer.autodiff.recursion import recurses
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
    """Gradients spelled out; `legalise` says of what loops an operator is made."""

    legalise: Callable[[Program], Program]

    def __call__(self, program: Program) -> Program:
        """After: no gradient is left. What was differentiated stands where its gradient was asked
        for, operators as operators, and behind it kernels that compute the derivatives.
        """
        if not any(isinstance(b.expr, Gradient) for _, b in program.bindings()):
            return program
        functions = {f.name: f for f in program.functions}
        around = Surroundings(functions, program.constants, program.env, self.legalise)
        spelled = _Speller(around)
        for name in functions:
            spelled.function(name)
        made = replace(
            program,
            functions=tuple(around.functions.values()),
            constants=around.constants,
            env=around.env,
            stage=max(program.stage, Stage.DIFFERENTIATED),
        )
        return remove_dead_code(made)


class _Speller:
    """Writes functions anew, those that are called before those that call them."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.seen: set[str] = set()

    def function(self, name: str) -> None:
        if name in self.seen:
            return
        self.seen.add(name)
        function = self.around.functions[name]
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
                made = self.gradient(replace(b, expr=expr), expr)
                body += _placed(made, b, bound, values, self.around)
            else:
                body.append(b if expr is b.expr else replace(b, expr=expr))
        outputs = tuple(values.get(v.name, v) for v in function.outputs)
        self.around.functions[name] = replace(function, body=tuple(body), outputs=outputs)

    def gradient(self, binding: Binding, expr: Gradient) -> tuple[Function, tuple[Var, ...]]:
        """A function of the results and the gradients, and what it is given."""
        around = self.around
        function = around.functions[expr.function]
        if recurses(function.name, around.functions):
            function = around.copy(function)  # its calls still call it
        function = without_calls(function, around)
        wrt = [function.params[n] for n in expr.wrt]
        reverse = Reverse(around, function, [p.name for p in wrt])
        count = max(1, len(expr.seeds))
        seeds = [Var(around.name(f"{binding.name}.seed"), s.type) for s in expr.seeds]
        given = seeds or [_one(around, function.outputs[0])]
        found = reverse.run(list(zip(function.outputs[:count], given)))
        made = [found[p.name] if p.name in found else reverse.zeros(p.tensor) for p in wrt]
        params = (*function.params, *seeds)
        body = (*reverse.forward, *reverse.backward)
        whole = Function(function.name, params, body, (*function.outputs, *made))
        return whole, (*expr.args, *expr.seeds)


def _one(around: Surroundings, result: Var) -> Var:
    return around.constant("one", Constant(np.ones((), numpy_dtype(result.tensor.element))))


def _placed(
    made: tuple[Function, tuple[Var, ...]],
    binding: Binding,
    bound: set[str],
    known: dict[str, Var],
    around: Surroundings,
) -> Iterable[Binding]:
    """The body of a function in the place of a binding, whose values are its results; those that
    have no shape there are `known` by the names that they have in the body.
    """
    function, args = made
    values: dict[str, Var] = {p.name: a for p, a in zip(function.params, args, strict=True)}
    inside = {v.name for b in function.body for v in b.vars}
    results: dict[str, Var] = {}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if out.name in inside and result.tensor.shape is not None:
            results.setdefault(out.name, result)
    for b in function.body:
        vars = tuple(results.get(v.name) or _free(v, bound, around) for v in b.vars)
        bound.update(v.name for v in vars)
        makes = any(v.name in results for v in b.vars)
        origin = b.origin | binding.origin if makes else b.origin
        yield Binding(vars, with_reads(b.expr, values), origin)
        values |= {v.name: new for v, new in zip(b.vars, vars, strict=True)}
    for out, result in zip(function.outputs, binding.vars, strict=True):
        if result.tensor.shape is None:
            known[result.name] = values.get(out.name, out)
        elif results.get(out.name) != result:
            yield Binding(
                (result,), OpCall("Identity", (values.get(out.name, out),)), binding.origin
            )


def _free(var: Var, bound: set[str], around: Surroundings) -> Var:
    return replace(var, name=around.name(var.name)) if var.name in bound else var
