"""Values that a reader moved to other memory levels, and the effect of each move."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.ir.program import Program

Move = tuple[str, str]  # a value, and the level it goes to


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the groups before or after a move.

    The number of kernels, bytes to and from memory, bytes that the largest task holds in `level`,
    the capacity there, and modelled microseconds.
    """

    kernels: int
    traffic: int
    level: str
    footprint: int
    capacity: int | None
    predicted_us: float


@dataclass(frozen=True)
class Outcome:
    """The effect of moves on the groups that they touch.

    For an illegal move: the condition that fails (`refused`) and the smallest change that would
    `flip` it.
    """

    before: Totals | None = None
    after: Totals | None = None
    program: Program | None = None  # after Welder
    refused: str = ""
    flip: str = ""


@dataclass(frozen=True)
class ManualMoves:
    """The moves so far on a device, each with its effect after the moves of other values before it.

    `others` holds the moves on other devices.
    """

    device: str = ""
    steps: tuple[tuple[Move, Outcome], ...] = ()
    others: tuple[ManualMoves, ...] = ()

    def on(self, device: str) -> ManualMoves:
        """Return the moves on a device; those on this one are stored among its others."""
        if device == self.device:
            return self
        stored = (*self.others, replace(self, others=()))
        selected = next((h for h in stored if h.device == device), ManualMoves(device))
        return replace(selected, others=tuple(h for h in stored if h.steps and h.device != device))

    @property
    def moves(self) -> tuple[Move, ...]:
        """The last place of each value that was moved."""
        return tuple(dict(move for move, _ in self.steps).items())

    @property
    def outcome(self) -> Outcome | None:
        """The effect of all moves together."""
        return self.steps[-1][1] if self.steps else None

    def moved(self, move: Move, outcome: Outcome) -> ManualMoves:
        """Return the moves with one more."""
        return replace(self, steps=(*self.steps, (move, outcome)))

    def undone(self, *, everything: bool) -> ManualMoves:
        """Return the moves without the last, or without any."""
        return replace(self, steps=() if everything else self.steps[:-1])
