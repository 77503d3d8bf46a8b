"""Values that a reader moved to other memory levels by hand, and what each move changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.ir.program import Program

Move = tuple[str, str]  # a value, and the level it goes to


@dataclass(frozen=True, slots=True)
class Totals:
    """Groups before or after: how many kernels, bytes to and from memory, bytes that the largest
    task holds in `level` and the room there, and modelled microseconds.
    """

    kernels: int
    traffic: int
    level: str
    footprint: int
    capacity: int | None
    predicted_us: float


@dataclass(frozen=True)
class Outcome:
    """What moves would change, of the groups that they touch; or the condition that fails
    (`refused`) and the smallest change that would `flip` it.
    """

    before: Totals | None = None
    after: Totals | None = None
    program: Program | None = None  # as Welder would leave it
    refused: str = ""
    flip: str = ""


@dataclass(frozen=True)
class Hand:
    """The moves so far on a device, each with what it changes after those of other values before
    it; and the hands on `others`, where something was moved.
    """

    device: str = ""
    steps: tuple[tuple[Move, Outcome], ...] = ()
    others: tuple[Hand, ...] = ()

    def on(self, device: str) -> Hand:
        """The moves on a device; those on this one are kept among its others."""
        if device == self.device:
            return self
        known = (*self.others, replace(self, others=()))
        found = next((h for h in known if h.device == device), Hand(device))
        return replace(found, others=tuple(h for h in known if h.steps and h.device != device))

    @property
    def moves(self) -> tuple[Move, ...]:
        """The last place of each value that was moved."""
        return tuple(dict(move for move, _ in self.steps).items())

    @property
    def outcome(self) -> Outcome | None:
        """What they change together."""
        return self.steps[-1][1] if self.steps else None

    def moved(self, move: Move, outcome: Outcome) -> Hand:
        """With one more move."""
        return replace(self, steps=(*self.steps, (move, outcome)))

    def undone(self, *, everything: bool) -> Hand:
        """Without the last move, or without any."""
        return replace(self, steps=() if everything else self.steps[:-1])
