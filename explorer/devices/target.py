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
    def text(self) -> str:
        """All of it in one line, for keys."""
        return f"{self.processor} {' '.join(self.features)}"
