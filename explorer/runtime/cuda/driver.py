"""What a persistent kernel is launched with: a GPU, or its stand-in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from explorer.codegen.cuda.persistent import MOVING, ProgramSource
from explorer.codegen.cuda.simulator import run_program_source
from explorer.errors import BadOption
from explorer.runtime.dlpack import BorrowedArray


class Loaded(Protocol):
    """A launch whose tables lie in the device's memory, to be run as often as one likes."""

    def run(self) -> None:
        """Begin once more, behind what was asked for before."""

    def tell(self, *names: str) -> None:
        """Let the arrays of these names have what the last run left, when it is over."""


class Driver(Protocol):
    """One memory and a way to launch; addresses count bytes from the memory's beginning. `kind` is
    that of walls which are made of its stamps.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...

    def resident(self, source: ProgramSource) -> int:
        """How many blocks of it the device holds at the same time."""

    def make_room(self, count: int) -> None:
        """Memory of so many bytes, in the place of what there was."""

    def write(self, at: int, array: np.ndarray | BorrowedArray, again: bool = False) -> None:
        """Copy an array there, behind what was asked for before; `again`: it is done for each run,
        so that what it takes is kept.
        """

    def hand(self, at: int, array: BorrowedArray) -> None:
        """Copy from there to an array that lies on the device; it is there then."""

    def read(self, at: int, array: np.ndarray) -> None:
        """Fill an array from there, when all that was asked for is done."""

    def load(self, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]) -> Loaded:
        """A launch with its tables, ready to be run."""

    def graph(self, launches: Sequence[Loaded]) -> Callable[[], None]:
        """What runs these one behind the other, asked for at once."""


class StandIn:
    """A device in Python, of which `places` blocks are resident; `seed` is of the order in which
    blocks and threads take turns. `watched`: it tells a deadlock; else the kernel's own clock does.
    """

    def __init__(self, places: int, seed: int = 0, watched: bool = True) -> None:
        self.name, self.kind = "the stand-in", "simulated"
        self.places, self.seed = places, seed
        self.watched = watched
        self.memory = np.zeros(0, np.uint8)

    def resident(self, source: ProgramSource) -> int:
        """As many as it was made with."""
        return self.places

    def make_room(self, count: int) -> None:
        """All poison: NaN as a float of any width."""
        self.memory = np.full(-(-count // 8) * 8, 0xFF, np.uint8)

    def write(self, at: int, array: np.ndarray | BorrowedArray, again: bool = False) -> None:
        """At once."""
        if isinstance(array, BorrowedArray):
            raise BadOption(f"no array lies on {self.name}", where=self.name)
        bytes_ = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.memory[at : at + bytes_.size] = bytes_

    def read(self, at: int, array: np.ndarray) -> None:
        """At once."""
        bytes_ = array.reshape(-1).view(np.uint8)
        bytes_[:] = self.memory[at : at + bytes_.size]

    def hand(self, at: int, array: BorrowedArray) -> None:
        """Nothing lies there."""
        raise BadOption(f"no array lies on {self.name}", where=self.name)

    def load(self, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]) -> Loaded:
        """Nothing is copied."""
        return _InTurns(self, source, units, arrays)

    def graph(self, launches: Sequence[Loaded]) -> Callable[[], None]:
        """As they are."""

        def run() -> None:
            for launch in launches:
                launch.run()

        return run


class _InTurns:
    """A launch whose blocks take turns."""

    def __init__(
        self, device: StandIn, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]
    ) -> None:
        self.device, self.source, self.units, self.arrays = device, source, units, arrays
        self.fresh = {name: arrays[name].copy() for name in MOVING}

    def run(self) -> None:
        """At once, to the end."""
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

    def tell(self, *names: str) -> None:
        """They have it."""
