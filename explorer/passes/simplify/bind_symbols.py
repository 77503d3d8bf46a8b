"""Specialisation of a program: symbols of the inputs are replaced by numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from explorer.errors import BadOption, BoundError
from explorer.ir.program import Function, Program
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.ir.stage import Stage
from explorer.ir.symbols import parameter_symbols
from explorer.ops.reference.verify_symbols import scopes_of
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.simplify.symbol_values import with_symbols


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
