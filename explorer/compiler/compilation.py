"""A compiled model: run it, time it, inspect each step, and explain its decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.cached_property import cached_property
from explorer.codegen.build import KernelCode
from explorer.compiler.options import Options
from explorer.devices.catalogue import SIMULATED
from explorer.devices.cpus import runs_on
from explorer.devices.hardware import Options as HardwareOptions
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.errors import BadOption, IronworksError, did_you_mean
from explorer.frontends.model import Model
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.tiling import Chosen, Tiling
from explorer.ir.decisions.wall import Wall
from explorer.ir.dims import Sizes
from explorer.ir.program import Binding, Program
from explorer.ir.stage import PROMISES, SYSTEMS, Stage
from explorer.measure.this_cpu import this_cpu
from explorer.passes.registry import current_name
from explorer.passes.snapshots import Snapshot, StepTime
from explorer.passes.unchecked import Unchecked
from explorer.plain_text import binding as bound
from explorer.plain_text import counted, duration, size
from explorer.printed import Printed

if TYPE_CHECKING:  # loaded by the method that needs it: compiling runs and explains nothing
    from networkx import DiGraph

    from explorer.compiler.explanation import Explanation
    from explorer.compiler.inputs import Inputs, ModelInputs
    from explorer.compiler.kernels import CompiledKernel
    from explorer.compiler.on_gpu import OnGpu
    from explorer.compiler.versions import Versions
    from explorer.measure.compare import Measurement
    from explorer.measure.recorded_run import RecordedRun
    from explorer.measure.walls import Profile
    from explorer.rammer import Schedule
    from explorer.runtime.cuda.driver import Driver
    from explorer.runtime.cuda.program import DeviceProgram
    from explorer.runtime.executable import Executable
    from explorer.runtime.planning.control_costs import AssumedCosts
    from explorer.runtime.planning.schedule_times import Crossing
    from explorer.runtime.planning.task_times import TaskFact

MET = 8  # units that a block of a GPU waits for one by one, at most, where nothing is said; chosen


class Compilation(Printed):
    """Result of `explorer.compile`. It never changes; several threads may run it."""

    def __init__(
        self,
        model: Model,
        device: Device,
        options: Options,
        program: Program,
        steps: tuple[StepTime, ...],
        snapshots: Callable[[], tuple[Snapshot, ...]],
        codes: Mapping[str, KernelCode],
        recompile: Callable[..., Compilation],
        check: bool = False,
        donate: tuple[str, ...] = (),
        chosen: Callable[[Sizes], Chosen] | None = None,
    ) -> None:
        """Create a compilation; only the driver does.

        `chosen` returns the thread blocks of a GPU that were chosen for another compilation.
        """
        self.donate = donate
        self._chosen = chosen  # thread blocks of a GPU that were chosen for another
        self.model = model
        self.device = device
        self.target = target_of(device)  # of now: a user may register another one later
        self.options = options
        self.program = program  # after the last step
        self.steps = steps
        self._snapshots = snapshots
        self.codes = codes
        self._recompile = recompile
        self.check = check  # runs write over NaN, so that what no task writes shows

    def __str__(self) -> str:
        """Return the first line and a summary of operators, memory, schedule and compile time."""
        return "\n".join((self.first_line, *(f"  {line}" for line in _lines(self))))

    @property
    def first_line(self) -> str:
        """The model, the device and the stage that it was compiled to."""
        return f"{self.model.name} on {self.device.name}, {self.stage.title}"

    def with_options(self, *, until: Stage | str | None = None, **groups: Any) -> Compilation:
        """Compile the same model with some option groups replaced, such as `rammer=`.

        Only the steps that the change affects run again, to the stage of this compilation, or
        through `until`.

        Raises:
            BadOption: There is no such group.
        """
        group_names = [f.name for f in fields(self.options)]
        unknown = [g for g in groups if g not in group_names]
        if unknown:
            raise BadOption(
                f"there is no option group {unknown[0]!r}{did_you_mean(unknown[0], group_names)}",
                where=unknown[0],
                expected=", ".join(group_names),
            )
        compiled = self._recompile(replace(self.options, **groups), until)
        keeps_blocks = self._chosen is not None and set(groups) <= {"rammer"}  # of the same kernels
        return compiled._with_blocks(self._chosen) if keeps_blocks else compiled

    def planned_for(self, sizes: Sizes) -> Compilation:
        """Compile the same model for these sizes.

        Tiles are chosen for them, and pictures start from them. A size of 0 is accepted even if an
        operator states a larger bound. Runs far from the planned sizes get a plan of their own
        without this.

        Raises:
            BadOption: There is no such symbol.
            BoundError: A size is out of bounds.
        """
        from explorer.compiler.inputs import checked_sizes

        program = self.model.program
        all_sizes = checked_sizes(self.model, sizes, program.env.hints)
        return self._recompile(self.options, None, program.env.planned_for(all_sizes))

    @property
    def planned_sizes(self) -> tuple[dict[str, int], ...]:
        """The sizes that a plan exists for, those of `hint` first."""
        return (self.hint, *(c.hint for c in self._versions.others))

    @cached_property
    def _versions(self) -> Versions:
        """The plans for other sizes, made as runs need them."""
        from explorer.compiler.versions import Versions

        return Versions(self)

    def same_program(self, hardware: HardwareOptions) -> Compilation:
        """Return this program, with its kernels, tiles and thread blocks, on changed hardware.

        This is immediate; `with_options(hardware=...)` compiles for the changed device instead.

        Raises:
            BadOption: The device has no such figure, or may not have that value.
        """
        options = replace(self.options, hardware=hardware)
        device, program = self._recompile(options, Stage.IMPORTED).device, self.program
        if program.stage >= Stage.RAMMED:  # with the workers of that device
            from explorer.rammer import Ram

            program = replace(Ram(device, options.rammer)(program), stage=program.stage)
        return self._with_blocks(self._blocks_before, device, options, program)

    def as_recorded(self, run: RecordedRun) -> Compilation:
        """Return the same program planned as in a recorded run.

        On a GPU it has as many blocks as ran and, for the recorded sizes, the thread blocks that
        ran.
        """
        if not self.takes_cuda:
            return self
        from explorer.compiler.weighed_blocks import blocks_of

        compiled = self.of_blocks(run.wall.units)
        return compiled._with_blocks(blocks_of(run, compiled.program, compiled.device))

    def _with_blocks(
        self,
        chosen: Callable[[Sizes], Chosen] | None,
        device: Device | None = None,
        options: Options | None = None,
        program: Program | None = None,
    ) -> Compilation:
        """Return a copy with other thread blocks, and another device, options or program."""
        return Compilation(
            self.model,
            device or self.device,
            options or self.options,
            program or self.program,
            self.steps,
            self._snapshots,
            self.codes,
            self._recompile,
            self.check,
            self.donate,
            chosen,
        )

    def _blocks_before(self, sizes: Sizes) -> Chosen:
        """Return the thread blocks of a binding; the plan may know more symbols than the hint."""
        return self.chosen_blocks({name: sizes[name] for name in self.hint})

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The program after each step.

        If the last program came from disk, all steps run when this is first read.
        """
        return self._snapshots()

    @property
    def stage(self) -> Stage:
        """The stage that it was compiled to."""
        return self.program.stage

    @property
    def seconds(self) -> float:
        """Seconds spent in the steps that did not come from the cache."""
        return sum(s.seconds for s in self.steps if not s.cached)

    @property
    def hint(self) -> dict[str, int]:
        """The sizes that tiles were chosen for and that pictures start from."""
        return dict(self.program.env.hints)

    def snapshot(self, name: str) -> Snapshot:
        """Return the last step of that name, of that stage, or of the system of that name.

        Raises:
            BadOption: There is none.
        """
        for s in reversed(self.snapshots):
            if name == s.name or name.upper() == s.stage.name or SYSTEMS.get(name) == s.stage:
                return s
        if (current := current_name(name)) != name:
            return self.snapshot(current)
        steps = [s.name for s in self.snapshots]
        near = did_you_mean(name, [*steps, *SYSTEMS])
        names = ", ".join(map(repr, steps))
        raise BadOption(f"no step is named {name!r}{near}", where=name, expected=names)

    @cached_property
    def executable(self) -> Executable:
        """Planner of walls and memory, and runner; BadOption before there is a schedule."""
        if self.stage < Stage.PLANNED:
            raise BadOption(
                f"{self.model.name} was compiled until {self.stage.title}: nothing is planned yet",
                where=self.model.name,
                try_="compile without `until`",
            )
        from explorer.runtime.executable import Executable

        return Executable(
            self.program,
            self.codes,
            self.device,
            poisoned=self.check,
            donated=self.donate,
            blocks=self._chosen or self._decided,
        )

    def _decided(self, sizes: Sizes) -> Chosen:
        """Return the thread blocks of kernels whose blocks a wall may not choose."""
        from explorer.compiler.weighed_blocks import decided_blocks

        return decided_blocks(self.program, sizes)

    @property
    def donated(self) -> dict[str, str]:
        """For each donated input the output that takes over its memory; "" if no output can."""
        return self.executable.takeovers()

    @cached_property
    def _runs_here(self) -> bool:
        """True if this machine executes the device's instructions."""
        return runs_on(self.device, this_cpu())

    @property
    def runnable(self) -> Executable:
        """The executable, if it has machine code for this machine; BadOption otherwise."""
        if self.stage < Stage.EMITTED:
            why = f"it was compiled until {self.stage.title} only"
            if not self.device.is_this_cpu:
                why = f"{self.device.name} is a data sheet, not this machine"
            if self.device.name == SIMULATED:
                why = f"{SIMULATED} has no clock, and writes new arrays only"
            gpu = "c.on_gpu(), where a GPU is here" if self.takes_cuda else ""
            raise BadOption(f"{self.model.name} cannot run: {why}", where=self.model.name, try_=gpu)
        if not self._runs_here:
            why = f"{self.device.name} has vectors or instructions that this machine has not"
            raise BadOption(
                f"{self.model.name} cannot run here: {why}; its code can be read",
                where=self.model.name,
            )
        return self.executable

    def named(self, inputs: Inputs | tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        """Return the inputs and the current state by name; positional inputs keep their order."""
        return {**self.state, **self._inputs.named(inputs)}

    @cached_property
    def state(self) -> dict[str, np.ndarray]:
        """The buffers that runs change, by name.

        Each run reads them and leaves them for the next one, so runs of several threads take turns.
        Measurements do not change them.
        """
        return {name: buffer.first.copy() for name, buffer in self.model.state.items()}

    @cached_property
    def _turn(self) -> Lock:
        """The lock of runs that change the state."""
        return Lock()

    @cached_property
    def _inputs(self) -> ModelInputs:
        from explorer.compiler.inputs import ModelInputs

        return ModelInputs(self.model)

    def run(
        self,
        inputs: Inputs | np.ndarray | None = None,
        *more: np.ndarray,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, np.ndarray]:
        """Run the model and return its outputs by name.

        Args:
            inputs: Arrays by name, or the first of arrays in the model's order. Objects with
                `__dlpack__` on this machine, such as tensors of PyTorch and arrays of JAX, are read
                and written in place. A complex input is one array.
            more: The other arrays in order.
            out: Arrays to write outputs into. One may be an input, or overlap one: the result is as
                if it were written after everything else. For a complex output name its parts,
                `name.real` and `name.imag`, which are then returned as such.

        Returns:
            Fresh arrays, those of `out`, or those of donated inputs.

        Raises:
            MissingInput, UnknownInput, DtypeError, ShapeError, BoundError: An input is wrong; it is
                named, and no kernel has run.
            BadOption: An array is on another device, or one of `out` is read-only.
        """
        arrays = self._inputs.of_call(inputs, more)
        if not self.model.state:
            outputs = self._run(arrays, out)
            return outputs if out is not None else self._inputs.joined(outputs)
        with self._turn:
            outputs = self._run({**self.state, **arrays}, out)
            left = {name: outputs.pop(buffer.output) for name, buffer in self.model.state.items()}
            self.state.update(left)
        return outputs

    def _run(
        self, arrays: dict[str, np.ndarray], out: Mapping[str, Any] | None
    ) -> dict[str, np.ndarray]:
        """Run the plan for these sizes and put the outputs where `out` says."""
        if self.device.name == SIMULATED and out is None:
            return self.simulate(arrays)
        places = None if out is None else _writable(out)
        run = self._versions.run_of(arrays) if self._has_sizes else self.runnable.run
        outputs = run(arrays, out=places)
        return outputs if out is None else {**outputs, **out}

    @cached_property
    def _has_sizes(self) -> bool:
        """True if the model has symbolic extents."""
        return bool(self.model.program.env.symbols)

    def simulate(self, inputs: Inputs, seed: int = 0) -> dict[str, np.ndarray]:
        """Run the thread blocks that are printed for a GPU in Python; return the outputs by name.

        Threads run in an order that `seed` determines. Times mean nothing here.

        Raises:
            BadOption: No thread blocks are printed for this device.
            CheckFailed: A thread accesses memory outside an array.
        """
        if not self.takes_cuda or self.stage < Stage.ROLLED:
            raise BadOption(
                f"{self.model.name} has no thread blocks on {self.device.name}",
                where=self.device.name,
                try_='target="cuda-sim"',
            )
        from explorer.codegen.cuda.simulated import simulate

        arrays = self.named(inputs)
        return simulate(self.program, arrays, self.device, seed, self.chosen_blocks)[0]

    def device_program(self, sizes: Sizes | None = None, units: int = 0) -> DeviceProgram:
        """Return the whole program as one persistent kernel for a GPU with a compute capability.

        It has the source, what the assembler predicts of it, and runs, also in the simulator of a
        GPU.

        Args:
            sizes: A size for each symbol; by default those of `hint`.
            units: The number of blocks that are resident together; 0 is as many as the wall has. A
                global barrier precedes an operator that would wait for more than `rammer.meet` of
                them, or 8.

        Raises:
            BadOption: A kernel has no thread blocks, or Python decides the control flow.
            ShapeError: Extents that must be equal differ.
            CheckFailed: Blocks would deadlock.
        """
        if not self.takes_cuda:
            raise BadOption(
                f"{self.model.name} has no thread blocks on {self.device.name}",
                where=self.device.name,
                try_='target="cuda-sim"',
            )
        if units or not self.options.rammer.meet:
            return self.of_blocks(units).device_program(sizes)
        from explorer.runtime.cuda.program import DeviceProgram

        chosen = self._sizes(sizes)
        self.executable.check_relations(chosen)
        return DeviceProgram(self.program, self.executable.plan(chosen), self.device)

    def of_blocks(self, units: int = 0) -> Compilation:
        """Return the same program planned as `device_program` runs it, with `units` blocks.

        0 means as many blocks as the wall has.
        """
        rammer = self.options.rammer
        rammer = replace(rammer, threads=units or rammer.threads, meet=rammer.meet or MET)
        return self.with_options(rammer=rammer)

    def on_gpu(
        self,
        device: Callable[[], Driver] | None = None,
        launches: str = "program",
        graph: bool = False,
    ) -> OnGpu:
        """Return the program on the GPU of this machine, where it is run, timed and recorded.

        The program must be compiled for a data sheet with a compute capability.

        Args:
            device: Makes the driver; by default that of the GPU. The simulator is another one.
            launches: The whole "program" at once, or for comparison one "operator" or one "wave".
            graph: Launch operators or waves as one CUDA graph.

        Raises:
            BadOption: There are no thread blocks.
            DeviceFault: There is no GPU.
        """
        if not self.takes_cuda:
            raise BadOption(
                f"{self.model.name} has no thread blocks on {self.device.name}",
                where=self.device.name,
                try_='target="h100", or the sheet that is nearest to the GPU',
            )
        from explorer.compiler.on_gpu import OnGpu
        from explorer.runtime.cuda.gpu import Gpu

        return OnGpu(self, device or Gpu, launches, graph)

    @property
    def kernels(self) -> tuple[CompiledKernel, ...]:
        """Every kernel call in order, with its code if it was emitted."""
        from explorer.compiler.kernels import CompiledKernel

        out = []
        for b in self.program.kernel_calls:
            name = b.name
            if name in self.codes and b.kernel_call.tiling is not None:
                out.append(CompiledKernel(name, self.codes[name], b.origin, b.kernel_call.tiling))
        return tuple(out)

    @property
    def takes_cuda(self) -> bool:
        """True if its kernels are printed as CUDA, for a compute capability."""
        return self.target.prints_cuda and self.device.takes_cuda

    @cached_property
    def blocks(self) -> tuple[Any, ...]:
        """Every kernel call in order as the device's target prints it under the hints.

        On GPUs they are `BlockKernel`s, on other devices that are not here `PrintedKernel`s; each
        says why if it has no code. Empty where kernels are emitted, and without a code generator.
        """
        if self.target.is_emitted or self.stage < Stage.ROLLED:
            return ()
        return self.target.printed(self.program, self.device, self.hint, self.chosen_blocks())

    def chosen_blocks(self, sizes: Sizes | None = None) -> Chosen:
        """Return the thread blocks that Rammer chose for each kernel call under a binding.

        This is for data sheets of GPUs; these blocks are the bricks of the wall, and they are
        printed. Their axes are named as in the canonical kernel. A call without a program for
        thread blocks has none, and before there is a plan the result is empty.
        """
        if self.stage < Stage.PLANNED or not self.target.uses_thread_blocks:
            return {}
        return self.executable.plan(self._sizes(sizes)).blocks

    def weighed_blocks(
        self, binding: str, sizes: Sizes | None = None
    ) -> tuple[Candidate[Tiling], ...]:
        """Return the thread blocks that Rammer chooses from for a kernel call.

        The block that finishes first when it runs alone comes first; costs are those on all units.
        The result is empty for a call without a program for thread blocks, before there is a plan,
        and on devices other than GPUs.
        """
        if self.stage < Stage.PLANNED or not self.target.uses_thread_blocks:
            return ()
        from explorer.compiler.weighed_blocks import weighed_blocks

        return weighed_blocks(self.executable.planner, binding, self._sizes(sizes))

    def taken_blocks(self, binding: str, sizes: Sizes | None = None) -> tuple[Tiling, ...]:
        """Return those of the weighed blocks that the wall uses."""
        chosen = self.chosen_blocks(sizes)
        if not chosen:
            return ()
        from explorer.compiler.weighed_blocks import taken_blocks

        return taken_blocks(self.program, chosen, binding, self._sizes(sizes))

    def planned_wall(self, sizes: Sizes | None = None) -> Wall:
        """Return the brick wall that Rammer planned for a binding."""
        return self.executable.planned_wall(self._sizes(sizes))

    def graph(self, sizes: Sizes | None = None) -> DiGraph[str]:
        """Return the dataflow as a networkx graph of inputs, calls and outputs; see `call_graph`.

        Calls have their planned time in microseconds (`us`, of all units together), edges the bytes
        that they carry. A program that is not planned yet has no times.
        """
        bound, us = self._sizes(sizes), dict[str, float]()
        if self.stage >= Stage.PLANNED:
            from explorer.measure.walls import profile_of

            rows = profile_of(self.program, self.planned_wall(bound)).kernels
            us = {row.name: row.us for row in rows}
        from explorer.compiler.graph import call_graph

        return call_graph(self.model.program, self.program, bound, us)

    def schedules(self, sizes: Sizes | None = None) -> tuple[Schedule, ...]:
        """Return the schedule of each straight-line run, in the order of the wall's launches."""
        return tuple(self.executable.plan(self._sizes(sizes)).schedules.values())

    def measured_wall(self, inputs: Inputs, runs: int = 1) -> Wall:
        """Return the brick wall of a real run, from time stamps.

        Of `runs` runs in a row it is the one with the median makespan. Its bricks correspond to the
        planned ones one to one.
        """
        return self.runnable.measured_wall(self.named(inputs), runs)

    def record(self, path: str | Path, inputs: Inputs, runs: int = 15) -> RecordedRun:
        """Measure the wall of a run and write it to a file together with the name of this machine.

        `recorded` opens the file elsewhere.
        """
        from explorer.measure.machine import machine
        from explorer.measure.recorded_run import recording, write
        from explorer.ops.interpreter.frame import bind_sizes

        arrays = self.named(inputs)
        wall, sizes = self.measured_wall(arrays, runs), bind_sizes(self.model.program, arrays)
        bound = tuple(sorted(sizes.items()))
        run = recording(self.model.name, self.model.digest, str(machine()), bound, wall)
        write(run, Path(path))
        return run

    def recorded(self, path: str | Path) -> RecordedRun:
        """Return a recorded run of this model, made on any machine.

        It has the measured wall, and `beside` compares it call by call with a planned one. `path`
        may be one of `recordings`.

        Raises:
            SnapshotError: The file is not a recording.
            BadOption: The recording is of another model.
        """
        from explorer.measure.recorded_run import read, shipped

        recordings = shipped(self.model.name)
        name = str(path)
        if name not in recordings and name.isalnum() and not Path(path).exists():
            there = (
                f"there is one on {', '.join(recordings)}"
                if recordings
                else "there is none of this model"
            )
            raise BadOption(
                f"no recording of {self.model.name} on {name} comes with Ironworks: {there}",
                where=self.model.name,
                try_="the path of a file that c.on_gpu().record(path, inputs) has written",
            )
        run = read(recordings.get(name) or Path(path)).of(self.model.digest)
        return run.with_sizes_of(dict(self.model.program.env.hints))

    @property
    def recordings(self) -> tuple[str, ...]:
        """The devices with a recording of this model that comes with Ironworks, such as "h200"."""
        from explorer.measure.recorded_run import shipped

        return tuple(shipped(self.model.name))

    def memory(self, sizes: Sizes | None = None) -> MemoryPlan:
        """Return the memory plan of a binding: every buffer of its arena."""
        return self.executable.memory(self._sizes(sizes))

    def _sizes(self, sizes: Sizes | None) -> dict[str, int]:
        """Return sizes of all symbols: those given, and the hints for the others."""
        from explorer.compiler.inputs import checked_sizes

        return checked_sizes(self.model, {**self.hint, **(sizes or {})}, self.hint)

    def random_inputs(self, sizes: Sizes | None = None) -> dict[str, np.ndarray]:
        """Return inputs of the right shapes: normal floats, and integers that are in bounds."""
        from explorer.passes.random_inputs import random_inputs

        return random_inputs(self.model.program, self._sizes(sizes))

    def time(self, inputs: Inputs, seconds: float = 1.0) -> Measurement:
        """Measure how long a run takes: median and 99 % interval in microseconds."""
        arrays = self.named(inputs)
        from explorer.measure.compare import measure

        runnable = self.runnable
        return measure(lambda: runnable.run(arrays), seconds=seconds)

    def profile(self, inputs: Inputs) -> Profile:
        """Measure the time of each source operator and of each kernel in one run."""
        from explorer.measure.walls import profile_of

        return profile_of(self.program, self.measured_wall(inputs))

    def profiled(
        self,
        inputs: Inputs,
        runs: int = 15,
        *,
        fresh: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Compilation:
        """Return the same compilation with walls that are planned from measured times of tasks.

        The times come from a few stamped runs, or from disk if they are known; `fresh` measures
        again. Nothing is compiled.

        Raises:
            Cancelled: `cancelled()` returned True.
        """
        arrays = self.named(inputs)
        from explorer.measure.task_times import task_profile

        profile = task_profile(self.runnable, arrays, runs, fresh, progress, cancelled)
        return self.with_options(rammer=replace(self.options.rammer, profile=profile))

    def task_facts(self, sizes: Sizes | None = None) -> dict[str, TaskFact]:
        """Return each call's number of tasks, the time of one, and if that was measured."""
        executable = self.executable
        return executable.planner.facts(executable.plan(self._sizes(sizes)))

    def uncounted(self, sizes: Sizes | None = None) -> list[str]:
        """Return the loops and recursions whose trip counts only a run tells.

        Walls are planned with one trip of such a loop, and one call of such a recursion.
        """
        executable = self.executable
        return executable.planner.uncounted(executable.plan(self._sizes(sizes)))

    def crossings(
        self, sizes: Sizes | None = None, supposed: AssumedCosts | None = None
    ) -> tuple[Crossing, ...]:
        """Return the predicted time of each loop's control-flow schedules against its trip count.

        Inner loops come first. The result is empty if only a run tells the sizes. `supposed`
        replaces the costs of a launch and a barrier on this machine.
        """
        grinder = self.options.grinder
        from explorer.runtime.planning.control_costs import AssumedCosts
        from explorer.runtime.planning.control_decisions import crossings

        costs = supposed or AssumedCosts()
        return crossings(self.program, self.device, grinder, self._sizes(sizes), costs)

    def crossing(self, loop: str = "", sizes: Sizes | None = None) -> Crossing:
        """Return the same of one loop, by its name or that of a source operator inside.

        Without a name it is the last loop.

        Raises:
            BadOption: There is no such loop.
        """
        crossings = self.crossings(sizes)
        named = [x for x in crossings if x.loop == loop] or [
            x for x in crossings if loop in x.origin
        ]
        if not (named if loop else crossings):
            names = ", ".join(x.loop for x in crossings) or "none"
            what = (
                f"no loop is named {loop!r}" if loop else "there is no loop whose sizes are known"
            )
            raise BadOption(f"{what} in {self.model.name}", where=loop, expected=names)
        return named[0] if loop else crossings[-1]

    def timed_crossing(
        self,
        inputs: Inputs,
        crossing: Crossing,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Crossing:
        """Measure the schedules of a loop on this machine, with these inputs.

        Where possible the loop is also timed with fewer trips than the inputs cause.

        Raises:
            BadOption: The loop is entered many times.
            Cancelled: `cancelled()` returned True.
        """
        arrays, program, codes = self.named(inputs), self.runnable.program, self.codes
        report = (progress, cancelled)
        from explorer.measure.control_schedules import timed_crossing

        return timed_crossing(program, codes, self.device, crossing, arrays, *report)

    def binding(self, name: str) -> Binding:
        """Return the kernel call of that name, or one that holds a source operator of that name."""
        calls = self.program.kernel_calls
        matching = [b for b in calls if b.name == name] or [b for b in calls if name in b.origin]
        if not matching:
            names = [b.name for b in calls]
            raise BadOption(
                f"no kernel or operator is named {name!r}{did_you_mean(name, names)}",
                where=name,
                expected=", ".join(names),
            )
        return matching[-1]

    def explain(self, name: str, tile: Mapping[str, int] | None = None) -> Explanation:
        """Explain the tiling of a kernel, and what another tile would cost or which rule it breaks.

        The other tile is the tiling in use, or on a GPU the thread block, with these sizes.

        Raises:
            BadOption: Nothing was tiled.
        """
        binding = self.binding(name)
        from explorer.compiler.explanation import explained

        explanation = explained(self.program, self.device, binding, self.hint, tile)
        blocks, taken = self.weighed_blocks(binding.name), self.taken_blocks(binding.name)
        return replace(explanation, blocks=blocks, taken=taken) if taken else explanation


def _writable(out: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return arrays over the memory of a user's, which a run writes into."""
    from explorer.runtime.dlpack import writable

    return {name: writable(name, x) for name, x in out.items()}


def _lines(c: Compilation) -> Iterator[str]:
    """Yield a summary of operators, memory, schedule and compile time."""
    yield PROMISES[c.stage]
    unchecked = [s.checked for s in c.steps if isinstance(s.checked, Unchecked)]
    for reason in dict.fromkeys(unchecked):
        yield f"{counted(unchecked.count(reason), 'step')} {reason}"
    for step in c.steps:
        if isinstance(step.checked, str) and not isinstance(step.checked, Unchecked):
            yield f"WRONG after {step.name!r}: {step.checked}"
    calls, library = len(c.program.kernel_calls), len(c.program.library_calls)
    operators = counted(len(c.model.program.sources), "operator")
    if c.stage >= Stage.LEGALIZED:
        different = len({k.code.key for k in c.kernels})
        code = f" of {counted(different, 'kernel')}" if different else ""
        left = f", {counted(library, 'library call')}" if library else ""
        operators += f" in {counted(calls, 'call')}{code}{left}"
    yield operators
    yield from _plan(c)
    yield f"{counted(len(c.steps), 'step')}, {c.seconds:.2f} s"


def _plan(c: Compilation) -> Iterator[str]:
    """Yield memory and schedule under the planned sizes, or why there is none."""
    if c.stage < Stage.PLANNED:
        return
    try:
        memory, wall = c.memory(), c.planned_wall()
    except IronworksError as problem:
        yield problem.sentence
        return
    naive = size(memory.naive_bytes)
    yield f"memory {size(memory.planned_bytes)}; one buffer each would take {naive}"
    tasks, units = counted(len(wall.bricks), "task"), counted(wall.units, c.device.unit_word)
    yield f"{tasks} on {units}, predicted {duration(wall.total_us)} per run{bound(c.hint)}"
