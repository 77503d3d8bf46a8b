"""A compilation on the GPU of this machine as one persistent kernel: runs, times and walls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from explorer.compiler.inputs import Inputs
from explorer.devices.model import Device
from explorer.errors import DeviceFault
from explorer.frontends.model import Model
from explorer.ir.decisions.wall import Wall
from explorer.ir.dims import Sizes
from explorer.measure.compare import Measurement, measure
from explorer.measure.machine import machine
from explorer.measure.recorded_run import RecordedRun, recording, write
from explorer.ops.interpreter.frame import bind_sizes
from explorer.printed import Printed
from explorer.runtime.cuda.driver import Driver
from explorer.runtime.cuda.program import DeviceProgram
from explorer.runtime.cuda.run import ProgramRun
from explorer.runtime.dlpack import BorrowedArray, borrow_array

BLOCKS_PER_UNIT = 1  # because of the barriers between steps: two were slower on an H200


class Compiled(Protocol):
    """The parts of a compilation that are used here."""

    model: Model
    device: Device

    def named(self, inputs: Inputs | tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        """Return inputs by name."""

    def planned_wall(self, sizes: Sizes | None = None) -> Wall:
        """Return the planned wall of the device's units."""

    def device_program(self, sizes: Sizes | None = None, units: int = 0) -> DeviceProgram:
        """Return the program as one kernel with `units` blocks."""


class OnGpu(Printed):
    """Result of `Compilation.on_gpu`: a persistent program for each binding of sizes.

    It has as many blocks as the wall has units, as there are multiprocessors, or as are resident
    together, whichever is fewest. The program of the last binding stays on the device with its
    constants. One run at a time.

    For comparison, `launches` of one "operator" or one "wave" replace the whole "program", as
    libraries and Rammer's waves do; `graph` launches them as one CUDA graph.
    """

    def __init__(
        self,
        c: Compiled,
        device: Callable[[], Driver],
        launches: str = "program",
        graph: bool = False,
    ) -> None:
        """Prepare a compilation for a driver; nothing is loaded yet."""
        self.c, self.device, self.launches, self.graph = c, device, launches, graph
        self._driver: Driver | None = None
        self._last: tuple[dict[str, int], ProgramRun] | None = None

    def __str__(self) -> str:
        """Return the model and the kind of launches."""
        return f"{self.c.model.name} on a GPU, launched by {self.launches}"

    def run(
        self, inputs: Inputs | tuple[np.ndarray, ...], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the model and return its outputs by name: those of `out`, or new arrays.

        An input, and an array of `out`, may be on the device: objects with `__dlpack__` or
        `__cuda_array_interface__`, such as tensors of PyTorch and CuPy, are copied on the device.
        Indices in them are not checked; indices out of bounds are clamped.

        Raises:
            DeviceFault: The device fails.
            BadOption: The program has no thread blocks, Python decides the control flow, or an
                array is elsewhere, not contiguous, or read-only.
            ShapeError, DtypeError: An array of `out` does not fit its output.
        """
        names = [p.name for p in self.c.model.program.main.params]
        by_name = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs))
        there = {n: x for n, x in _borrowed(by_name).items() if not x.is_here}
        stand_ins = {
            name: _stand_in(there[name]) if name in there else x for name, x in by_name.items()
        }
        arrays = self.c.named(stand_ins)
        program = self.program(arrays)
        try:
            return program.run({**arrays, **there}, out)
        except DeviceFault:
            self._last = None  # what lay there may be lost
            raise

    def program(self, arrays: Mapping[str, np.ndarray]) -> ProgramRun:
        """Return the program on the device for the sizes of some inputs."""
        sizes = bind_sizes(self.c.model.program, arrays)
        if self._last is None or self._last[0] != sizes:
            self._last = None  # its memory is free for the next
            self._driver = self._driver or self.device()
            self._last = sizes, self._on(self._driver, sizes)
        return self._last[1]

    def _on(self, driver: Driver, sizes: dict[str, int]) -> ProgramRun:
        """Load the program for these sizes with as many blocks as can be resident."""
        planned = self.c.planned_wall(sizes).units
        most = BLOCKS_PER_UNIT * self.c.device.units
        program = self.c.device_program(sizes, units=min(planned, most))
        resident = driver.resident(program.printed)
        if program.units > resident > 0:
            each = resident // self.c.device.units * self.c.device.units
            program = self.c.device_program(sizes, units=each or resident)
        return ProgramRun(program, driver, self.launches, self.graph)

    def time(self, inputs: Inputs, seconds: float = 1.0) -> Measurement:
        """Measure a run, copies to and from the device included.

        The result is the median and the 99 % interval in microseconds.
        """
        arrays = self.c.named(inputs)
        run = self.program(arrays)
        return measure(lambda: run.run(arrays), seconds=seconds)

    def measured_wall(self, inputs: Inputs, runs: int = 1) -> Wall:
        """Return the bricks of a real run by the stamps of the device's timer.

        Of `runs` runs in a row it is the one with the median makespan.
        """
        arrays = self.c.named(inputs)
        run, walls = self.program(arrays), []
        for _ in range(max(1, runs)):
            run.run(arrays)
            walls.append(run.wall())
        return sorted(walls, key=lambda w: w.total_us)[len(walls) // 2]

    def record(self, path: str | Path, inputs: Inputs, runs: int = 15) -> RecordedRun:
        """Write a measured wall to a file, with the names of the device and of this machine."""
        arrays, model = self.c.named(inputs), self.c.model
        wall = self.measured_wall(arrays, runs)
        blocks = self.program(arrays).program.plan.blocks
        bound = tuple(sorted(bind_sizes(model.program, arrays).items()))
        card = f"{wall.device}, {machine()}"
        recorded = recording(model.name, model.digest, card, bound, wall, blocks)
        write(recorded, Path(path))
        return recorded


def _borrowed(arrays: Mapping[str, Any]) -> dict[str, BorrowedArray]:
    """Return the arrays that belong to other libraries."""
    every = ((name, borrow_array(name, x)) for name, x in arrays.items())
    return {name: borrowed for name, borrowed in every if borrowed is not None}


def _stand_in(x: BorrowedArray) -> np.ndarray:
    """Return an array with the shape and dtype of one on a device, for checks."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)
