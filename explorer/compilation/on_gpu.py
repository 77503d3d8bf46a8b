"""A compilation on the GPU of this machine, as one persistent kernel: runs, times, its walls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from explorer.compilation.inputs import Inputs
from explorer.devices.model import Device
from explorer.errors import DeviceFault
from explorer.frontends.model import Model
from explorer.ir.decisions.wall import Wall
from explorer.ir.shapes.dims import Sizes
from explorer.measure.compare import Measurement, measure
from explorer.measure.machine import machine
from explorer.measure.recorded_run import RecordedRun, recording, write
from explorer.ops.reference.bind import bind_sizes
from explorer.printed import Printed
from explorer.runtime.cuda.driver import Driver
from explorer.runtime.cuda.program import DeviceProgram
from explorer.runtime.cuda.run import ProgramRun
from explorer.runtime.dlpack import BorrowedArray, borrow_array

HELD = 1  # block of a multiprocessor, for all meet between steps: two were slower on an H200


class Compiled(Protocol):
    """What is asked of a compilation."""

    model: Model
    device: Device

    def named(self, inputs: Inputs | tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        """Inputs by name."""

    def planned_wall(self, sizes: Sizes | None = None) -> Wall:
        """What the units of the device would do."""

    def device_program(self, sizes: Sizes | None = None, units: int = 0) -> DeviceProgram:
        """One kernel for all, with so many blocks."""


class OnGpu(Printed):
    """What `Compilation.on_gpu` gives: for each binding of sizes a program with as many blocks as
    the wall has units, or as there are multiprocessors, or as are resident together, whichever is
    fewest. The last binding's stays on the device, with its constants. One run at a time.

    For comparison, `launches` of one "operator" or one "wave" instead of the whole "program", the
    ways of libraries and of Rammer's waves; `graph`: they are asked for at once, as a CUDA graph.
    """

    def __init__(
        self,
        c: Compiled,
        device: Callable[[], Driver],
        launches: str = "program",
        graph: bool = False,
    ) -> None:
        self.c, self.device, self.launches, self.graph = c, device, launches, graph
        self._driver: Driver | None = None
        self._last: tuple[dict[str, int], ProgramRun] | None = None

    def __str__(self) -> str:
        return f"{self.c.model.name} on a GPU, launched by {self.launches}"

    def run(
        self, inputs: Inputs | tuple[np.ndarray, ...], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The outputs by name: those of `out`, or new arrays. An input, and an array of `out`, may
        lie on the device already: what has `__dlpack__` or `__cuda_array_interface__`, as tensors
        of PyTorch and CuPy have, is copied there, and never comes to Python; indices in it are not
        looked at, and those outside are clamped.

        Raises DeviceFault where the device does not do it, and BadOption where the program has no
        thread blocks, or Python decides how it goes on, or an array lies elsewhere, is not
        contiguous, or may not be written; ShapeError or DtypeError where one of `out` is no place
        for its output.
        """
        names = [p.name for p in self.c.model.program.main.params]
        by_name = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs))
        there = {n: x for n, x in _lent(by_name).items() if not x.is_here}
        seen = {name: _seen(there[name]) if name in there else x for name, x in by_name.items()}
        given = self.c.named(seen)
        program = self.program(given)
        try:
            return program.run({**given, **there}, out)
        except DeviceFault:
            self._last = None  # what lay there may be lost
            raise

    def program(self, given: Mapping[str, np.ndarray]) -> ProgramRun:
        """The program under the sizes of some inputs, on the device."""
        sizes = bind_sizes(self.c.model.program, given)
        if self._last is None or self._last[0] != sizes:
            self._last = None  # its memory is free for the next
            self._driver = self._driver or self.device()
            self._last = sizes, self._on(self._driver, sizes)
        return self._last[1]

    def _on(self, driver: Driver, sizes: dict[str, int]) -> ProgramRun:
        planned = self.c.planned_wall(sizes).units
        program = self.c.device_program(sizes, units=min(planned, HELD * self.c.device.units))
        resident = driver.resident(program.printed)
        if program.units > resident > 0:
            each = resident // self.c.device.units * self.c.device.units
            program = self.c.device_program(sizes, units=each or resident)
        return ProgramRun(program, driver, self.launches, self.graph)

    def time(self, inputs: Inputs, seconds: float = 1.0) -> Measurement:
        """How long a run takes, copies to and from the device included: median and 99 % interval
        in microseconds.
        """
        given = self.c.named(inputs)
        run = self.program(given)
        return measure(lambda: run.run(given), seconds=seconds)

    def measured_wall(self, inputs: Inputs, runs: int = 1) -> Wall:
        """The bricks of a real run, by the stamps of the device's own timer: of `runs` in a row the
        one whose makespan is the median.
        """
        given = self.c.named(inputs)
        run, walls = self.program(given), []
        for _ in range(max(1, runs)):
            run.run(given)
            walls.append(run.wall())
        return sorted(walls, key=lambda w: w.total_us)[len(walls) // 2]

    def record(self, path: str | Path, inputs: Inputs, runs: int = 15) -> RecordedRun:
        """Keep a measured wall in a file, with the names of the device and of this machine."""
        given, model = self.c.named(inputs), self.c.model
        wall = self.measured_wall(given, runs)
        blocks = self.program(given).program.plan.blocks
        bound = tuple(sorted(bind_sizes(model.program, given).items()))
        card = f"{wall.device}, {machine()}"
        found = recording(model.name, model.digest, card, bound, wall, blocks)
        write(found, Path(path))
        return found


def _lent(arrays: Mapping[str, Any]) -> dict[str, BorrowedArray]:
    """Those of other libraries."""
    every = ((name, borrow_array(name, x)) for name, x in arrays.items())
    return {name: found for name, found in every if found is not None}


def _seen(x: BorrowedArray) -> np.ndarray:
    """An array with the shape and the dtype of one that lies on a device, for those who check."""
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)
