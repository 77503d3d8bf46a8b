"""Inlining of calls that only Python could follow otherwise.

f(x): y = call g(x + 1);  g(a): b = call f(a * 2); c = b - 1
->  f(x): a = x + 1; b = call f(a * 2); y = b - 1

Mutually recursive functions become one recursive function, whose frames hold the values of the
others. A function that is not recursive is inlined where the shapes of a call differ from its own
symbols, which are renamed to those of its caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from explorer.grinder.recursion import (
    Functions,
    SymbolMap,
    call_cycles,
    defines_symbols_at_run_time,
    match_symbols,
    select_cycle_head,
)
from explorer.ir.annotations import instantiate
from explorer.ir.calls import Branch, Expr, FunctionCall, Loop, Var
from explorer.ir.program import Binding, Function, Program, fresh
from explorer.transforms.simplify.redundancy import called_functions, record_dropped
from explorer.transforms.simplify.substitution import with_reads, with_symbols

MOST_BINDINGS = 4096  # inlined in a program: a bound on its size, chosen
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


@dataclass(frozen=True, slots=True)
class Inlining:
    """The functions that stay recursive, and those that are inlined."""

    functions: Functions
    recursive: frozenset[str] = frozenset()
    inlined: frozenset[str] = frozenset()
    # functions that define symbols at run time
    run_time: frozenset[str] = field(default=frozenset())

    def renaming_of(self, call: FunctionCall, results: Sequence[Var]) -> SymbolMap | None:
        """Return the renaming of the callee's symbols for a call to inline.

        Return None if the call stays.
        """
        called = self.functions[call.function]
        if called.name in self.recursive or called.name in self.run_time:
            return None
        renaming = match_symbols(called.params, [a.type for a in call.args])
        call_types = [v.type for v in (*call.args, *results)]
        own_types = [v.type for v in (*called.params, *called.outputs)]
        if called.name not in self.inlined and own_types == call_types:
            return None  # no renaming is needed
        return (
            renaming if [instantiate(kind, renaming) for kind in own_types] == call_types else None
        )


def decide_inlining(functions: Functions) -> Inlining:
    """Return the inlining decisions for the functions of a program."""
    recursive, inlined = set[str](), set[str]()
    for circle in call_cycles(functions):
        head, _ = select_cycle_head(circle, functions)
        recursive.update({head} if head else circle.called)
        inlined.update({*circle.called} - {head} if head else ())
    cast = frozenset(n for n in functions if defines_symbols_at_run_time(n, functions, set()))
    return Inlining(functions, frozenset(recursive), frozenset(inlined), cast)


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
