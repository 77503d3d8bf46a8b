"""The part of a compilation that pictures read: the names that API.md promises.

A measurement is also put into words, the cells of a table, and error bars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from explorer.devices.hardware import Options as Hardware
from explorer.devices.listing import Listings
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.decided import Decisions
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.decisions.wall import Wall
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.measure.recorded_run import RecordedRun
from explorer.rammer import Schedule
from explorer.runtime.planning.control_costs import AssumedCosts
from explorer.runtime.planning.schedule_times import Crossing
from widgets.draw.table import Cell, time_text

Arrays = Mapping[str, np.ndarray]


class Snapshot(Protocol):
    """One step of the pipeline: the program before and after it."""

    @property
    def name(self) -> str:
        """The step's name."""

    @property
    def stage(self) -> Stage:
        """The stage that it belongs to."""

    @property
    def before(self) -> Program:
        """The program before the step."""

    @property
    def after(self) -> Program:
        """The program after the step."""

    @property
    def seconds(self) -> float:
        """The time that the step took."""

    @property
    def cached(self) -> bool:
        """True if its result was reused from an earlier compilation."""

    @property
    def checked(self) -> None | bool | str:
        """The result of its check: None unless checked, a text for a failure."""

    @property
    def decisions(self) -> Decisions:
        """The decisions of the step."""


class Kernel(Protocol):
    """A compiled kernel of one binding."""

    @property
    def name(self) -> str:
        """The name of its binding."""

    @property
    def source(self) -> str:
        """Its source text."""

    @property
    def listings(self) -> Listings:
        """Its LLVM IR and assembly."""

    @property
    def origins(self) -> frozenset[str]:
        """The source operators that it computes."""


class Measurement(Protocol):
    """A timing: the median and the 99 % interval of n runs."""

    @property
    def median_us(self) -> float:
        """The median in microseconds."""

    @property
    def low_us(self) -> float:
        """The lower end of the interval."""

    @property
    def high_us(self) -> float:
        """The upper end of the interval."""

    @property
    def n(self) -> int:
        """The number of runs."""


class Compiled(Protocol):
    """A finished compilation."""

    @property
    def model(self) -> Any:
        """The model that was compiled."""

    @property
    def device(self) -> Any:
        """The device that it was compiled for."""

    @property
    def options(self) -> Any:
        """The options of all systems."""

    @property
    def program(self) -> Program:
        """The program of the last stage."""

    @property
    def planned_sizes(self) -> Sequence[Sizes]:
        """The sizes that a plan exists for, those of the hints first."""

    @property
    def snapshots(self) -> Sequence[Snapshot]:
        """The steps of the pipeline."""

    @property
    def kernels(self) -> Sequence[Kernel]:
        """The compiled kernels."""

    @property
    def blocks(self) -> Sequence[Kernel]:
        """Every kernel call in order as a GPU's thread block under the hints."""

    def chosen_blocks(self, sizes: Sizes) -> Mapping[str, tuple[Tiling, ...]]:
        """Return the thread blocks that Rammer chose for each kernel call."""

    def weighed_blocks(self, binding: str, sizes: Sizes) -> tuple[Candidate[Tiling], ...]:
        """Return the candidates for a call's thread block, with their costs."""

    def taken_blocks(self, binding: str, sizes: Sizes) -> tuple[Tiling, ...]:
        """Return those of the weighed blocks that the wall uses."""

    def planned_wall(self, sizes: Sizes) -> Wall:
        """Return the predicted wall."""

    def schedules(self, sizes: Sizes) -> Sequence[Schedule]:
        """Return the schedule of each straight-line run, in the order of the wall's launches."""

    def measured_wall(self, inputs: Arrays) -> Wall:
        """Run once and return the measured wall."""

    def memory(self, sizes: Sizes) -> MemoryPlan:
        """Return the memory plan of a binding."""

    def recorded(self, path: str | Path) -> RecordedRun:
        """Read a recorded run of this model: a file, or the device of one of `recordings`."""

    @property
    def recordings(self) -> Sequence[str]:
        """The devices with a shipped recording of this model, such as "h200"."""

    def as_recorded(self, run: RecordedRun) -> Compiled:
        """Return the same program planned as in a recorded run."""

    def crossings(self, sizes: Sizes, supposed: AssumedCosts) -> Sequence[Crossing]:
        """Return the predicted time of each loop's schedules against its trip count."""

    def time(self, inputs: Arrays, seconds: float = 1.0) -> Measurement:
        """Time runs for about `seconds`."""

    def with_options(self, *, until: Stage | None = None, **changes: Any) -> Compiled:
        """Recompile with other options."""

    def same_program(self, hardware: Hardware) -> Compiled:
        """Return this program, with its kernels, tiles and thread blocks, on changed hardware."""


COLUMNS = ("measured µs", "from µs", "to µs", "n")


def measured_text(m: Measurement) -> str:
    """Return the median, its 99 % interval and the number of runs."""
    return (
        f"measured {time_text(m.median_us)} ({time_text(m.low_us)} to {time_text(m.high_us)}, "
        f"n = {m.n:,})"
    )


def cells(m: Measurement | None) -> tuple[Cell, ...]:
    """Return a cell for each of `COLUMNS`, empty without a measurement."""
    if m is None:
        return ("",) * len(COLUMNS)
    return (round(m.median_us, 3), round(m.low_us, 3), round(m.high_us, 3), m.n)


def whiskers(measured: Sequence[Measurement], colour: str, **look: Any) -> dict[str, Any]:
    """Return intervals as plotly's error bars; `look` is their thickness and width in pixels."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [m.high_us - m.median_us for m in measured],
        "arrayminus": [m.median_us - m.low_us for m in measured],
        "color": colour,
        **look,
    }
