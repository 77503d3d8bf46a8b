"""How products by one constant and convolutions are done, of the algorithms that were weighed."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate


@dataclass(frozen=True, slots=True)
class ProductsDecision:
    """Products by one constant that do not need each other, by what they bind: done "together" or
    "apart"; the way taken stands first among the candidates. `generation`: how many products by the
    constant are on the longest path before each of them.
    """

    function: str
    weight: str
    generation: int
    products: tuple[str, ...]
    chosen: str
    candidates: tuple[Candidate[bool], ...]


@dataclass(frozen=True, slots=True)
class AlgorithmDecision:
    """The algorithms that were weighed for a convolution, the one taken first: direct, or minimal
    filtering.
    """

    binding: str
    chosen: str
    candidates: tuple[Candidate[str | None], ...]
