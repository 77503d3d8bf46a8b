"""Drivers that launch persistent kernels: a GPU, or its simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from warnings import warn

import numpy as np

from explorer.codegen.cuda.persistent import MOVING, ProgramSource
from explorer.codegen.cuda.simulator import run_program_source
from explorer.errors import BadOption
from explorer.runtime.dlpack import BorrowedArray


class LoadedLaunch(Protocol):
    """A launch whose tables are in the device's memory, ready for any number of runs."""

    def run(self) -> None:
        """Start the launch after all previous requests."""

    def fetch(self, *names: str) -> None:
        """Fetch the arrays of these names from the last run, when it is over."""


class Driver(Protocol):
    """One memory and a way to launch; addresses are bytes from the memory's beginning."""

    @property
    def name(self) -> str:
        """The name of the device."""
        ...

    @property
    def kind(self) -> str:
        """The kind of walls made of its time stamps."""
        ...

    def resident(self, source: ProgramSource) -> int:
        """Return how many blocks of a source the device holds at the same time."""

    def make_room(self, count: int) -> None:
        """Allocate `count` bytes in place of the previous memory."""

    def write(self, at: int, array: np.ndarray | BorrowedArray, repeated: bool = False) -> None:
        """Copy an array to an address, after all previous requests.

        `repeated`: this is done for each run, so its buffers are kept.
        """

    def hand(self, at: int, array: BorrowedArray) -> None:
        """Copy from an address to an array on the device, and wait for it."""

    def read(self, at: int, array: np.ndarray) -> None:
        """Fill an array from an address, when all previous requests are done."""

    def load(
        self, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]
    ) -> LoadedLaunch:
        """Return a launch with its tables, ready to run."""

    def graph(self, launches: Sequence[LoadedLaunch]) -> Callable[[], None]:
        """Return a function that runs these launches one after the other in one request."""


class SimulatedDriver:
    """A simulated device with `places` resident blocks.

    `seed` determines the order in which blocks and threads take turns. `watched`: it detects
    deadlocks; otherwise the kernel's own clock does.
    """

    def __init__(self, places: int, seed: int = 0, watched: bool = True) -> None:
        """Create a device with empty memory."""
        self.name, self.kind = "the stand-in", "simulated"
        self.places, self.seed = places, seed
        self.watched = watched
        self.memory = np.zeros(0, np.uint8)

    def resident(self, source: ProgramSource) -> int:
        """Return the number of places."""
        return self.places

    def make_room(self, count: int) -> None:
        """Allocate memory filled with poison: NaN as a float of any width."""
        self.memory = np.full(-(-count // 8) * 8, 0xFF, np.uint8)

    def write(self, at: int, array: np.ndarray | BorrowedArray, repeated: bool = False) -> None:
        """Copy at once."""
        if isinstance(array, BorrowedArray):
            raise BadOption(f"there is no array on {self.name}", where=self.name)
        bytes_ = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.memory[at : at + bytes_.size] = bytes_

    def read(self, at: int, array: np.ndarray) -> None:
        """Copy at once."""
        bytes_ = array.reshape(-1).view(np.uint8)
        bytes_[:] = self.memory[at : at + bytes_.size]

    def hand(self, at: int, array: BorrowedArray) -> None:
        """Refuse: there is no array on a simulated device."""
        raise BadOption(f"there is no array on {self.name}", where=self.name)

    def load(
        self, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]
    ) -> LoadedLaunch:
        """Return the launch; nothing is copied."""
        return _SimulatedLaunch(self, source, units, arrays)

    def graph(self, launches: Sequence[LoadedLaunch]) -> Callable[[], None]:
        """Return a function that runs the launches."""

        def run() -> None:
            for launch in launches:
                launch.run()

        return run


class _SimulatedLaunch:
    """A launch whose blocks take turns."""

    def __init__(
        self,
        device: SimulatedDriver,
        source: ProgramSource,
        units: int,
        arrays: Mapping[str, np.ndarray],
    ) -> None:
        self.device, self.source, self.units, self.arrays = device, source, units, arrays
        self.fresh = {name: arrays[name].copy() for name in MOVING}

    def run(self) -> None:
        """Run to the end."""
        device, source = self.device, self.source
        for name, values in self.fresh.items():
            self.arrays[name][:] = values
        views = {f"memory_{d}": device.memory.view(d) for d in source.memories}
        run_program_source(
            source.source,
            self.units,
            source.threads,
            source.shared_bytes,
            {**self.arrays, **views},
            device.seed,
            device.watched,
        )

    def fetch(self, *names: str) -> None:
        """Do nothing: the arrays are shared."""


def __getattr__(name: str) -> object:
    """Return `SimulatedDriver` by its former name, `StandIn`, with a DeprecationWarning."""
    if name != "StandIn":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(f"{__name__}.StandIn is SimulatedDriver now", DeprecationWarning, stacklevel=2)
    return SimulatedDriver
