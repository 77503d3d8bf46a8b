"""How much memory intermediates may take before some are computed again."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.passes.pipeline.ranges import Share, Whole, check, option

MOST_MB = 1 << 24


@dataclass(frozen=True, slots=True)
class Options:
    """Nothing is computed again, and no loop stacks its rows in the place of others, unless one of
    these is set.

    share      of the bytes that a function's intermediates need at once, the part that they may
    budget_mb  megabytes that they may need at once; 0: no bound
    """

    share: float = option(
        1.0, Share(), "of the bytes that are needed at once, the part that may be"
    )
    budget_mb: int = option(
        0, Whole(0, MOST_MB), "megabytes that may be needed at once; 0: no bound"
    )

    def __post_init__(self) -> None:
        check("rematerialisation", self)

    @property
    def is_set(self) -> bool:
        """Whether anything is asked for."""
        return self.share < 1.0 or self.budget_mb > 0

    def room(self, peak_bytes: int) -> int:
        """The bytes that are there for what would need so many."""
        room = int(peak_bytes * self.share)
        return min(room, self.budget_mb << 20) if self.budget_mb else room
