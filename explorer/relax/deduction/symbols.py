"""Symbols for run-time dims: one for each dim, and the match_cast that defines it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.calls import MatchCast, Var
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.types import Annotation, Tensor
from explorer.ops.site import Values

HINT_EXTENT = 16  # of an unbounded symbol: pictures and tiles start from it; assumed


@dataclass(frozen=True, slots=True)
class DeducedValue:
    """The deduced annotation of a value, and its elements if they are few and known.

    `dims` holds the known dims if the annotation has no shape.
    """

    type: Annotation
    elements: Values | None = None
    dims: tuple[Dim | None, ...] | None = None


class Symbols:
    """The symbols of a program and fresh ones, some with `limits`."""

    def __init__(self, env: ShapeEnv, limits: Mapping[str, int] | None = None) -> None:
        """Start with the symbols of `env`."""
        self.env, self.limits = env, limits or {}
        self.taken = {s.name for s in env.symbols}

    def __copy__(self) -> Symbols:
        """Return the present symbols; later ones are not added to the copy."""
        return Symbols(self.env, self.limits)

    def fresh(self, name: str, low: int = 0, high: int | None = None) -> Dim:
        """Add a new symbol called like `name`."""
        unique = re.sub(r"\W", "_", name, flags=re.ASCII)
        unique = stem = unique if re.match(r"[A-Za-z_]", unique) else f"n_{unique}"
        count = 1
        while unique in self.taken:
            count += 1
            unique = f"{stem}_{count}"
        self.taken.add(unique)
        if unique in self.limits:
            high = self.limits[unique] if high is None else min(high, self.limits[unique])
        hint = max(low, HINT_EXTENT) if high is None else min(max(low, HINT_EXTENT), high)
        bound = SymbolBound(unique, low, high, hint)
        self.env = ShapeEnv((*self.env.symbols, bound))
        return symbol(unique)

    def settle(
        self, var: Var, value: DeducedValue, origin: frozenset[str]
    ) -> tuple[Var, Binding | None]:
        """Return the value to bind, and the match_cast that names its dims if it needs one.

        y = NonZero(x)  ->  y.found: int64[... 2] = NonZero(x); y: int64[2, y_1] = match y.found
        """
        kind = value.type
        if not isinstance(kind, Tensor) or kind.shape is not None or not _is_countable(kind):
            return Var(var.name, kind), None
        raw = Var(f"{var.name}.found", kind)
        dims = self.completed(var.name, value.dims or (None,) * (kind.rank or 0))
        named = Var(var.name, Tensor(dims, kind.dtype))
        return raw, Binding((named,), MatchCast(raw), origin)

    def completed(self, name: str, dims: Sequence[Dim | None]) -> tuple[Dim, ...]:
        """Return dims with a fresh symbol for each one that is not known."""
        return tuple(self.fresh(f"{name}_{i}") if d is None else d for i, d in enumerate(dims))


def _is_countable(kind: Tensor) -> bool:
    """Return True if dtype and rank are known, so that dims can be counted."""
    return kind.dtype is not None and kind.rank is not None
