"""A compiled model: run it, time it, look at each step, ask it why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.cached_property import cached_property
from explorer.codegen.build import KernelCode
from explorer.compilation.explanation import Explanation, explained
from explorer.compilation.graph import call_graph
from explorer.compilation.inputs import Inputs, ModelInputs, checked_sizes
from explorer.compilation.kernels import CompiledKernel
from explorer.compilation.versions import Versions
from explorer.devices.catalogue import SIMULATED
from explorer.devices.cpus import runs_on
from explorer.devices.hardware import Options as HardwareOptions
from explorer.devices.model import Device
from explorer.errors import BadOption, IronworksError, did_you_mean
from explorer.frontends.model import Model
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.tiling import Block, Chosen
from explorer.ir.decisions.wall import Wall
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import Sizes
from explorer.ir.stage import PROMISES, SYSTEMS, Stage
from explorer.measure.compare import Measurement, measure
from explorer.measure.crossing_points import timed_crossing
from explorer.measure.machine import machine
from explorer.measure.profile import Profile, profile_of
from explorer.measure.recorded_run import RecordedRun, read, recording, shipped, write
from explorer.measure.task_times import task_profile
from explorer.measure.this_machine.this_cpu import this_cpu
from explorer.ops.reference.bind import bind_sizes
from explorer.options import Options
from explorer.passes.pipeline.pipeline import Snapshot, StepTime
from explorer.passes.pipeline.random_inputs import random_inputs
from explorer.plain_text import binding as bound
from explorer.plain_text import counted, duration, size
from explorer.printed import Printed
from explorer.rammer import Ram, Schedule
from explorer.runtime.control.costs import Supposed
from explorer.runtime.control.select_control_schedule import crossings
from explorer.runtime.control.way_times import Crossing
from explorer.runtime.dlpack import writable
from explorer.runtime.executable import Executable
from explorer.runtime.planning.runs.task_times import TaskFact

if TYPE_CHECKING:  # what makes code for GPUs is loaded where it is asked for, and networkx
    from networkx import DiGraph

    from explorer.codegen.cuda.block_kernel import BlockKernel
    from explorer.compilation.on_gpu import OnGpu
    from explorer.runtime.cuda.driver import Driver
    from explorer.runtime.cuda.program import DeviceProgram

MET = 8  # units that a block of a GPU waits for one by one, at most, where nothing is said; chosen


class Compilation(Printed):
    """What `explorer.compile` gives. It never changes; it may be run from several threads."""

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
        self.donate = donate
        self._chosen = chosen  # thread blocks of a GPU that were chosen for another
        self.model = model
        self.device = device
        self.options = options
        self.program = program  # after the last step
        self.steps = steps
        self._snapshots = snapshots
        self.codes = codes
        self._recompile = recompile
        self.check = check  # runs write over NaN, so that what no task writes shows

    def __str__(self) -> str:
        return "\n".join((self.first_line, *(f"  {line}" for line in _lines(self))))

    @property
    def first_line(self) -> str:
        """The model, the device and how far it was compiled."""
        return f"{self.model.name} on {self.device.name}, {self.stage.name}"

    def with_options(self, *, until: Stage | str | None = None, **groups: Any) -> Compilation:
        """The same model with some option groups replaced, such as `rammer=`; only what follows
        from the change is done again, as far as this one came, or through `until`.

        Raises BadOption for a group that there is not.
        """
        known = [f.name for f in fields(self.options)]
        unknown = [g for g in groups if g not in known]
        if unknown:
            raise BadOption(
                f"there is no option group {unknown[0]!r}{did_you_mean(unknown[0], known)}",
                where=unknown[0],
                expected=", ".join(known),
            )
        found = self._recompile(replace(self.options, **groups), until)
        same = self._chosen is not None and set(groups) <= {"rammer"}  # of the same kernels
        return found._with_blocks(self._chosen) if same else found

    def planned_for(self, sizes: Sizes) -> Compilation:
        """The same model compiled for these sizes: tiles are chosen for them, and pictures start
        from them. A size of 0 is one that it takes, whatever is known of its operators. Runs far
        from the sizes that a plan was made for come to one of their own by themselves.

        Raises BadOption where there is no such symbol, BoundError where a size is out of bounds.
        """
        program = self.model.program
        known = checked_sizes(self.model, sizes, program.env.hints)
        return self._recompile(self.options, None, program.env.planned_for(known))

    @property
    def planned_sizes(self) -> tuple[dict[str, int], ...]:
        """The sizes that a plan was made for so far: first those of `hint`."""
        return (self.hint, *(c.hint for c in self._versions.others))

    @cached_property
    def _versions(self) -> Versions:
        return Versions(self)

    def same_program(self, hardware: HardwareOptions) -> Compilation:
        """This program as it is, with its kernels, their tiles and thread blocks, planned for the
        device with other figures: what is known at once of `with_options(hardware=...)`, which
        compiles for them.

        Raises BadOption where the device has no such figure, or may not have that value.
        """
        options = replace(self.options, hardware=hardware)
        device, program = self._recompile(options, Stage.IMPORTED).device, self.program
        if program.stage >= Stage.RAMMED:  # with the workers of that device
            program = replace(Ram(device, options.rammer)(program), stage=program.stage)
        return self._with_blocks(self._blocks_before, device, options, program)

    def as_recorded(self, run: RecordedRun) -> Compilation:
        """The same planned as it was when a run of it was recorded: on a GPU with as many blocks as
        ran and, under that binding, with the thread blocks that ran.
        """
        if not self.device.takes_cuda:
            return self
        from explorer.compilation.as_recorded import blocks_of

        found = self.of_blocks(run.wall.units)
        return found._with_blocks(blocks_of(run, found.program, found.device))

    def _with_blocks(
        self,
        chosen: Callable[[Sizes], Chosen] | None,
        device: Device | None = None,
        options: Options | None = None,
        program: Program | None = None,
    ) -> Compilation:
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
        """The thread blocks of a binding, of whose symbols the plan may know more."""
        return self.chosen_blocks({name: sizes[name] for name in self.hint})

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """What each step made of the program; where the last one was found on disk, all are run
        when this is first asked for.
        """
        return self._snapshots()

    @property
    def stage(self) -> Stage:
        """How far it was compiled."""
        return self.program.stage

    @property
    def seconds(self) -> float:
        """Time spent in the steps that were not remembered."""
        return sum(s.seconds for s in self.steps if not s.kept)

    @property
    def hint(self) -> dict[str, int]:
        """The binding that tiles were chosen for and that pictures start from."""
        return dict(self.program.env.hints)

    def snapshot(self, name: str) -> Snapshot:
        """The last step of that name, of that stage, or of the system of that name.

        Raises BadOption where there is none.
        """
        for s in reversed(self.snapshots):
            if name == s.name or name.upper() == s.stage.name or SYSTEMS.get(name) == s.stage:
                return s
        steps = [s.name for s in self.snapshots]
        near = did_you_mean(name, [*steps, *SYSTEMS])
        known = ", ".join(map(repr, steps))
        raise BadOption(f"no step is named {name!r}{near}", where=name, expected=known)

    @cached_property
    def executable(self) -> Executable:
        """What plans walls and memory, and runs; raises BadOption before a schedule is there."""
        if self.stage < Stage.PLANNED:
            raise BadOption(
                f"{self.model.name} was compiled until {self.stage.name}: nothing is planned yet",
                where=self.model.name,
                try_="compile without `until`",
            )
        return Executable(
            self.program,
            self.codes,
            self.device,
            poisoned=self.check,
            donated=self.donate,
            blocks=self._chosen or self._decided,
        )

    def _decided(self, sizes: Sizes) -> Chosen:
        """The thread blocks that a wall may take where it may not weigh others."""
        from explorer.compilation.weighed_blocks import decided_blocks

        return decided_blocks(self.program, sizes)

    @property
    def donated(self) -> dict[str, str]:
        """For each donated input the output that takes its memory over; "" where no output can."""
        return self.executable.takeovers()

    @cached_property
    def _runs_here(self) -> bool:
        return runs_on(self.device, this_cpu())

    @property
    def runnable(self) -> Executable:
        """The same where there is machine code for this machine; raises BadOption where there is
        none.
        """
        if self.stage < Stage.EMITTED:
            why = f"it was compiled until {self.stage.name} only"
            if not self.device.is_this_cpu:
                why = f"{self.device.name} is a data sheet, not this machine"
            if self.device.name == SIMULATED:
                why = f"{SIMULATED} has no clock, and writes new arrays only"
            gpu = "c.on_gpu(), where a GPU is here" if self.device.takes_cuda else ""
            raise BadOption(f"{self.model.name} cannot run: {why}", where=self.model.name, try_=gpu)
        if not self._runs_here:
            why = f"{self.device.name} has vectors or instructions that this machine has not"
            raise BadOption(
                f"{self.model.name} cannot run here: {why}; its code can be read",
                where=self.model.name,
            )
        return self.executable

    def named(self, inputs: Inputs | tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        """Inputs by name; positional ones are taken in the model's order. The state is as it is."""
        return {**self.state, **self._inputs.named(inputs)}

    @cached_property
    def state(self) -> dict[str, np.ndarray]:
        """The buffers that runs change, by name: each run reads them and leaves them for the next
        one, so that runs of several threads take turns. Measurements leave them as they are.
        """
        return {name: held.first.copy() for name, held in self.model.state.items()}

    @cached_property
    def _turn(self) -> Lock:
        return Lock()

    @cached_property
    def _inputs(self) -> ModelInputs:
        return ModelInputs(self.model)

    def run(
        self,
        inputs: Inputs | np.ndarray | None = None,
        *more: np.ndarray,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs by name or in order: fresh arrays, those of `out`, or
        those of donated inputs. An array of `out` may be an input, or overlap one: the answer is as
        if it were written when all else is over. What has `__dlpack__` on this machine, as tensors
        of PyTorch and arrays of JAX have, is read and written where it lies.

        A complex array is given and returned as one; `out` names its parts, `name.real` and
        `name.imag`, and they are returned as such then.

        Raises MissingInput, UnknownInput, DtypeError, ShapeError or BoundError, each naming the
        input, before any kernel runs; BadOption where an array lies elsewhere, or is one of `out`
        and may only be read.
        """
        given = self._inputs.given(inputs, more)
        if not self.model.state:
            found = self._run(given, out)
            return found if out is not None else self._inputs.joined(found)
        with self._turn:
            found = self._run({**self.state, **given}, out)
            left = {name: found.pop(held.output) for name, held in self.model.state.items()}
            self.state.update(left)
        return found

    def _run(
        self, given: dict[str, np.ndarray], out: Mapping[str, Any] | None
    ) -> dict[str, np.ndarray]:
        if self.device.name == SIMULATED and out is None:
            return self.simulate(given)
        places = None if out is None else {name: writable(name, x) for name, x in out.items()}
        run = self._versions.run_of(given) if self._has_sizes else self.runnable.run
        found = run(given, out=places)
        return found if out is None else {**found, **out}

    @cached_property
    def _has_sizes(self) -> bool:
        return bool(self.model.program.env.symbols)

    def simulate(self, inputs: Inputs, seed: int = 0) -> dict[str, np.ndarray]:
        """The outputs by name, each kernel as the thread blocks that are printed for a GPU: their
        threads run in Python, in an order of that seed. It tells nothing of a time.

        Raises BadOption where no thread blocks are printed, CheckFailed where a thread leaves an
        array.
        """
        if not self.device.takes_cuda or self.stage < Stage.ROLLED:
            raise BadOption(
                f"{self.model.name} has no thread blocks on {self.device.name}",
                where=self.device.name,
                try_='target="cuda-sim"',
            )
        from explorer.codegen.cuda.simulated import simulate

        given = self.named(inputs)
        return simulate(self.program, given, self.device, seed, self.chosen_blocks)[0]

    def device_program(self, sizes: Sizes | None = None, units: int = 0) -> DeviceProgram:
        """On a GPU with a compute capability, the whole program as one persistent kernel: its
        source, what the assembler predicts of it, and its runs, in the stand-in for a GPU too.
        `units`: of so many blocks that are resident together; 0: of as many as the wall has. All
        meet before an operator that would wait for more than `rammer.meet` of them, or 8.

        Raises BadOption where a kernel has no thread blocks, or Python decides how it goes on,
        ShapeError where extents that must be equal are not, and CheckFailed where blocks would wait
        for ever.
        """
        if not self.device.takes_cuda:
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
        """The same planned as `device_program` runs it, with so many blocks; 0: with as many as
        the wall has.
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
        """The program on the GPU of this machine: what was compiled for a data sheet with a compute
        capability runs, is timed and is recorded there. `device` makes another one, such as a
        stand-in; `launches` of one "operator" or one "wave", and `graph`, are for comparison.

        Raises BadOption where there are no thread blocks, DeviceFault where there is no GPU.
        """
        if not self.device.takes_cuda:
            raise BadOption(
                f"{self.model.name} has no thread blocks on {self.device.name}",
                where=self.device.name,
                try_='target="h100", or the sheet that is nearest to the GPU',
            )
        from explorer.compilation.on_gpu import OnGpu
        from explorer.runtime.cuda.gpu import Gpu

        return OnGpu(self, device or Gpu, launches, graph)

    @property
    def kernels(self) -> tuple[CompiledKernel, ...]:
        """Every kernel call in order, with its code where it was emitted."""
        out = []
        for b in self.program.kernel_calls:
            name = b.name
            if name in self.codes and b.kernel_call.tiling is not None:
                out.append(CompiledKernel(name, self.codes[name], b.origin, b.kernel_call.tiling))
        return tuple(out)

    @cached_property
    def blocks(self) -> tuple[BlockKernel, ...]:
        """Of a GPU with a compute capability, every kernel call in order as a thread block under
        the hints, or why it has none; nothing of any other device.
        """
        if not self.device.takes_cuda or self.stage < Stage.ROLLED:
            return ()
        from explorer.codegen.cuda.block_kernel import print_blocks

        return print_blocks(self.program, self.device, self.hint, self.chosen_blocks())

    def chosen_blocks(self, sizes: Sizes | None = None) -> Chosen:
        """On a GPU's data sheet, the thread blocks of each kernel call as Rammer chose them for a
        binding, their axes named as in the canonical kernel: the wall has their bricks, and they
        are what is printed. None of a call that has no program for thread blocks, and before there
        is a plan.
        """
        if self.device.kind != "gpu" or self.stage < Stage.PLANNED:
            return {}
        return self.executable.plan(self._sizes(sizes)).blocks

    def weighed_blocks(
        self, binding: str, sizes: Sizes | None = None
    ) -> tuple[Candidate[Block], ...]:
        """On a GPU's data sheet the thread blocks of a kernel call that Rammer chooses from, the
        one that is done first where it is alone in front, with what it takes on all units; none
        of a call that has no program for thread blocks, and before there is a plan.
        """
        if self.device.kind != "gpu" or self.stage < Stage.PLANNED:
            return ()
        from explorer.compilation.weighed_blocks import weighed_blocks

        return weighed_blocks(self.executable.planner, binding, self._sizes(sizes))

    def taken_blocks(self, binding: str, sizes: Sizes | None = None) -> tuple[Block, ...]:
        """Those of them that the wall has."""
        chosen = self.chosen_blocks(sizes)
        if not chosen:
            return ()
        from explorer.compilation.weighed_blocks import taken_blocks

        return taken_blocks(self.program, chosen, binding, self._sizes(sizes))

    def planned_wall(self, sizes: Sizes | None = None) -> Wall:
        """The brick wall as Rammer planned it for a binding."""
        return self.executable.planned_wall(self._sizes(sizes))

    def graph(self, sizes: Sizes | None = None) -> DiGraph[str]:
        """What reads what, as a networkx graph of inputs, calls and outputs, with the planned time
        of each call (`us`, of all units together) and the bytes that it hands on: see `call_graph`.
        A program that is not planned yet has its calls so far, without times.
        """
        bound, us = self._sizes(sizes), dict[str, float]()
        if self.stage >= Stage.PLANNED:
            rows = profile_of(self.program, self.planned_wall(bound)).kernels
            us = {row.name: row.us for row in rows}
        return call_graph(self.model.program, self.program, bound, us)

    def schedules(self, sizes: Sizes | None = None) -> tuple[Schedule, ...]:
        """The schedule of each straight run, in the order in which walls number launches."""
        return tuple(self.executable.plan(self._sizes(sizes)).schedules.values())

    def measured_wall(self, inputs: Inputs, runs: int = 1) -> Wall:
        """The brick wall of one real run, from time stamps: of `runs` in a row the one whose
        makespan is the median. Its bricks are the planned ones, one to one.
        """
        return self.runnable.measured_wall(self.named(inputs), runs)

    def record(self, path: str | Path, inputs: Inputs, runs: int = 15) -> RecordedRun:
        """Measure the wall of a run and keep it in a file, with the card of this machine: others
        open it with `recorded`.
        """
        given = self.named(inputs)
        wall, sizes = self.measured_wall(given, runs), bind_sizes(self.model.program, given)
        bound = tuple(sorted(sizes.items()))
        found = recording(self.model.name, self.model.digest, str(machine()), bound, wall)
        write(found, Path(path))
        return found

    def recorded(self, path: str | Path) -> RecordedRun:
        """A recording of this model, on whatever machine: its wall, and `beside` a planned one what
        each call took. `path` may be one of `recordings`. Raises SnapshotError where the file is
        none, BadOption where it is of another model.
        """
        known = shipped(self.model.name)
        name = str(path)
        if name not in known and name.isalnum() and not Path(path).exists():
            there = (
                f"there is one on {', '.join(known)}" if known else "there is none of this model"
            )
            raise BadOption(
                f"no recording of {self.model.name} on {name} comes with Ironworks: {there}",
                where=self.model.name,
                try_="the path of a file that c.on_gpu().record(path, inputs) has written",
            )
        run = read(known.get(name) or Path(path)).of(self.model.digest)
        return run.with_sizes_of(dict(self.model.program.env.hints))

    @property
    def recordings(self) -> tuple[str, ...]:
        """The devices on which this model was recorded for Ironworks: "h200"."""
        return tuple(shipped(self.model.name))

    def memory(self, sizes: Sizes | None = None) -> MemoryPlan:
        """The arena of a binding."""
        return self.executable.memory(self._sizes(sizes))

    def _sizes(self, sizes: Sizes | None) -> dict[str, int]:
        return checked_sizes(self.model, {**self.hint, **(sizes or {})}, self.hint)

    def random_inputs(self, sizes: Sizes | None = None) -> dict[str, np.ndarray]:
        """Inputs of the right shapes: normal floats, and integers that every use of them allows."""
        return random_inputs(self.model.program, self._sizes(sizes))

    def time(self, inputs: Inputs, seconds: float = 1.0) -> Measurement:
        """How long a run takes: median and 99 % interval in microseconds."""
        given = self.named(inputs)
        runnable = self.runnable
        return measure(lambda: runnable.run(given), seconds=seconds)

    def profile(self, inputs: Inputs) -> Profile:
        """Time by source operator and by kernel, from the stamps of a run."""
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
        """The same compilation, its walls planned with measured times of tasks: from a few stamped
        runs, or from disk where they are known; `fresh` measures again. Nothing is compiled.

        Raises Cancelled where `cancelled()` says so.
        """
        given = self.named(inputs)
        profile = task_profile(self.runnable, given, runs, fresh, progress, cancelled)
        return self.with_options(rammer=replace(self.options.rammer, profile=profile))

    def task_facts(self, sizes: Sizes | None = None) -> dict[str, TaskFact]:
        """Of each call how many tasks it has, how long one takes, and whether a clock said so."""
        executable = self.executable
        return executable.planner.facts(executable.plan(self._sizes(sizes)))

    def uncounted(self, sizes: Sizes | None = None) -> list[str]:
        """The loops that a wall is planned with one trip of, and the recursions with one call: only
        a run counts them.
        """
        executable = self.executable
        return executable.planner.uncounted(executable.plan(self._sizes(sizes)))

    def crossings(
        self, sizes: Sizes | None = None, supposed: Supposed = Supposed()
    ) -> tuple[Crossing, ...]:
        """The ways of each loop against its trips, as predicted, inner loops first; none where only
        a run tells the sizes. `supposed`: another launch and barrier than this machine's.
        """
        grinder = self.options.grinder
        return crossings(self.program, self.device, grinder, self._sizes(sizes), supposed)

    def crossing(self, loop: str = "", sizes: Sizes | None = None) -> Crossing:
        """The same of one loop, by its name or that of a source operator inside; of the last one
        where none is named. Raises BadOption where there is none.
        """
        found = self.crossings(sizes)
        named = [x for x in found if x.loop == loop] or [x for x in found if loop in x.origin]
        if not (named if loop else found):
            known = ", ".join(x.loop for x in found) or "none"
            what = (
                f"no loop is named {loop!r}" if loop else "there is no loop whose sizes are known"
            )
            raise BadOption(f"{what} in {self.model.name}", where=loop, expected=known)
        return named[0] if loop else found[-1]

    def timed_crossing(
        self,
        inputs: Inputs,
        crossing: Crossing,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Crossing:
        """A crossing with the times of its ways on this machine, with these inputs and where that
        can be with fewer trips than they make.

        Raises BadOption for a loop that is entered many times, Cancelled where `cancelled()` says
        so.
        """
        given, program, codes = self.named(inputs), self.runnable.program, self.codes
        told = (progress, cancelled)
        return timed_crossing(program, codes, self.device, crossing, given, *told)

    def binding(self, name: str) -> Binding:
        """The kernel call of that name, or the one that holds a source operator of that name."""
        calls = self.program.kernel_calls
        found = [b for b in calls if b.name == name] or [b for b in calls if name in b.origin]
        if not found:
            names = [b.name for b in calls]
            raise BadOption(
                f"no kernel or operator is named {name!r}{did_you_mean(name, names)}",
                where=name,
                expected=", ".join(names),
            )
        return found[-1]

    def explain(self, name: str, tile: Mapping[str, int] | None = None) -> Explanation:
        """Why a kernel is tiled as it is, and what one other tile would cost or which rule it
        breaks: the tiling in use, or on a GPU the thread block, but for the sizes of its tile.

        Raises BadOption where nothing was tiled.
        """
        binding = self.binding(name)
        found = explained(self.program, self.device, binding, self.hint, tile)
        if self.device.kind != "gpu":
            return found
        blocks, taken = self.weighed_blocks(binding.name), self.taken_blocks(binding.name)
        return replace(found, blocks=blocks, taken=taken) if taken else found


def _lines(c: Compilation) -> Iterator[str]:
    """What became of the operators, the memory, the schedule and the compile time."""
    yield PROMISES[c.stage]
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
    """Memory and schedule under the sizes that it was planned for, or why there is none."""
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
