"""Inlining of calls that only Python could follow otherwise.

f(x): y = call g(x + 1);  g(a): b = call f(a * 2); c = b - 1
->  f(x): a = x + 1; b = call f(a * 2); y = b - 1

Mutually recursive functions become one recursive function, whose frames hold the values of the
others. The symbols of an inlined function are renamed to those of its caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.grinder.calls.inline_policy import MOST_BINDINGS, Inlining, SymbolMap, decide_inlining
from explorer.ir.calls import Branch, Expr, FunctionCall, Loop, Var
from explorer.ir.program import Binding, Function, Program
from explorer.passes.pipeline.names import fresh
from explorer.passes.simplify.dead_code import called_functions
from explorer.passes.simplify.dropped_origins import record_dropped
from explorer.passes.simplify.substitution import with_reads
from explorer.passes.simplify.symbol_values import with_symbols

Values = dict[str, Var]  # a function's own names -> their replacements


def inline_calls(program: Program) -> Program:
    """Inline mutual recursion, and calls whose shapes differ from the callee's declaration.

    After: one function of each set of mutually recursive functions is left, where possible; and the
    shapes of a call of a function that is not recursive are the callee's own symbols.
    """
    if not any(isinstance(b.expr, FunctionCall) for _, b in program.bindings()):
        return program
    decisions = decide_inlining({f.name: f for f in program.functions})
    rewritten = _Inliner(decisions).rewrite_all()
    if all(new is old for new, old in zip(rewritten.values(), program.functions)):
        return program
    unpruned = replace(program, functions=tuple(rewritten.values()))
    after = replace(unpruned, functions=tuple(called_functions(unpruned)))
    return record_dropped(program, after, "nothing reads it")


class _Inliner:
    """Rewriter of functions; arms and bodies with renamed symbols become new functions."""

    def __init__(self, decisions: Inlining) -> None:
        self.decisions, self.functions = decisions, decisions.functions
        self.new_functions: dict[str, Function] = {}
        self.specializations: dict[tuple[str, str], str] = {}  # by name and renaming
        self.remaining_bindings = MOST_BINDINGS

    def rewrite_all(self) -> dict[str, Function]:
        """Return all functions: the rewritten ones, then the new ones."""
        rewritten = {name: self.rewrite(function) for name, function in self.functions.items()}
        return rewritten | self.new_functions

    def rewrite(self, function: Function) -> Function:
        """Return a function with its calls inlined; the same object if none is."""
        body, values = self.body(function, {}, {}, "")
        if all(new is old for new, old in zip(body, function.body)):
            return function
        outputs = tuple(values.get(v.name, v) for v in function.outputs)
        return replace(function, body=body, outputs=outputs)

    def body(
        self, function: Function, renaming: SymbolMap, values: Values, path: str
    ) -> tuple[tuple[Binding, ...], Values]:
        """Return the bindings of a function under a renaming, and the values of its names.

        `path` is the prefix of the function's own names.
        """
        values, body = dict(values), list[Binding]()
        for b in function.body:
            expr = with_reads(b.expr, values)
            vars = tuple(replace(v, name=f"{path}{v.name}") for v in b.vars)
            own = self.renaming_of(expr, vars)
            if isinstance(expr, FunctionCall) and own is not None:
                inside, replacements = self.inline_call(expr, own, f"{vars[0].name}.")
                body += _extend_origins(b.origin, inside, replacements)
            else:
                new = Binding(vars, self.specialize_bodies(expr, renaming), b.origin)
                body.append(b if new == b else new)
                replacements = vars
            values |= {v.name: new for v, new in zip(b.vars, replacements, strict=True) if v != new}
        return tuple(body), values

    def renaming_of(self, expr: Expr, results: Sequence[Var]) -> SymbolMap | None:
        """Return the symbol renaming of a call to inline, while the limit on bindings allows it."""
        if not isinstance(expr, FunctionCall):
            return None
        size = len(self.functions[expr.function].body)
        own = self.decisions.renaming_of(expr, results) if size <= self.remaining_bindings else None
        self.remaining_bindings -= size if own is not None else 0
        return own

    def inline_call(
        self, call: FunctionCall, renaming: SymbolMap, path: str
    ) -> tuple[tuple[Binding, ...], tuple[Var, ...]]:
        """Return the bindings that replace a call, and its results."""
        function = with_symbols(self.functions[call.function], renaming)
        arguments = {p.name: a for p, a in zip(function.params, call.args, strict=True)}
        body, values = self.body(function, renaming, arguments, path)
        return body, tuple(values.get(v.name, v) for v in function.outputs)

    def specialize_bodies(self, expr: Expr, renaming: SymbolMap) -> Expr:
        """Return a branch or loop whose arms or body are specialised to a renaming."""
        match expr:
            case Branch(then=then, orelse=orelse) if renaming:
                return replace(
                    expr,
                    then=self.specialize(then, renaming),
                    orelse=self.specialize(orelse, renaming),
                )
            case Loop(body=body) if renaming:
                return replace(expr, body=self.specialize(body, renaming))
        return expr

    def specialize(self, name: str, renaming: SymbolMap) -> str:
        """Return the name of an arm or body under a renaming; create the function on first use."""
        key = name, str(sorted((s, str(d)) for s, d in renaming.items()))
        if key not in self.specializations:
            taken = {*self.functions, *self.specializations.values()}
            new = self.specializations[key] = fresh(f"{name}.as", taken)
            function = with_symbols(self.functions[name], renaming)
            params = tuple(replace(p, name=f"{new}.{p.name}") for p in function.params)
            arguments = {p.name: q for p, q in zip(function.params, params, strict=True)}
            body, values = self.body(function, renaming, arguments, f"{new}.")
            outputs = tuple(values.get(v.name, v) for v in function.outputs)
            self.new_functions[new] = Function(new, params, body, outputs, function.output_names)
        return self.specializations[key]


def _extend_origins(
    origin: frozenset[str], body: Sequence[Binding], results: Sequence[Var]
) -> Iterator[Binding]:
    """Yield the bindings; those that compute results get the call's origin too."""
    for b in body:
        makes = any(v in results for v in b.vars)
        yield replace(b, origin=b.origin | origin) if makes else b
