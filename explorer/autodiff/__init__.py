"""Reverse-mode differentiation of programs (Griewank and Walther, Evaluating Derivatives, 2008).

It works on the loops that operators become, not on operators: a derivative of a scalar expression
comes from the records of its functions, and stands at the load's index map, transposed.
"""

from __future__ import annotations

from explorer.autodiff.transform import Differentiate

__all__ = ["Differentiate"]
