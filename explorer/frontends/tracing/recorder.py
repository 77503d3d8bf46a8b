"""A program being written: functions in the making, constants, symbols, and source lines."""

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

HINT = 16  # of a symbol that only a run knows


def _fresh(name: str, taken: dict[str, int]) -> str:
    found = name
    while found in taken:
        taken[name] += 1
        found = f"{name}.{taken[name]}"
    taken[found] = 1
    return found


class Recorder:
    """What all functions of one program share; no two of its values have one name."""

    def __init__(self, env: ShapeEnv, limits: Mapping[str, int]) -> None:
        self.env = env
        self.limits = limits  # of symbols, as an earlier try at this trace has found them
        self.functions: list[Function] = []
        self.constants: dict[str, Constant] = {}
        self.sources: list[SourceOp] = []
        self.called: dict[int, object] = {}  # the signatures of isolated functions, by identity
        # NumPy's arrays that got elements which only a run knows, and what stands for them, by id
        self.replaced: dict[int, tuple[np.ndarray, Any]] = {}
        self._names: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._places: dict[str, Var] = {}

    def fresh(self, name: str) -> str:
        """A name for a value or a function: the name, or the name and a number."""
        return _fresh(name, self._names)

    def value(self, name: str, type: Annotation) -> Var:
        """A new value."""
        return Var(self.fresh(name), type)

    def source(self, op: str) -> str:
        """A new source operator: the line that is being run, and what it calls."""
        line = calling_line()
        name = _fresh(f"{line} {op}", self._lines)
        self.sources.append(SourceOp(name, op, line.text))
        return name

    def constant(self, array: np.ndarray) -> Var:
        """The constant of that value; an equal one is taken again."""
        constant = Constant(array.copy())
        if constant.digest not in self._places:
            name = self.fresh("number" if array.ndim == 0 else "array")
            self.constants[name] = constant
            self._places[constant.digest] = Var(name, constant.type)
        return self._places[constant.digest]

    def symbol(self, name: str, low: int = 0, high: int | None = None) -> Dim:
        """A new symbol called like `name`."""
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
        """What has been written so far."""
        return self.env, len(self.functions), len(self.sources), dict(self.called)

    def rewind(self, mark: tuple[ShapeEnv, int, int, dict[int, object]]) -> None:
        """Forget the functions that were written since; names that were given stay given."""
        self.env, functions, sources, self.called = mark
        del self.functions[functions:], self.sources[sources:]
        self._lines = {s.name: 1 for s in self.sources}
