"""Runs of a device program: inputs in, launches and library calls, outputs out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from explorer.codegen.cuda.persistent import HUNG
from explorer.errors import BadOption, DeviceFault, DtypeError, ShapeError
from explorer.grinder import LibraryTask
from explorer.ir.decisions.wall import Brick, Wall
from explorer.ir.dtypes import numpy_dtype
from explorer.ops.interpreter.evaluate import too_deep
from explorer.ops.interpreter.libraries import call_library
from explorer.runtime.binding.launch_code import LaunchCode
from explorer.runtime.cuda.deadlock import refuse_residency
from explorer.runtime.cuda.driver import Driver, LoadedLaunch
from explorer.runtime.cuda.program import DeviceProgram
from explorer.runtime.cuda.tables import Tables
from explorer.runtime.dlpack import BorrowedArray, borrow_array, writable


class ProgramRun:
    """A device program on a device that already holds its constant data. One run at a time.

    `traced` are the launches of the last run. `launches`: the part in each launch, one of
    `LAUNCHES`; `graph`: several launches are issued at once, as a CUDA graph.
    """

    def __init__(
        self,
        program: DeviceProgram,
        driver: Driver,
        launches: str = "program",
        graph: bool = False,
    ) -> None:
        """Allocate memory on the device and copy constants to it.

        Raises:
            BadOption: The device does not hold all blocks at the same time, control flow
                is split into several launches, or a graph has library calls.
        """
        self.program, self.driver, self.launches = program, driver, launches
        self.steps = program.split(launches)
        if graph and not all(isinstance(step, LaunchCode) for step in self.steps):
            what = f"{program.program.name} calls libraries, which no CUDA graph holds"
            raise BadOption(what, where="graph")
        self.as_graph = graph
        resident = driver.resident(program.printed)
        if reason := refuse_residency(program.units, resident, driver.name):
            most = f"rammer.threads of {resident} or fewer"
            raise BadOption(reason, where="rammer.threads", actual=program.units, try_=most)
        driver.make_room(program.memory_bytes)
        for at, array in program.fixed():
            driver.write(at, array)
        self._loaded: dict[int, tuple[LaunchCode, Tables, LoadedLaunch]] = {}
        self.traced: list[tuple[LaunchCode, Tables, LoadedLaunch]] = []
        self._graph: Callable[[], None] | None = None

    def run(
        self, inputs: Mapping[str, np.ndarray | BorrowedArray], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the outputs by name: those of `out`, of any library and device, or new arrays.

        Raises:
            DeviceFault: The kernel hung or faulted.
            TooDeep: A recursion was too deep.
            ShapeError: An array of `out` has the wrong shape.
            DtypeError: An array of `out` has the wrong dtype.
            BadOption: An array of `out` cannot hold its output.
        """
        program, driver = self.program, self.driver
        places = {name: self._place(name, x) for name, x in (out or {}).items()}
        for name in program.plan.program.inputs:
            driver.write(program.address(name), inputs[name], repeated=True)
        self.traced = []
        if self.as_graph:
            self._replay()
        else:
            for step in self.steps:
                if isinstance(step, LaunchCode):
                    self._launch(step)
                elif isinstance(step, LibraryTask):
                    self._library(step)
        outputs = {}
        for name, at, shape, dtype in program.outputs():
            place = places.get(name)
            if isinstance(place, BorrowedArray):
                driver.hand(at, place)
            else:
                array = np.empty(shape, dtype)
                driver.read(at, array)
                if place is not None:
                    np.copyto(place, array)
            outputs[name] = (out or {})[name] if name in places else array
        return outputs

    def _place(self, name: str, target: Any) -> np.ndarray | BorrowedArray:
        """Return the array that an output goes to, once its type is checked."""
        kinds = {n: (shape, dtype) for n, _, shape, dtype in self.program.outputs()}
        if name not in kinds:
            names = ", ".join(kinds)
            raise ShapeError(f"there is no output {name!r}; the outputs are {names}", where=name)
        borrowed = borrow_array(name, target)
        place = (
            borrowed if borrowed is not None and not borrowed.is_here else writable(name, target)
        )
        for problem, what, actual, want in (
            (ShapeError, "have shape", tuple(place.shape), kinds[name][0]),
            (DtypeError, "be", place.dtype, kinds[name][1]),
        ):
            if actual != want:
                raise problem(
                    f"the array for the output {name!r} must {what} {want}, found {actual}",
                    where=name,
                    expected=want,
                    actual=actual,
                )
        return place

    def _replay(self) -> None:
        """Run all launches at once."""
        self.traced = [
            self._resident_launch(step) for step in self.steps if isinstance(step, LaunchCode)
        ]
        if self._graph is None:
            self._graph = self.driver.graph([loaded for _, _, loaded in self.traced])
        self._graph()

    def _resident_launch(self, code: LaunchCode) -> tuple[LaunchCode, Tables, LoadedLaunch]:
        """Return a launch with its tables, which the device keeps."""
        if id(code) not in self._loaded:
            self._loaded[id(code)] = self._load(code)
        return self._loaded[id(code)]

    def _launch(self, code: LaunchCode) -> None:
        launch = self._resident_launch(code)
        _, tables, loaded = launch
        loaded.run()
        self.traced.append(launch)
        if self.launches != "program":
            return  # no waits and no control flow
        loaded.fetch("state")
        if tables.fault == HUNG:
            raise DeviceFault(
                f"{self.program.program.name} hung on {self.driver.name}: a unit waited too long "
                "for a step of another one, and all of them gave up",
                where=self.driver.name,
            )
        if tables.fault:
            raise too_deep(*code.recursions[tables.fault - 1])

    def _load(self, code: LaunchCode) -> tuple[LaunchCode, Tables, LoadedLaunch]:
        tables = self.program.tables(code)
        return code, tables, self.driver.load(self.program.printed, tables.units, tables.arrays)

    def _library(self, task: LibraryTask) -> None:
        """Call a library from Python, with copies."""
        call, places = task.call, [self._empty(name) for name in task.results]
        args = [None if name is None else self._read(name) for name in task.args]
        values = call_library(call.library, call.function, call.attrs, args, len(places), places)
        for name, place, value in zip(task.results, places, values, strict=True):
            np.copyto(place, value, casting="same_kind")
            self.driver.write(self.program.address(name), place)

    def _empty(self, name: str) -> np.ndarray:
        value = self.program.plan.program.values[name]
        return np.empty(self.program.plan.shape(name), numpy_dtype(value.type.element))

    def _read(self, name: str) -> np.ndarray:
        array = self._empty(name)
        self.driver.read(self.program.address(name), array)
        return array

    def wall(self) -> Wall:
        """Return the bricks of the last run, by its stamps.

        Those of a simulated device are no times: thousandths of a microsecond are reads of its
        timer. Between several launches of a program lies the device's wait for the next; library
        calls take no time in it.
        """
        bricks, cuts, begin, end, last = list[Brick](), list[float](), 0.0, 0.0, float("inf")
        for code, tables, loaded in self.traced:
            loaded.fetch("stamps", "made")
            stamps = [tables.stamps(place) for place in range(tables.units)]
            with_stamps = [s for s in stamps if len(s)]
            first = min((float(s[:, 1].min()) for s in with_stamps), default=0.0)
            begin = (
                end if self.launches == "program" or first < last else end + (first - last) / 1e3
            )
            last = max((float(s[:, 2].max()) for s in with_stamps), default=0.0)
            for place, (unit, own) in enumerate(zip(code.units, stamps, strict=True)):
                times = Counter[int]()
                for row, began, ended in own.tolist():
                    run, at = code.runs[place][row], begin - first / 1e3
                    times[row] += 1
                    o = run.operator
                    brick = Brick(
                        unit, began / 1e3 + at, ended / 1e3 + at, o.name, run.first, run.last,
                        o.origin, run.program, times[row] - 1,
                    )  # fmt: skip
                    bricks.append(brick)
                    end = max(end, brick.end_us)
            cuts.append(end)
        named = self.driver.kind, self.driver.name
        return Wall(
            named[0], tuple(bricks), (), self.program.units, end, device=named[1],
            cuts_us=tuple(cuts[:-1]),
        )  # fmt: skip
