"""A choice that was weighed: its cost, or why it was refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)  # what a choice is: a tiling, a word, yes or no


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a choice was refused, as values: the condition that fails, the number found, the limit
    that it is compared with, and the smallest change that would flip it ("": none would).
    """

    condition: str  # its name: "capacity", "readers", "gain", ...
    found: float
    limit: float
    text: str  # the condition with its numbers, in words
    change: str = ""

    @property
    def words(self) -> str:
        """The condition and the change."""
        return f"{self.text}: {self.change}" if self.change else self.text


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T_co]):
    """One choice that was weighed: its cost in named terms (microseconds), or the reason why it was
    refused, in words and, where its room can tell them, as values.
    """

    label: str
    value: T_co
    terms: tuple[tuple[str, float], ...] = ()
    refused: str = ""
    why: Refusal | None = None

    @property
    def cost_us(self) -> float:
        """The modelled time; infinite where refused."""
        return float("inf") if self.refused else sum(t for _, t in self.terms)
