"""Rematerialisation: which values are computed a second time so that memory is free between."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.ir.decisions.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The bindings of a function that are computed a second time, and the predicted effect.

    It is the peak of the intermediates in bytes, and the time of all kernels.
    """

    recomputed: tuple[str, ...]
    peak_bytes: int
    us: float


@dataclass(frozen=True, slots=True)
class Rematerialisation:
    """The points between least time and least memory that were weighed for a function.

    The choice stands first; `room_bytes` are available.
    """

    function: str
    room_bytes: int
    chosen: Recomputation
    candidates: tuple[Candidate[Recomputation], ...]
