"""Options of rematerialisation."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.ranges import Integer, Share, check, option

MOST_MB = 1 << 24  # the largest bound


@dataclass(frozen=True, slots=True)
class Options:
    """Memory bounds of intermediates; by default there is none.

    Without a bound, nothing is recomputed and no loop stacks its rows in the place of others.

        share      the allowed part of the bytes that a function's intermediates need at once
        budget_mb  megabytes that they may need at once; 0: no bound
    """

    share: float = option(
        1.0, Share(), "of the bytes that are needed at once, the part that may be"
    )
    budget_mb: int = option(
        0, Integer(0, MOST_MB), "megabytes that may be needed at once; 0: no bound"
    )

    def __post_init__(self) -> None:
        """Check the values."""
        check("rematerialisation", self)

    @property
    def is_set(self) -> bool:
        """Return True if there is a bound."""
        return self.share < 1.0 or self.budget_mb > 0

    def limit_bytes(self, peak_bytes: int) -> int:
        """Return the bytes that are allowed, for a function with this peak."""
        shared = int(peak_bytes * self.share)
        return min(shared, self.budget_mb << 20) if self.budget_mb else shared
