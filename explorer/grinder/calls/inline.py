"""What a function does stands in the place of its call, where only Python could follow it else.

f(x): y = call g(x + 1);  g(a): b = call f(a * 2); c = b - 1
->  f(x): a = x + 1; b = call f(a * 2); y = b - 1

Functions that call each other become one that calls itself, whose frames hold what the others make;
a function of its own symbols speaks of those of its caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.grinder.calls.inline_policy import MOST_BINDINGS, Inlining, Said, inlining
from explorer.ir.calls import Branch, Expr, FunctionCall, Loop, Var
from explorer.ir.program import Binding, Function, Program
from explorer.passes.pipeline.names import fresh
from explorer.passes.simplify.dead_code import called_functions
from explorer.passes.simplify.dropped_origins import account
from explorer.passes.simplify.substitution import with_reads
from explorer.passes.simplify.symbol_values import with_symbols

Values = dict[str, Var]  # a function's own names -> what stands for them


def inline_calls(program: Program) -> Program:
    """After: of functions that call each other one is left, where one can be; and no function that
    does not call itself is called with shapes in other words than its own.
    """
    if not any(isinstance(b.expr, FunctionCall) for _, b in program.bindings()):
        return program
    found = inlining({f.name: f for f in program.functions})
    made = _Inliner(found).functions()
    if all(new is old for new, old in zip(made.values(), program.functions)):
        return program
    whole = replace(program, functions=tuple(made.values()))
    after = replace(whole, functions=tuple(called_functions(whole)))
    return account(program, after, "nothing reads it")


class _Inliner:
    """Writes functions anew; sides that must speak of other symbols get new names."""

    def __init__(self, found: Inlining) -> None:
        self.found, self.given = found, found.functions
        self.made: dict[str, Function] = {}
        self.sides: dict[tuple[str, str], str] = {}  # by name and words
        self.room = MOST_BINDINGS

    def functions(self) -> dict[str, Function]:
        """Every function, those that are new behind the others."""
        kept = {name: self.rewritten(function) for name, function in self.given.items()}
        return kept | self.made

    def rewritten(self, function: Function) -> Function:
        body, values = self.body(function, {}, {}, "")
        if all(new is old for new, old in zip(body, function.body)):
            return function
        outputs = tuple(values.get(v.name, v) for v in function.outputs)
        return replace(function, body=body, outputs=outputs)

    def body(
        self, function: Function, words: Said, values: Values, path: str
    ) -> tuple[tuple[Binding, ...], Values]:
        """The bindings of a function that is in these words by now, and what stands for its values;
        its own names come behind a path.
        """
        values, body = dict(values), list[Binding]()
        for b in function.body:
            expr = with_reads(b.expr, values)
            vars = tuple(replace(v, name=f"{path}{v.name}") for v in b.vars)
            own = self.words(expr, vars)
            if isinstance(expr, FunctionCall) and own is not None:
                inside, found = self.called(expr, own, f"{vars[0].name}.")
                body += _also_from(b.origin, inside, found)
            else:
                new = Binding(vars, self.with_sides(expr, words), b.origin)
                body.append(b if new == b else new)
                found = vars
            values |= {v.name: new for v, new in zip(b.vars, found, strict=True) if v != new}
        return tuple(body), values

    def words(self, expr: Expr, results: Sequence[Var]) -> Said | None:
        """The words of a call in whose place the function goes, while there is room."""
        if not isinstance(expr, FunctionCall):
            return None
        size = len(self.given[expr.function].body)
        own = self.found.words(expr, results) if size <= self.room else None
        self.room -= size if own is not None else 0
        return own

    def called(
        self, call: FunctionCall, words: Said, path: str
    ) -> tuple[tuple[Binding, ...], tuple[Var, ...]]:
        """What stands in the place of a call, and its results."""
        function = with_symbols(self.given[call.function], words)
        given = {p.name: a for p, a in zip(function.params, call.args, strict=True)}
        body, values = self.body(function, words, given, path)
        return body, tuple(values.get(v.name, v) for v in function.outputs)

    def with_sides(self, expr: Expr, words: Said) -> Expr:
        """A branch or loop over sides in the words of what they stand in."""
        match expr:
            case Branch(then=then, orelse=orelse) if words:
                return replace(expr, then=self.side(then, words), orelse=self.side(orelse, words))
            case Loop(body=body) if words:
                return replace(expr, body=self.side(body, words))
        return expr

    def side(self, name: str, words: Said) -> str:
        """What a side is called in these words; it is made when it is met first."""
        key = name, str(sorted((s, str(d)) for s, d in words.items()))
        if key not in self.sides:
            taken = {*self.given, *self.sides.values()}
            new = self.sides[key] = fresh(f"{name}.as", taken)
            function = with_symbols(self.given[name], words)
            params = tuple(replace(p, name=f"{new}.{p.name}") for p in function.params)
            given = {p.name: q for p, q in zip(function.params, params, strict=True)}
            body, values = self.body(function, words, given, f"{new}.")
            outputs = tuple(values.get(v.name, v) for v in function.outputs)
            self.made[new] = Function(new, params, body, outputs, function.output_names)
        return self.sides[key]


def _also_from(
    origin: frozenset[str], body: Sequence[Binding], results: Sequence[Var]
) -> Iterator[Binding]:
    """The bindings; those that make results come from the call, too."""
    for b in body:
        makes = any(v in results for v in b.vars)
        yield replace(b, origin=b.origin | origin) if makes else b
