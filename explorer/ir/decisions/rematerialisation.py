"""Which values are computed again instead of kept."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The bindings of a function that are computed a second time, and what is predicted: the most
    bytes that its intermediates need at once, and the time of all its kernels.
    """

    again: tuple[str, ...]
    peak_bytes: int
    us: float


@dataclass(frozen=True, slots=True)
class Rematerialisation:
    """The points between least time and least memory that were weighed for a function, the one
    taken first; `room_bytes` are there.
    """

    function: str
    room_bytes: int
    chosen: Recomputation
    candidates: tuple[Candidate[Recomputation], ...]
