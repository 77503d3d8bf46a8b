"""A compiled program that runs: bound to each shape once, then only addresses change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count

import numpy as np

from explorer.cached_property import cached_property
from explorer.codegen.build import KernelCode
from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.errors import BadOption, BoundError, ShapeError
from explorer.grinder import ControlSchedules, LevelPolicy, control_schedules_of, uprogram
from explorer.grinder import Options as GrinderOptions
from explorer.grinder.host import analyse_host, size_relations
from explorer.grinder.model import straights
from explorer.grinder.regions import is_dynamic, split_shape_computation
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.tiling import Chosen
from explorer.ir.decisions.wall import Wall
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.memory.plan import Options as MemoryOptions
from explorer.ops.interpreter.frame import bind_sizes
from explorer.process.counters import counters
from explorer.process.garbage import rare_collections
from explorer.rammer import Options as RammerOptions
from explorer.runtime.binding.bound import (
    BoundProgram,
    as_usable,
    check_time,
    check_values,
    copy_out,
)
from explorer.runtime.binding.measured_wall import measured_wall
from explorer.runtime.binding.recording import RunTrace, replay
from explorer.runtime.binding.tables import Constants
from explorer.runtime.device_program.instructions import MAX_UNITS
from explorer.runtime.frames import (
    Arm,
    Frames,
    PrunedProgram,
    RunRegion,
    broken_arms,
    check_relations,
)
from explorer.runtime.planning.plan import Plan, Planner
from explorer.runtime.planning.sheet_times import ALONE
from explorer.runtime.planning.task_times import TaskTimes
from explorer.runtime.workers import clock
from explorer.runtime.workers.workers import teams

Array = np.ndarray
# Stamps of a unit in a launch, 96 MB at most; filling the room before a run takes time.
LEAST_CAPACITY, FIRST_CAPACITY, LARGEST_CAPACITY = 64, 4096, 1 << 22
SHORT_US = 2000.0  # of a run: many times the wake-up of a worker; chosen
MAX_SHAPES = 256  # cached; several may be one binding: a bound on memory, chosen
MAX_BINDINGS = 64  # cached, each with its plan and tables: a bound on memory, chosen
IDLE_ARENA_BYTES = 64 << 20  # of pooled arenas: a bound on memory, chosen
Names = tuple[tuple[str, int], ...]


class Executable:
    """A compiled program that runs from any thread.

    `device` is the device of the plans. `schedules`: those of control flow, unless the program's
    decisions apply. `poisoned`: before each run the memory that it writes is filled with NaN, so
    that elements that no task writes show. An output may take over the memory of `donated` inputs.
    """

    def __init__(
        self,
        program: Program,
        codes: Mapping[str, KernelCode],
        device: Device,
        schedules: ControlSchedules | LevelPolicy | None = None,
        poisoned: bool = False,
        donated: Collection[str] = (),
        blocks: Callable[[Sizes], Chosen] | None = None,
    ) -> None:
        """Prepare the plans and relations that no binding changes."""
        self.program, self.codes, self.device = program, codes, device
        program, self.shape_computation = split_shape_computation(program)
        self.poisoned = poisoned
        chosen, memory = program.decisions.rammer, program.decisions.memory
        self.rammer = chosen if isinstance(chosen, RammerOptions) else RammerOptions()
        self.memory_options = memory if isinstance(memory, MemoryOptions) else MemoryOptions()
        self.units = self.rammer.threads or device.units
        target = target_of(device)
        if target.launches_each_call:
            self.rammer = replace(self.rammer, policy=ALONE)
        if target.has_resident_workers and self.units > MAX_UNITS:
            raise BadOption(
                f"rammer.threads is at most {MAX_UNITS} on a CPU, found {self.units}",
                actual=self.units,
                try_="fewer threads",
            )
        self.schedules = control_schedules_of(program.decisions) if schedules is None else schedules
        self.tasks = uprogram(program, self.schedules)
        self.donated = tuple(n for n, name in enumerate(self.tasks.inputs) if name in donated)
        self.task_times = TaskTimes(program, codes, device, self.rammer.profile, self.units)
        self.planner = Planner(
            self.tasks,
            program.env,
            device,
            self.task_times.of,
            self.rammer,
            self.memory_options,
            target.grid_times(program, device, blocks),
            self.task_times.library,
            program.constants,
        )
        self.constants = Constants(program.constants)
        hosted = self.tasks.hosted
        dynamic = is_dynamic(program, hosted)
        grinder = program.decisions.grinder
        memoised = isinstance(grinder, GrinderOptions) and grinder.memoise
        self.memoised = memoised
        self.frames = Frames(program, self._region, hosted, memoised) if dynamic else None
        self.relations = {} if dynamic else size_relations(program, analyse_host(program, hosted))
        self._others: dict[frozenset[Arm], PrunedProgram] = {}
        self._plans: dict[Names, Plan] = {}
        self._bounds: dict[Names, BoundProgram] = {}
        self._by_shape: dict[tuple[object, ...], BoundProgram | Frames | PrunedProgram] = {}
        self._uses = count(1)

    def _region(self, program: Program) -> RunRegion:
        """Return the runner of a part of a dynamic program."""
        part = Executable(program, self.codes, self.device, self.schedules, self.poisoned)
        return lambda inputs, sizes, traced: part._run(inputs, None, sizes, traced, is_run=False)

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        out: Mapping[str, Array] | None = None,
        sizes: Sizes | None = None,
    ) -> dict[str, Array]:
        """Return the outputs by name: fresh arrays, or those of `out`.

        `sizes` are of symbols that the inputs' shapes do not determine. A second run with the same
        shapes replays the first one's recording: it interprets nothing, and creates no arrays
        except outputs that `out` lacks.

        Raises MissingInput, UnknownInput, DtypeError, ShapeError, BoundError before anything runs.
        """
        return self._run(inputs, out, sizes or {}, None)

    def bind(self, inputs: Mapping[str, Array]) -> None:
        """Prepare runs of these shapes: plan them, and allocate and record what they share.

        Raises what `run` raises. Nothing is run.
        """
        bound = self.frames or self._bound(inputs, {})
        if isinstance(bound, BoundProgram):
            arena = bound.take()
            try:
                bound.recording(arena)
            finally:
                bound.give(arena)

    def prepared(self, inputs: Mapping[str, Array], out: Mapping[str, Array]) -> Callable[[], None]:
        """Return a run that always reads and writes these very arrays, by one thread at a time.

        The checks and look-ups of a run are done here, once (onnxruntime's I/O binding).

        Raises what `run` raises, and ShapeError if `out` lacks an output or kernels cannot work on
        an array in place.
        """
        self._run(inputs, out, {}, None)
        bound = self.frames or self._bound(inputs, {})
        if not isinstance(bound, BoundProgram):

            def run() -> None:
                self._run(inputs, out, {}, None)

            return run
        operands = [as_usable(a) for a in self._input_arrays(inputs, bound)]
        owned = self._owned(inputs, operands)
        operands = bound.outputs.own_inputs(operands, owned)
        arrays, later = bound.outputs.select_arrays(out, operands)
        copied = any(operands[n] is not a for n, a in enumerate(self._input_arrays(inputs, bound)))
        if copied or later or len(out) < len(arrays):
            raise ShapeError(
                "a prepared run needs contiguous arrays, one for every output, none in another",
                where=", ".join(bound.outputs.names),
                actual=", ".join(out),
            )
        arena = bound.take()
        arena.point([*operands, *arrays])
        recording = bound.recording(arena)

        def replayed(_alive: object = (bound, arena)) -> None:  # keeps their memory alive
            counters.add("replays")
            replay(recording, teams())  # a fork has its own teams

        return replayed

    def measured_wall(self, inputs: Mapping[str, Array], runs: int = 1) -> Wall:
        """Return the wall of a run from its time stamps; of several, that of median makespan."""
        traces = sorted(self.traced(inputs, runs), key=lambda traced: traced.cycles)
        return self.wall_of(traces[len(traces) // 2])

    def traced(
        self,
        inputs: Mapping[str, Array],
        runs: int = 1,
        more: Callable[[int, int], bool] = lambda done, runs: True,
    ) -> list[RunTrace]:
        """Return the traces of consecutive runs, after one that warms up.

        `more(done, runs)` is asked before each run but the first. A short run directly follows a
        run without stamps, because workers fall asleep while the stamps of the previous one are
        stored.
        """
        self._run(inputs, None, {}, None)
        capacity, traces = FIRST_CAPACITY, list[RunTrace]()
        while not traces or (len(traces) < runs and more(len(traces), runs)):
            if traces and traces[-1].cycles < SHORT_US * clock.cycles_per_us():
                self._run(inputs, None, {}, None)
            traced = RunTrace(capacity)
            self._run(inputs, None, {}, traced)
            if traced.needed <= capacity or capacity >= LARGEST_CAPACITY:
                traces.append(traced)
            capacity = min(LARGEST_CAPACITY, max(LEAST_CAPACITY, 2 * traced.needed))
        return traces

    def wall_of(self, traced: RunTrace) -> Wall:
        """Return the wall of a trace."""
        return measured_wall(
            traced,
            self._reads(),
            self.units,
            clock.cycles_per_us(),
            self.rammer.policy_name,
            self.device.name,
            "launch" if self.frames is None else "library",  # the host's interpreter runs
        )

    def planned_wall(self, sizes: Sizes) -> Wall:
        """Return the planned wall of a binding."""
        return self.plan(sizes).wall

    def memory(self, sizes: Sizes) -> MemoryPlan:
        """Return the memory plan of a binding."""
        return self.plan(sizes).memory

    def plan(self, sizes: Sizes) -> Plan:
        """Return the plan of a binding, made once."""
        key = tuple(sorted(sizes.items()))
        plan = self._plans.get(key)
        if plan is None:
            new_plan = self.planner.plan(self._extended_sizes(sizes))
            for oldest in list(self._plans)[: 1 - MAX_BINDINGS]:
                self._plans.pop(oldest, None)
            plan = self._plans.setdefault(key, new_plan)
        return plan

    def _extended_sizes(self, sizes: Sizes) -> dict[str, int]:
        """Return the sizes with all that they determine.

        Sizes that no run could have, as hints may be, are returned unchanged.
        """
        if self.shape_computation is not None:
            with suppress(ShapeError, BoundError):
                return self.shape_computation.of(sizes)[0]
        return dict(sizes)

    def _run(
        self,
        inputs: Mapping[str, Array],
        out: Mapping[str, Array] | None,
        sizes: Sizes,
        traced: RunTrace | None,
        is_run: bool = True,
    ) -> dict[str, Array]:
        """Run the whole program, or a region of one, which does not count as a run."""
        bound = self.frames or self._bound(inputs, sizes)
        if not isinstance(bound, BoundProgram):
            counters.add("runs", int(is_run))
            results = bound.run(inputs, traced, sizes)
            return copy_out(dict(zip(self.tasks.output_names, results, strict=True)), out)
        outputs = bound.outputs
        operands = [as_usable(a) for a in self._input_arrays(inputs, bound)]
        owned = self._owned(inputs, operands) if self.donated else []
        if outputs.written:
            operands = outputs.own_inputs(operands, owned)
        later: dict[int, Array] = {}
        if out or owned or outputs.inside:
            arrays, later = outputs.select_arrays(out or {}, operands, owned)
            theirs = {id(a) for a in (*operands, *(out or {}).values())}
            created = sum(id(a) not in theirs for a in arrays)
        else:
            arrays = outputs.new_arrays()
            created = len(arrays)
        counters.add("runs", int(is_run))
        counters.add("arrays_made", created)
        arena = bound.take()
        try:
            arena.point([*operands, *arrays])
            if self.poisoned:
                _poison([arena.memory, *_apart(arrays, operands)])
            bound.replay(arena, teams(), traced)
        finally:
            bound.give(arena)
        if later:
            arrays = _copied_to(later, arrays)
        return dict(zip(outputs.names, arrays))

    def takeovers(self) -> dict[str, str]:
        """Return for each donated input the output that is written into its memory; "" for none.

        Their shapes must be equal, and the caller's array writable by kernels.
        """
        if self.frames is not None:
            return {self.tasks.inputs[n]: "" for n in self.donated}
        names, written = self.tasks.output_names, self.planner.written_inputs
        taken = {at: -1 if n is None else n for at, n in written.items()}
        for at in self.donated:
            if at in taken:
                continue
            over = self.planner.overwritable.items()
            candidates = (n for n, inputs in over if at in inputs and n not in taken.values())
            taken[at] = next(candidates, -1)
        return {
            self.tasks.inputs[at]: names[taken[at]] if taken[at] >= 0 else "" for at in self.donated
        }

    def _owned(self, inputs: Mapping[str, Array], operands: Sequence[Array]) -> list[int]:
        """Return the donated inputs that kernels work on in the caller's memory."""
        names = self.tasks.inputs
        return [n for n in self.donated if operands[n] is inputs[names[n]]]

    def _input_arrays(self, inputs: Mapping[str, Array], bound: BoundProgram) -> list[Array]:
        """Return the arrays that a run reads: its inputs, and those computed from their shapes."""
        return [*(inputs[p.name] for p in self.program.main.params), *bound.shape_inputs]

    def _bound(
        self, inputs: Mapping[str, Array], sizes: Sizes
    ) -> BoundProgram | Frames | PrunedProgram:
        """Return the binding of these shapes; checks are made for the first inputs of each kind."""
        key = (*((n, a.shape, a.dtype) for n, a in inputs.items()), *sizes.items())
        bound = self._by_shape.get(key)
        if bound is None:
            bound = self._new_bound(inputs, sizes, key)
        if isinstance(bound, BoundProgram):
            bound.used = next(self._uses)
        return bound

    def _new_bound(
        self, inputs: Mapping[str, Array], known_sizes: Sizes, key: tuple[object, ...]
    ) -> BoundProgram | Frames | PrunedProgram:
        sizes, arrays = {**known_sizes, **bind_sizes(self.program, inputs)}, dict[str, Array]()
        if self.shape_computation is not None:
            sizes, arrays = self.shape_computation.of(sizes)
        names = tuple(sorted(sizes.items()))
        arms = broken_arms(self.program, self.relations, sizes)
        bound = self._without_arms(arms) if arms is None or arms else self._bounds.get(names)
        if bound is None:
            with rare_collections():
                check_values(self.planner, sizes)
                check_time(self.planner, sizes)
                plan, shape_inputs = self.plan(sizes), tuple(arrays.values())
                new_bound = BoundProgram(plan, self.constants, self.codes, self.units, shape_inputs)
            new_bound.check_room(self.program.name)
            self._make_room(new_bound)
            bound = self._bounds.setdefault(names, new_bound)
        if len(self._by_shape) >= MAX_SHAPES:
            self._by_shape.clear()
        self._by_shape[key] = bound
        return bound

    def check_relations(self, sizes: Sizes) -> None:
        """Check that the sizes keep all relations; only a run on this CPU can avoid a broken one.

        Raises:
            ShapeError: The sizes break a relation.
        """
        check_relations(self.program, self.relations, self._extended_sizes(sizes))

    def _without_arms(self, arms: frozenset[Arm] | None) -> PrunedProgram | Frames:
        """Return the runner of sizes that break a relation in these arms, or elsewhere (None)."""
        if arms is None or self.shape_computation is not None:
            return self._strict
        if arms not in self._others:
            new_runner = PrunedProgram(self.program, arms, self._region, lambda: self._strict)
            self._others[arms] = new_runner
        return self._others[arms]

    @cached_property
    def _strict(self) -> Frames:
        """Return the runner of sizes that break a relation, up to the match_cast that fails."""
        hosted = self.tasks.hosted
        return Frames(self.program, self._region, hosted, self.memoised, strict=True)

    def _make_room(self, coming: BoundProgram) -> None:
        """Evict old bindings, and idle arenas of others, before a new binding takes its arena.

        The least recently used go first. There is no lock, so that a fork never copies a held one.
        """
        by_use = sorted(list(self._bounds.items()), key=lambda named: named[1].used)
        evicted, recent = by_use[: 1 - MAX_BINDINGS], by_use[1 - MAX_BINDINGS :]
        for names, bound in evicted:
            self._bounds.pop(names, None)
            self._plans.pop(names, None)
            for key, cached in list(self._by_shape.items()):
                if cached is bound:
                    self._by_shape.pop(key, None)
        idle_bytes = sum(bound.pooled_bytes for _, bound in recent) + coming.arena_bytes
        for _, bound in recent:
            if idle_bytes <= IDLE_ARENA_BYTES:
                break
            idle_bytes -= bound.pooled_bytes
            bound.pool.clear()

    def _reads(self) -> dict[str, frozenset[str]]:
        """Return for each operator those that it waits for.

        It reads their results; with storages, they used its bytes before it.
        """
        writers: dict[str, str] = {}
        out: dict[str, frozenset[str]] = {}
        for part in straights(self.tasks.parts):
            for operator in part.operators:
                roots = {self.tasks.values[a].root for a in operator.args}
                out[operator.name] = frozenset(writers[r] for r in roots if r in writers)
                for result in operator.results:
                    writers[self.tasks.values[result].root] = operator.name
        for run in self.planner.runs:
            for operator, reads in zip(run.operators, run.reads):
                out[operator.name] |= {run.operators[n].name for n in reads}
        return out


def _apart(arrays: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
    """Return the arrays that are not written over an input."""
    return [a for a in arrays if not any(np.may_share_memory(a, g) for g in inputs)]


def _poison(arrays: Iterable[Array]) -> None:
    """Set every byte to 255: NaN in any float, -1 or the greatest number in integers."""
    for array in arrays:
        array.reshape(-1).view(np.uint8)[...] = 255


def _copied_to(targets: Mapping[int, Array], arrays: Sequence[Array]) -> list[Array]:
    """Copy outputs to the caller's arrays, which may lie in the memory of other outputs."""

    def is_free(array: Array) -> bool:
        return not any(np.may_share_memory(array, t) for t in targets.values())

    sources = [a if is_free(a) else a.copy() for a in arrays]
    for n, target in targets.items():
        np.copyto(target, sources[n])
        sources[n] = target
    return sources
