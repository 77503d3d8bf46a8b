"""Scale-out: copies of one unit's program over all units, in waves (Roller, section 3.3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waves:
    """`grid` copies over `units` units that hold `per_unit` copies each."""

    grid: int
    units: int
    per_unit: int = 1

    @property
    def places(self) -> int:
        """The number of copies that run at the same time."""
        return self.units * self.per_unit

    @property
    def waves(self) -> int:
        """The number of times that the units are filled."""
        return -(-self.grid // self.places)

    @property
    def last(self) -> int:
        """The number of copies in the last wave."""
        return self.grid - (self.waves - 1) * self.places if self.grid else 0

    @property
    def efficiency(self) -> float:
        """The share of the peak that is left: full waves reach all of it."""
        return self.grid / (self.waves * self.places) if self.grid else 0.0

    def copies(self, wave: int) -> int:
        """Return the number of copies of a wave."""
        return self.last if wave == self.waves - 1 else self.places
