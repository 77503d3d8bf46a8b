"""Printing of symbolic expressions in a program's text."""

from __future__ import annotations

import sympy
from sympy.printing.str import StrPrinter


class DimPrinter(StrPrinter):  # type: ignore[misc]
    """sympy's printer with our names for max, min, mod and floor."""

    def _print_floor(self, expr: sympy.floor) -> str:
        top, bottom = sympy.fraction(sympy.together(expr.args[0]))
        return f"floor({self._print(top)}, {self._print(bottom)})"

    def _print_Max(self, expr: sympy.Max) -> str:
        return f"max({', '.join(sorted(self._print(a) for a in expr.args))})"

    def _print_Min(self, expr: sympy.Min) -> str:
        return f"min({', '.join(sorted(self._print(a) for a in expr.args))})"

    def _print_Mod(self, expr: sympy.Mod) -> str:
        return f"mod({self._print(expr.args[0])}, {self._print(expr.args[1])})"


printer = DimPrinter()
