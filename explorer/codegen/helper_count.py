"""How many processes should help to compile: by what is to be done, the cores and the memory."""

from __future__ import annotations

import os
from pathlib import Path

from explorer import cache
from explorer.codegen.compile_processes import Helpers

OPERATORS = 4  # of a model become a kernel, more or less
EACH = 8  # kernels a process: a helper needs half a second to start, the time of six kernels
HELPER_BYTES = 192 << 20  # what one was measured to take, and a third more
KEPT_FREE_BYTES = 512 << 20  # for what runs beside
MOST = 7
LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


class HelpersAhead(Helpers):
    """Helpers for a model that was never compiled here: they load what they need while its passes
    run. One that was, by its key, is not expected to miss a kernel.
    """

    def __init__(self, model: str, operators: int) -> None:
        super().__init__()
        self.key = cache.content_key("compiled before", model)
        expected = helpers_for(operators // OPERATORS)
        self.is_new = expected > 0 and cache.get(self.key) is None
        if self.is_new:
            self.grow(expected)

    def remember(self) -> None:
        """After: the model counts as compiled."""
        if self.is_new:
            cache.put(self.key, b"")


def helpers_for(kernels: int) -> int:
    """How many processes should help this one to compile that many kernels; none on one core."""
    if kernels < 2 * EACH:
        return 0
    room = (free_bytes() - KEPT_FREE_BYTES) // HELPER_BYTES
    return max(0, min(_cores() - 1, kernels // EACH - 1, room, MOST))


def free_bytes() -> int:
    """The memory that can still be had: of the machine, and of the container where one is."""
    found = [_of_container(limit, used) for limit, used in LIMITS]
    return min((n for n in (*found, _of_machine()) if n is not None), default=1 << 62)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(t.split()[1]) * 1024 for t in lines if t.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _of_container(limit: str, used: str) -> int | None:
    try:
        return int(Path(limit).read_text("ascii")) - int(Path(used).read_text("ascii"))
    except (OSError, ValueError):  # no container, or one without a limit: "max"
        return None
