"""A program under construction: functions, constants, symbols, and source lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.frontends.tracing.lines import calling_line
from explorer.ir.calls import Var
from explorer.ir.program import Constant, Function, SourceOp
from explorer.ir.shapes.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.types import Annotation

HINT = 16  # of a symbol known only at run time


def _fresh(name: str, taken: dict[str, int]) -> str:
    candidate = name
    while candidate in taken:
        taken[name] += 1
        candidate = f"{name}.{taken[name]}"
    taken[candidate] = 1
    return candidate


class Recorder:
    """State shared by all functions of one traced program; value names are unique."""

    def __init__(self, env: ShapeEnv, limits: Mapping[str, int]) -> None:
        """Create an empty program."""
        self.env = env
        self.limits = limits  # upper bounds of symbols from earlier attempts at this trace
        self.functions: list[Function] = []
        self.constants: dict[str, Constant] = {}
        self.sources: list[SourceOp] = []
        self.called: dict[int, object] = {}  # the signatures of isolated functions, by identity
        # NumPy arrays with traced elements assigned to them, and their traced replacements, by id.
        self.replaced: dict[int, tuple[np.ndarray, Any]] = {}
        self._names: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._places: dict[str, Var] = {}

    def fresh(self, name: str) -> str:
        """Return an unused name for a value or a function, with a number appended if necessary."""
        return _fresh(name, self._names)

    def value(self, name: str, type: Annotation) -> Var:
        """Return a new value."""
        return Var(self.fresh(name), type)

    def source(self, op: str) -> str:
        """Add a source operator: the current line, and the operation that it calls."""
        line = calling_line()
        name = _fresh(f"{line} {op}", self._lines)
        self.sources.append(SourceOp(name, op, line.text))
        return name

    def constant(self, array: np.ndarray) -> Var:
        """Return the constant of that value; equal constants are shared."""
        constant = Constant(array.copy())
        if constant.digest not in self._places:
            name = self.fresh("number" if array.ndim == 0 else "array")
            self.constants[name] = constant
            self._places[constant.digest] = Var(name, constant.type)
        return self._places[constant.digest]

    def symbol(self, name: str, low: int = 0, high: int | None = None) -> Dim:
        """Return a new symbol with a name like `name`."""
        word = first = re.sub(r"\W", "_", name, flags=re.ASCII)
        taken, count = {s.name for s in self.env.symbols}, 1
        while word in taken:
            count += 1
            word = f"{first}_{count}"
        high = self.limits.get(word, high)
        hint = min(max(low, HINT), HINT if high is None else max(high, low))
        self.env = ShapeEnv((*self.env.symbols, SymbolBound(word, low, high, hint)))
        return symbol(word)

    def mark(self) -> tuple[ShapeEnv, int, int, dict[int, object]]:
        """Return a checkpoint of the program for `rewind`."""
        return self.env, len(self.functions), len(self.sources), dict(self.called)

    def rewind(self, mark: tuple[ShapeEnv, int, int, dict[int, object]]) -> None:
        """Remove the functions and sources added since `mark`; used names stay reserved."""
        self.env, functions, sources, self.called = mark
        del self.functions[functions:], self.sources[sources:]
        self._lines = {s.name: 1 for s in self.sources}
