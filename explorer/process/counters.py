"""Counts of what this process compiled, looked up and read, since it started.

``explorer.counters.kernel_compiles`` reads one count; ``with explorer.counters.delta() as did:``
gives the counts of a block. Counts only rise, so two readers never disturb each other.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import count
from threading import Lock

__all__ = ["Counters", "Counts", "Delta", "counters"]


@dataclass(frozen=True, slots=True)
class Counts:
    """All counts at one moment."""

    kernel_compiles: int = 0  # kernels handed to LLVM
    cache_hits_memory: int = 0  # results found in this process
    cache_hits_disk: int = 0  # entries found intact in the cache folder
    cache_hits_team: int = 0  # entries that only the team's folder had, intact
    cache_misses: int = 0  # entries looked for in the cache folder and not found
    cache_damaged: int = 0  # entries that failed their checksum and were removed
    cache_damaged_team: int = 0  # entries of the team's folder that failed it, and were left
    cache_write_failures: int = 0  # entries that could not be kept: disk full, read-only
    cache_evictions: int = 0  # entries removed to stay within the size bound
    host_reads: int = 0  # device values that Python waited for
    library_calls: int = 0  # returns to Python to run a library's operator
    program_hits: int = 0  # compilations found whole in the cache folder
    program_misses: int = 0  # compilations looked for in the cache folder and not found
    pass_runs: int = 0  # passes that did their work
    pass_hits: int = 0  # passes whose result was remembered
    tilings_measured: int = 0  # candidates of Roller's that were compiled and timed
    walls_planned: int = 0  # bindings for which a brick wall was laid
    walls_remembered: int = 0  # bindings whose brick wall was remembered
    estimates_made: int = 0  # kernels whose time was modelled for a wall; equal code counts once
    arenas_made: int = 0  # arenas allocated for a binding
    runs: int = 0  # runs of a compiled program
    captures: int = 0  # recordings made of what a run does: one for each arena of a binding
    replays: int = 0  # runs that found their recording
    regions_run: int = 0  # compiled parts between two decisions of the host that were run
    interpreted_kernels: int = 0  # calls of kernels in runs that no compiled code did
    arrays_made: int = 0  # arrays made for runs: fresh outputs, and copies of unusable inputs

    def __sub__(self, earlier: "Counts") -> "Counts":
        """Return the difference between two moments."""
        before = asdict(earlier)
        return Counts(**{name: now - before[name] for name, now in asdict(self).items()})


class Counters:
    """Counts of the process: read as attributes, raised by :meth:`add` from any thread."""

    def __init__(self) -> None:
        """Start every count at zero."""
        self._lock = Lock()
        self._counts = {field.name: 0 for field in fields(Counts)}
        # What is counted one by one, as several counts a run are: `next` needs no lock, which takes
        # longer than all the rest of a run's bookkeeping.
        self._ones = {name: count() for name in self._counts}

    def _fresh_lock(self) -> None:
        """Replace the lock in a forked child, where another thread may have held it."""
        self._lock = Lock()

    def add(self, name: str, amount: int = 1) -> None:
        """Raise one count of :class:`Counts`; an unknown name is a ``KeyError``."""
        ones = self._ones[name]
        if amount == 1:
            next(ones)
        elif amount:
            with self._lock:
                self._counts[name] += amount

    def snapshot(self) -> Counts:
        """Return all counts at this moment."""
        return Counts(**self._now())

    def _now(self) -> dict[str, int]:
        with self._lock:
            return {n: many + _steps(self._ones[n]) for n, many in self._counts.items()}

    @contextmanager
    def delta(self) -> Iterator["Delta"]:
        """Count what the block does; the counts stand still when the block ends."""
        did = Delta(self)
        try:
            yield did
        finally:
            did.stop()

    def __getattr__(self, name: str) -> int:
        """Return the count of that name."""
        counts: dict[str, int] = self.__dict__.get("_counts", {})
        if name not in counts:
            raise AttributeError(f"there is no counter named {name!r}")
        return self._now()[name]

    def __dir__(self) -> list[str]:
        """Return the attributes, counts included."""
        return sorted([*super().__dir__(), *self._counts])

    def __repr__(self) -> str:
        """Return the counts that are not zero."""
        counted = (f"{name}={n}" for name, n in asdict(self.snapshot()).items() if n)
        return f"Counters({', '.join(counted)})"


def _steps(ones: "count[int]") -> int:
    """Return how often a counter was advanced.

    Printing it is the only way to read it without advancing it.
    """
    return int(repr(ones).removeprefix("count(").removesuffix(")"))


class Delta:
    """Counts since a block began, read as attributes."""

    def __init__(self, counters: Counters) -> None:
        """Begin to count from now."""
        self._counters = counters
        self._before = counters.snapshot()
        self._after: Counts | None = None

    @property
    def counts(self) -> Counts:
        """All counts since the block began, up to its end if it has ended."""
        return (self._after or self._counters.snapshot()) - self._before

    def stop(self) -> None:
        """Stop counting."""
        self._after = self._counters.snapshot()

    def __getattr__(self, name: str) -> int:
        """Return the count of that name since the block began."""
        if name.startswith("_"):
            raise AttributeError(name)
        return int(getattr(self.counts, name))


counters = Counters()

if hasattr(os, "register_at_fork"):  # another thread may have been counting
    os.register_at_fork(after_in_child=counters._fresh_lock)
