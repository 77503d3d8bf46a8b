"""The number of helper processes for a compilation: by the work, the idle cores and the memory."""

from __future__ import annotations

from explorer import cache
from explorer.allowance import free_bytes, idle_cores
from explorer.codegen.cpu.object.compile_processes import Helpers

OPERATORS_A_KERNEL = 4  # of a model in a kernel, about; chosen
KERNELS_A_HELPER = 8  # it starts in half a second, the time of six kernels: measured once
# Memory of a helper, and a third more: `python -m tests.benchmarks.compile_time` prints the total.
HELPER_BYTES = 192 << 20
KEPT_FREE_BYTES = 512 << 20  # for other processes; chosen
MOST_HELPERS = 7  # chosen


class HelpersAhead(Helpers):
    """Helpers for a model that was never compiled here; they start while its passes run.

    A model that was compiled before, by its key, is expected to find its kernels in the cache.
    """

    def __init__(self, model: str, operators: int) -> None:
        """Start helpers for a model of `operators` operators, unless it was compiled before."""
        super().__init__()
        self.key = cache.content_key("compiled before", model)
        expected = helpers_for(operators // OPERATORS_A_KERNEL)
        self.is_new = expected > 0 and cache.get(self.key) is None
        if self.is_new:
            self.grow(expected)

    def remember(self) -> None:
        """Mark the model as compiled."""
        if self.is_new:
            cache.put(self.key, b"")


def helpers_for(kernels: int) -> int:
    """Return how many processes should help to compile that many kernels.

    There are none on one core, nor while others keep all cores busy: to start one is the work of
    several kernels.
    """
    if kernels < 2 * KERNELS_A_HELPER:
        return 0
    by_memory = (free_bytes() - KEPT_FREE_BYTES) // HELPER_BYTES
    return max(0, min(idle_cores(), kernels // KERNELS_A_HELPER - 1, by_memory, MOST_HELPERS))
