"""Lazily imported sympy: it takes a quarter of a second, and programs of numbers do not need it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import sympy as sympy
else:

    class _LazySympy:
        """The sympy package, imported on the first use; names used once become attributes."""

        def __getattr__(self, name: str) -> Any:
            """Import sympy and return its attribute."""
            import sympy as package

            value = getattr(package, name)
            setattr(self, name, value)
            return value

    sympy = _LazySympy()

__all__ = ["is_symbol", "is_symbolic", "sympy"]


def is_symbolic(value: object) -> TypeGuard[sympy.Basic]:
    """Return True if a value is one of sympy's; none is before sympy is imported."""
    return "sympy" in sys.modules and isinstance(value, sympy.Basic)


def is_symbol(value: object) -> TypeGuard[sympy.Symbol]:
    """Return True if a dim is a single symbol."""
    return is_symbolic(value) and isinstance(value, sympy.Symbol)
