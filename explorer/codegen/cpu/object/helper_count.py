"""How many processes should help to compile: by the work, the idle cores and the memory."""

from __future__ import annotations

from explorer import cache
from explorer.allowance import free_bytes, idle_cores
from explorer.codegen.cpu.object.compile_processes import Helpers

OPERATORS_A_KERNEL = 4  # of a model become a kernel, more or less; chosen
KERNELS_A_HELPER = 8  # it starts in half a second, the time of six: measured once, by no command
# What one takes, and a third more: `python -m tests.benchmarks.compile_time` prints all together.
HELPER_BYTES = 192 << 20
KEPT_FREE_BYTES = 512 << 20  # for what runs beside; chosen
MOST_HELPERS = 7  # chosen


class HelpersAhead(Helpers):
    """Helpers for a model that was never compiled here: they load what they need while its passes
    run. One that was, by its key, is not expected to miss a kernel.
    """

    def __init__(self, model: str, operators: int) -> None:
        super().__init__()
        self.key = cache.content_key("compiled before", model)
        expected = helpers_for(operators // OPERATORS_A_KERNEL)
        self.is_new = expected > 0 and cache.get(self.key) is None
        if self.is_new:
            self.grow(expected)

    def remember(self) -> None:
        """After: the model counts as compiled."""
        if self.is_new:
            cache.put(self.key, b"")


def helpers_for(kernels: int) -> int:
    """How many processes should help this one to compile that many kernels: none on one core, nor
    where others keep all of them busy, as to start one is the work of several kernels.
    """
    if kernels < 2 * KERNELS_A_HELPER:
        return 0
    room = (free_bytes() - KEPT_FREE_BYTES) // HELPER_BYTES
    return max(0, min(idle_cores(), kernels // KERNELS_A_HELPER - 1, room, MOST_HELPERS))
