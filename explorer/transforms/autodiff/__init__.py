"""Reverse-mode differentiation of programs (Griewank and Walther, Evaluating Derivatives, 2008).

It differentiates the loop nests that operators lower to, not the operators. The derivative of a
scalar expression comes from the records of its functions. It is stored at the load's transposed
index map.
"""

from __future__ import annotations

from explorer.transforms.autodiff.differentiate import Differentiate

__all__ = ["Differentiate"]
