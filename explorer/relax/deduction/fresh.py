"""Symbols for what only a run knows: one for each dim, and the match_cast that defines it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.calls import MatchCast, Var
from explorer.ir.program import Binding
from explorer.ir.shapes.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.types import Annotation, Tensor
from explorer.ops.site import Values

HINT_EXTENT = 16  # of a symbol of which nothing is known: pictures and tiles start from it; assumed


@dataclass(frozen=True, slots=True)
class Found:
    """What deduction says of a value: its annotation, its elements where they are few and known,
    and where the annotation has no shape the dims that are known all the same.
    """

    type: Annotation
    elements: Values | None = None
    dims: tuple[Dim | None, ...] | None = None


class Symbols:
    """The symbols of a program: those that it has, and fresh ones, some with `limits`."""

    def __init__(self, env: ShapeEnv, limits: Mapping[str, int] | None = None) -> None:
        self.env, self.limits = env, limits or {}
        self.taken = {s.name for s in env.symbols}

    def __copy__(self) -> Symbols:
        """Return the symbols as they are, which get no later ones."""
        return Symbols(self.env, self.limits)

    def fresh(self, name: str, low: int = 0, high: int | None = None) -> Dim:
        """A new symbol called like `name`."""
        word = re.sub(r"\W", "_", name, flags=re.ASCII)
        word = first = word if re.match(r"[A-Za-z_]", word) else f"n_{word}"
        count = 1
        while word in self.taken:
            count += 1
            word = f"{first}_{count}"
        self.taken.add(word)
        if word in self.limits:
            high = self.limits[word] if high is None else min(high, self.limits[word])
        hint = max(low, HINT_EXTENT) if high is None else min(max(low, HINT_EXTENT), high)
        bound = SymbolBound(word, low, high, hint)
        self.env = ShapeEnv((*self.env.symbols, bound))
        return symbol(word)

    def settle(self, var: Var, found: Found, origin: frozenset[str]) -> tuple[Var, Binding | None]:
        """The value to bind, and the match_cast that gives it the name `var` where it needs one.

        y = NonZero(x)  ->  y.found: int64[... 2] = NonZero(x); y: int64[2, y_1] = match y.found
        """
        kind = found.type
        if not isinstance(kind, Tensor) or kind.shape is not None or not _is_countable(kind):
            return Var(var.name, kind), None
        raw = Var(f"{var.name}.found", kind)
        dims = self.completed(var.name, found.dims or (None,) * (kind.rank or 0))
        known = Var(var.name, Tensor(dims, kind.dtype))
        return raw, Binding((known,), MatchCast(raw), origin)

    def completed(self, name: str, dims: Sequence[Dim | None]) -> tuple[Dim, ...]:
        """Dims with a fresh symbol for each one that is not known."""
        return tuple(self.fresh(f"{name}_{i}") if d is None else d for i, d in enumerate(dims))


def _is_countable(kind: Tensor) -> bool:
    """Whether dtype and rank are known, so that dims can be counted."""
    return kind.dtype is not None and kind.rank is not None
