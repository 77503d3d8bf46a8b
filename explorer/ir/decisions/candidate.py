"""Candidates of a decision: the cost of each, or the reason why it was refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)  # the type of a choice: a tiling, a str, a bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for a refusal, as values.

    It holds the condition that fails, its value, the limit that the value is compared with, and the
    smallest change that would satisfy the condition ("": none would).
    """

    condition: str  # its name: "capacity", "readers", "gain", ...
    value: float
    limit: float
    text: str  # the condition with its numbers
    change: str = ""

    @property
    def words(self) -> str:
        """The condition and the change."""
        return f"{self.text}: {self.change}" if self.change else self.text


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T_co]):
    """One candidate of a decision: its cost in named terms (microseconds), or why it was refused.

    `refused` is the reason in words; `why` has it as values, where they are known.
    """

    label: str
    value: T_co
    terms: tuple[tuple[str, float], ...] = ()
    refused: str = ""
    why: Refusal | None = None

    @property
    def cost_us(self) -> float:
        """The modelled time; infinite if the candidate was refused."""
        return float("inf") if self.refused else sum(t for _, t in self.terms)
