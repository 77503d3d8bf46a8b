"""What machine code is made for: a processor and its features, as LLVM names them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """`processor` chooses what is fast on it, `features` what it has: "+avx2", or, of what others
    of its kind have, "-avx512f".
    """

    processor: str = "x86-64"
    features: tuple[str, ...] = ()

    def has(self, feature: str) -> bool:
        """Whether code may use a feature."""
        return f"+{feature}" in self.features

    @property
    def is_avx512(self) -> bool:
        """Whether vectors have AVX-512F: masks, and `x * 2**n` in one instruction."""
        return self.has("avx512f")

    def dot_product(self, lanes: int) -> str:
        """How groups of small integers are multiplied and added in vectors of so many int32 sums:
        "groups" of four and "pairs" are instructions, "plain" is made of products of int32.
        """
        if self.has("avx512vnni") and (lanes == 16 or self.has("avx512vl")):
            return "groups"
        needed = {4: "sse2", 8: "avx2", 16: "avx512bw"}.get(lanes, "")
        return "pairs" if self.has(needed) else "plain"

    @property
    def text(self) -> str:
        """All of it in one line, for keys."""
        return f"{self.processor} {' '.join(self.features)}"
