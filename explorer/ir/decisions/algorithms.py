"""Algorithms chosen for products by one constant and for convolutions, with the candidates."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate


@dataclass(frozen=True, slots=True)
class ProductsDecision:
    """Independent products by one constant, by the names they bind: done "together" or "apart".

    The choice stands first among the candidates. `generation` is the number of products by the
    constant on the longest path before each of them.
    """

    function: str
    weight: str
    generation: int
    products: tuple[str, ...]
    chosen: str
    candidates: tuple[Candidate[bool], ...]


@dataclass(frozen=True, slots=True)
class AlgorithmDecision:
    """The algorithm chosen for a convolution: direct, or minimal filtering.

    The choice stands first among the candidates.
    """

    binding: str
    chosen: str
    candidates: tuple[Candidate[str | None], ...]
