"""Substitution in programs: values in the expressions that read them, and symbols in all dims.

Binding the symbols of the inputs to numbers specialises a program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, assert_never

from explorer.errors import BadOption, BoundError
from explorer.ir.affine import Affine, affine
from explorer.ir.annotations import replace_symbols
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
    ShapeOf,
    Var,
    View,
)
from explorer.ir.dims import Dim, ShapeEnv, Sizes, is_symbolic
from explorer.ir.program import Function, Program
from explorer.ir.stage import Stage
from explorer.ir.symbols import parameter_symbols
from explorer.ops.interpreter.verify import scopes_of
from explorer.passes.registry import compiler_pass


def with_reads(expr: Expr, values: Mapping[str, Var]) -> Expr:
    """Replace named values in an expression by the given ones."""

    def new(var: Var) -> Var:
        return values.get(var.name, var)

    def some(vars: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(map(new, vars))

    def optional(vars: tuple[Var | None, ...]) -> tuple[Var | None, ...]:
        return tuple(None if v is None else new(v) for v in vars)

    match expr:
        case OpCall() | LibraryCall():
            return replace(expr, args=optional(expr.args))
        case KernelCall():
            after = None if expr.after is None else new(expr.after)
            return replace(expr, args=some(expr.args), after=after)
        case FunctionCall():
            return replace(expr, args=some(expr.args))
        case Gradient():
            return replace(expr, args=some(expr.args), seeds=some(expr.seeds))
        case View() | MatchCast():
            return replace(expr, arg=new(expr.arg))
        case ShapeOf():
            return expr
        case Branch():
            return replace(expr, cond=new(expr.cond), args=some(expr.args))
        case Loop():
            trip = None if expr.trip is None else new(expr.trip)
            cond = None if expr.cond is None else new(expr.cond)
            return replace(expr, trip=trip, cond=cond, state=some(expr.state), args=some(expr.args))
    assert_never(expr)


Node = TypeVar("Node")


def with_symbols(node: Node, values: Mapping[str, Dim]) -> Node:
    """Replace symbols in a function, binding, annotation or kernel by dims."""
    return _Substitution(values).of(node)


class _Substitution:
    """A substitution of symbols that rewrites each shared node once."""

    def __init__(self, values: Mapping[str, Dim]) -> None:
        """Create a substitution by these values."""
        self.values = values
        self.rewritten_nodes: dict[int, tuple[Any, Any]] = {}

    def of(self, node: Node) -> Node:
        """Return the rewritten node, memoized."""
        cached = self.rewritten_nodes.get(id(node))
        if cached is None:
            cached = self.rewritten_nodes[id(node)] = (node, self.new(node))
        rewritten: Node = cached[1]
        return rewritten

    def new(self, node: Any) -> Any:
        """Rewrite a node."""
        match node:
            case _ if is_symbolic(node):
                return replace_symbols(node, self.values)
            case Affine(terms, const):
                return affine({n: self.of(c) for n, c in terms}, self.of(const))
            case tuple():
                items = tuple(map(self.of, node))
                return node if all(a is b for a, b in zip(items, node, strict=True)) else items
        if not is_dataclass(node) or isinstance(node, type):
            return node
        before = {f.name: getattr(node, f.name) for f in fields(node) if f.init}
        after = {name: self.of(value) for name, value in before.items()}
        changed = {name: value for name, value in after.items() if value is not before[name]}
        return replace(node, **changed) if changed else node


@compiler_pass("bind-symbols", paper="Relax, ASPLOS 2025, section 3.2: first-class symbolic shapes")
@dataclass(frozen=True, slots=True)
class BindSymbols:
    """A pass that replaces symbols of the inputs by numbers.

    After: no annotation, attribute or kernel contains a bound symbol.

        x: float32[M, K]; y: float32[M, N] = MatMul(x, w)  ->  y: float32[128, 32] = MatMul(x, w)
    """

    sizes: tuple[tuple[str, int], ...]

    def __call__(self, program: Program) -> Program:
        """Replace the bound symbols in every function.

        Raises:
            BadOption: a name is no symbol of the inputs or is bound twice, or the program is tiled.
            BoundError: a value is outside its symbol's bounds.
        """
        if program.stage > Stage.LEGALIZED:
            raise BadOption(
                f"symbols are bound before a program is tiled; this one is {program.stage.title}",
                where="bind_symbols",
            )
        values = _check_values(self.sizes, program)
        scopes = scopes_of(program)
        env = ShapeEnv(tuple(s for s in program.env.symbols if s.name not in values))
        functions = tuple(
            _bind_function(f, values, values if f is program.main else scopes[f.name])
            for f in program.functions
        )
        return replace(program, functions=functions, env=env)


def bind_symbols(program: Program, sizes: Sizes | Iterable[tuple[str, int]]) -> Program:
    """Replace each named symbol of the inputs by its number; the others stay symbolic."""
    pairs = tuple(sizes.items()) if isinstance(sizes, Mapping) else tuple(sizes)
    return BindSymbols(pairs)(program)


def _check_values(pairs: tuple[tuple[str, int], ...], program: Program) -> dict[str, int]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [n for n, _ in pairs]
        twice = next(n for n in names if names.count(n) > 1)
        raise BadOption(f"the symbol {twice!r} is bound twice", where=twice)
    symbols = parameter_symbols(program.main)
    for name, value in values.items():
        if name not in symbols:
            wanted = ", ".join(sorted(symbols)) or "none"
            raise BadOption(
                f"no input has a dim {name!r}; the symbols of the inputs are {wanted}",
                where=name,
                expected=wanted,
            )
        limits = {s.name: s for s in program.env.symbols}.get(name)
        low = 0 if limits is None else limits.low
        high = None if limits is None else limits.high
        if value < low or (high is not None and value > high):
            allowed = f"{low} .. {'any' if high is None else high}"
            raise BoundError(
                f"{name} is {value} and was bounded to {allowed}",
                where=name,
                expected=allowed,
                actual=value,
            )
    return values


def _bind_function(function: Function, sizes: Sizes, scope: Collection[str]) -> Function:
    """Replace the symbols that a function shares with the inputs."""
    values = {name: value for name, value in sizes.items() if name in scope}
    return with_symbols(function, values) if values else function
