"""sympy, loaded by the first program whose sizes are symbols: it takes a quarter of a second, and
programs of numbers need none of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    import sympy as sympy
else:

    class _Later:
        """The package; what was asked for once is an attribute."""

        def __getattr__(self, name: str) -> Any:
            import sympy as package

            value = getattr(package, name)
            setattr(self, name, value)
            return value

    sympy = _Later()

__all__ = ["is_symbol", "is_symbolic", "sympy"]


def is_symbolic(value: object) -> TypeGuard[sympy.Basic]:
    """Whether a value is one of sympy's: none is where nobody has loaded it."""
    return "sympy" in sys.modules and isinstance(value, sympy.Basic)


def is_symbol(value: object) -> TypeGuard[sympy.Symbol]:
    """Whether a dim is a symbol and nothing else."""
    return is_symbolic(value) and isinstance(value, sympy.Symbol)
