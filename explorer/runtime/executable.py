"""A compiled program that runs: bound to each shape once, then only addresses change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count

import numpy as np

from explorer.cached_property import cached_property
from explorer.codegen.build import KernelCode
from explorer.counters import counters
from explorer.devices.model import Device
from explorer.errors import BadOption, BoundError, ShapeError
from explorer.garbage import rare_collections
from explorer.grinder import LevelPolicy, Ways, uprogram, ways_of
from explorer.grinder import Options as GrinderOptions
from explorer.grinder.host import host_of, size_relations
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.decisions.tiling import Chosen
from explorer.ir.decisions.wall import Wall
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.ops.reference.bind import bind_sizes
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory.plan import Options as MemoryOptions
from explorer.runtime.binding.bound import Bound
from explorer.runtime.binding.constants import Constants
from explorer.runtime.binding.measured_wall import measured_wall
from explorer.runtime.binding.recording import Traced, replay
from explorer.runtime.binding.results import copied_out, usable
from explorer.runtime.broken_relations import Arm, OtherArms, broken_arms, check_relations
from explorer.runtime.device_program.instructions import MAX_UNITS
from explorer.runtime.frames import Frames, RunRegion
from explorer.runtime.planning.allocations import straights
from explorer.runtime.planning.limits import check_time, check_values
from explorer.runtime.planning.plan import Plan, Planner
from explorer.runtime.planning.runs.sheet_times import SheetTimes
from explorer.runtime.planning.runs.task_times import TaskTimes
from explorer.runtime.regions import is_dynamic
from explorer.runtime.told_by_shapes import told_by_shapes
from explorer.runtime.workers import clock
from explorer.runtime.workers.teams import teams

Array = np.ndarray
# Stamps of a unit in a launch, 96 MB at most; room is filled before a run, and takes time.
LEAST_CAPACITY, FIRST_CAPACITY, LARGEST_CAPACITY = 64, 4096, 1 << 22
SHORT_US = 2000.0  # of a run: many times what a sleeping worker needs to come; chosen
KEPT_SHAPES = 256  # of inputs, several of which may be one binding: a bound on memory, chosen
KEPT_BINDINGS = 64  # of a program, each with its plan and tables: a bound on memory, chosen
IDLE_ARENA_BYTES = 64 << 20  # kept between runs: a bound on memory, chosen
Names = tuple[tuple[str, int], ...]


class Executable:
    """Runs from any thread. `device` is the one that the plan is made for. `ways`: how control flow
    runs, where that is not what the program's decisions say. `poisoned`: before each run what it is
    to write is filled with NaN, so that what no task writes shows. The memory of inputs that are
    `donated` may be taken over by an output.
    """

    def __init__(
        self,
        program: Program,
        codes: Mapping[str, KernelCode],
        device: Device,
        ways: Ways | LevelPolicy | None = None,
        poisoned: bool = False,
        donated: Collection[str] = (),
        blocks: Callable[[Sizes], Chosen] | None = None,
    ) -> None:
        self.program, self.codes, self.device = program, codes, device
        program, self.told = told_by_shapes(program)
        self.poisoned = poisoned
        chosen, memory = program.decisions.rammer, program.decisions.memory
        self.rammer = chosen if isinstance(chosen, RammerOptions) else RammerOptions()
        self.memory_options = memory if isinstance(memory, MemoryOptions) else MemoryOptions()
        self.units = self.rammer.threads or device.units
        if device.kind == "cpu" and self.units > MAX_UNITS:
            raise BadOption(
                f"rammer.threads is at most {MAX_UNITS} on a CPU, found {self.units}",
                found=self.units,
                try_="fewer threads",
            )
        self.ways = ways_of(program.decisions) if ways is None else ways
        self.tasks = uprogram(program, self.ways)
        self.donated = tuple(n for n, name in enumerate(self.tasks.inputs) if name in donated)
        self.task_times = TaskTimes(program, codes, device, self.rammer.profile, self.units)
        self.planner = Planner(
            self.tasks,
            program.env,
            device,
            self.task_times.of,
            self.rammer,
            self.memory_options,
            SheetTimes(program, device, blocks) if device.kind == "gpu" else None,
            self.task_times.library,
            program.constants,
        )
        self.constants = Constants(program.constants)
        hosted = self.tasks.hosted
        dynamic = is_dynamic(program, hosted)
        asked = program.decisions.grinder
        memoised = isinstance(asked, GrinderOptions) and asked.memoise
        self.memoised = memoised
        self.frames = Frames(program, self._region, hosted, memoised) if dynamic else None
        self.relations = {} if dynamic else size_relations(program, host_of(program, hosted))
        self._others: dict[frozenset[Arm], OtherArms] = {}
        self._plans: dict[Names, Plan] = {}
        self._bounds: dict[Names, Bound] = {}
        self._by_shape: dict[tuple[object, ...], Bound | Frames | OtherArms] = {}
        self._uses = count(1)

    def _region(self, program: Program) -> RunRegion:
        """What runs a part of a dynamic program."""
        part = Executable(program, self.codes, self.device, self.ways, self.poisoned)
        return lambda inputs, sizes, traced: part._run(inputs, None, sizes, traced, whole=False)

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        out: Mapping[str, Array] | None = None,
        sizes: Sizes | None = None,
    ) -> dict[str, Array]:
        """The outputs by name: fresh arrays, or those of `out` where it names them.

        `sizes` are of symbols that the inputs' shapes do not tell. A second run with the same
        shapes replays the first one's recording: it interprets nothing, and makes no array but the
        outputs that `out` does not give.

        Raises MissingInput, UnknownInput, DtypeError, ShapeError, BoundError before anything runs.
        """
        return self._run(inputs, out, sizes or {}, None)

    def prepared(self, inputs: Mapping[str, Array], out: Mapping[str, Array]) -> Callable[[], None]:
        """A run that reads and writes these very arrays each time it is called, by one thread at a
        time: what is checked and looked up per run is done here (onnxruntime's I/O binding).

        Raises what `run` raises, and ShapeError where `out` lacks an output or kernels cannot work
        on an array in place.
        """
        self._run(inputs, out, {}, None)
        bound = self.frames or self._bound(inputs, {})
        if not isinstance(bound, Bound):

            def run() -> None:
                self._run(inputs, out, {}, None)

            return run
        given = [usable(a) for a in self._given(inputs, bound)]
        arrays, later = bound.outputs.given(out, given)
        copied = any(given[n] is not a for n, a in enumerate(self._given(inputs, bound)))
        if copied or later or len(out) < len(arrays):
            raise ShapeError(
                "a prepared run needs contiguous arrays, one for every output, none in another",
                where=", ".join(bound.outputs.names),
                found=", ".join(out),
            )
        arena = bound.take()
        arena.point([*given, *arrays])
        recording = bound.recording(arena)

        def replayed(_held: object = (bound, arena)) -> None:  # whose memory is read and written
            counters.add("replays")
            replay(recording, teams())  # after a fork another one

        return replayed

    def measured_wall(self, inputs: Mapping[str, Array], runs: int = 1) -> Wall:
        """The wall of a run, from its time stamps; of several that whose makespan is the median."""
        found = sorted(self.traced(inputs, runs), key=lambda traced: traced.cycles)
        return self.wall_of(found[len(found) // 2])

    def traced(
        self,
        inputs: Mapping[str, Array],
        runs: int = 1,
        more: Callable[[int, int], bool] = lambda done, runs: True,
    ) -> list[Traced]:
        """The stamps of runs in a row, after one that warms up; `more(done, runs)` is asked before
        each but the first. A short one follows right upon a run without stamps: while those of the
        one before are put away, workers fall asleep.
        """
        self._run(inputs, None, {}, None)
        capacity, found = FIRST_CAPACITY, list[Traced]()
        while not found or (len(found) < runs and more(len(found), runs)):
            if found and found[-1].cycles < SHORT_US * clock.cycles_per_us():
                self._run(inputs, None, {}, None)
            traced = Traced(capacity)
            self._run(inputs, None, {}, traced)
            if traced.needed <= capacity or capacity >= LARGEST_CAPACITY:
                found.append(traced)
            capacity = min(LARGEST_CAPACITY, max(LEAST_CAPACITY, 2 * traced.needed))
        return found

    def wall_of(self, traced: Traced) -> Wall:
        """What the stamps of a run say."""
        return measured_wall(
            traced,
            self._reads(),
            self.units,
            clock.cycles_per_us(),
            self.rammer.policy_name,
            self.device.name,
            "launch" if self.frames is None else "library",  # the host's interpreter is at work
        )

    def planned_wall(self, sizes: Sizes) -> Wall:
        """The wall as it was planned for a binding."""
        return self.plan(sizes).wall

    def memory(self, sizes: Sizes) -> MemoryPlan:
        """The arena of a binding."""
        return self.plan(sizes).memory

    def plan(self, sizes: Sizes) -> Plan:
        """All that is decided for a binding, made once."""
        key = tuple(sorted(sizes.items()))
        found = self._plans.get(key)
        if found is None:
            made = self.planner.plan(self._told_sizes(sizes))
            for oldest in list(self._plans)[: 1 - KEPT_BINDINGS]:
                self._plans.pop(oldest, None)
            found = self._plans.setdefault(key, made)
        return found

    def _told_sizes(self, sizes: Sizes) -> dict[str, int]:
        """The sizes with all that they decide; as they are where no run could have them, as hints
        may be.
        """
        if self.told is not None:
            with suppress(ShapeError, BoundError):
                return self.told.of(sizes)[0]
        return dict(sizes)

    def _run(
        self,
        inputs: Mapping[str, Array],
        out: Mapping[str, Array] | None,
        sizes: Sizes,
        traced: Traced | None,
        whole: bool = True,
    ) -> dict[str, Array]:
        """One run, of the whole program or of a region of one."""
        bound = self.frames or self._bound(inputs, sizes)
        if not isinstance(bound, Bound):
            counters.add("runs", int(whole))
            found = bound.run(inputs, traced, sizes)
            return copied_out(dict(zip(self.tasks.output_names, found, strict=True)), out)
        outputs = bound.outputs
        given = [usable(a) for a in self._given(inputs, bound)]
        later: dict[int, Array] = {}
        if out or self.donated:
            arrays, later = outputs.given(out or {}, given, self._owned(inputs, given))
            theirs = {id(a) for a in (*given, *(out or {}).values())}
            made = sum(id(a) not in theirs for a in arrays)
        else:
            arrays = outputs.fresh()
            made = len(arrays)
        counters.add("runs", int(whole))
        counters.add("arrays_made", made)
        arena = bound.take()
        try:
            arena.point([*given, *arrays])
            if self.poisoned:
                _poison([arena.memory, *_apart(arrays, given)])
            bound.replay(arena, teams(), traced)
        finally:
            bound.give(arena)
        for n, target in later.items():
            np.copyto(target, arrays[n])
            arrays[n] = target
        return dict(zip(outputs.names, arrays))

    def takeovers(self) -> dict[str, str]:
        """For each donated input the output that is written into its memory, where their shapes are
        one and the caller's array is one that kernels can write; "" where none can be.
        """
        if self.frames is not None:
            return {self.tasks.inputs[n]: "" for n in self.donated}
        names, taken = self.tasks.output_names, dict[int, int]()
        for at in self.donated:
            over = self.planner.overwritable.items()
            found = (n for n, inputs in over if at in inputs and n not in taken.values())
            taken[at] = next(found, -1)
        return {self.tasks.inputs[at]: names[n] if n >= 0 else "" for at, n in taken.items()}

    def _owned(self, inputs: Mapping[str, Array], given: Sequence[Array]) -> list[int]:
        """The donated inputs that kernels work on where the caller has them."""
        names = self.tasks.inputs
        return [n for n in self.donated if given[n] is inputs[names[n]]]

    def _given(self, inputs: Mapping[str, Array], bound: Bound) -> list[Array]:
        """The arrays that a run reads: its inputs, and what their shapes decide."""
        return [*(inputs[p.name] for p in self.program.main.params), *bound.told]

    def _bound(self, inputs: Mapping[str, Array], sizes: Sizes) -> Bound | Frames | OtherArms:
        """The binding of these shapes; the checks are made for the first inputs of each kind."""
        key = (*((n, a.shape, a.dtype) for n, a in inputs.items()), *sizes.items())
        found = self._by_shape.get(key)
        if found is None:
            found = self._new_bound(inputs, sizes, key)
        if isinstance(found, Bound):
            found.used = next(self._uses)
        return found

    def _new_bound(
        self, inputs: Mapping[str, Array], given: Sizes, key: tuple[object, ...]
    ) -> Bound | Frames | OtherArms:
        sizes, arrays = {**given, **bind_sizes(self.program, inputs)}, dict[str, Array]()
        if self.told is not None:
            sizes, arrays = self.told.of(sizes)
        names = tuple(sorted(sizes.items()))
        arms = broken_arms(self.program, self.relations, sizes)
        found = self._without(arms) if arms is None or arms else self._bounds.get(names)
        if found is None:
            with rare_collections():
                check_values(self.planner, sizes)
                check_time(self.planner, sizes)
                plan, told = self.plan(sizes), tuple(arrays.values())
                made = Bound(plan, self.constants, self.codes, self.units, told)
            made.check_room(self.program.name)
            self._make_room(made)
            found = self._bounds.setdefault(names, made)
        if len(self._by_shape) >= KEPT_SHAPES:
            self._by_shape.clear()
        self._by_shape[key] = found
        return found

    def check_relations(self, sizes: Sizes) -> None:
        """ShapeError where sizes break a relation, which only a run on this CPU can pass by."""
        check_relations(self.program, self.relations, self._told_sizes(sizes))

    def _without(self, arms: frozenset[Arm] | None) -> OtherArms | Frames:
        """Runs sizes that break a relation in these arms, or elsewhere."""
        if arms is None or self.told is not None:
            return self._strict
        if arms not in self._others:
            made = OtherArms(self.program, arms, self._region, lambda: self._strict)
            self._others[arms] = made
        return self._others[arms]

    @cached_property
    def _strict(self) -> Frames:
        """Runs sizes that break a relation: up to the match_cast that says so, if a run comes to
        it.
        """
        hosted = self.tasks.hosted
        return Frames(self.program, self._region, hosted, self.memoised, strict=True)

    def _make_room(self, coming: Bound) -> None:
        """Before a new binding takes its arena: the ones used longest ago go, and the idle arenas
        of those used long ago. No lock, so that a fork never finds one held.
        """
        known = sorted(list(self._bounds.items()), key=lambda named: named[1].used)
        gone, kept = known[: 1 - KEPT_BINDINGS], known[1 - KEPT_BINDINGS :]
        for names, bound in gone:
            self._bounds.pop(names, None)
            self._plans.pop(names, None)
            for key, found in list(self._by_shape.items()):
                if found is bound:
                    self._by_shape.pop(key, None)
        held = sum(bound.pooled_bytes for _, bound in kept) + coming.arena_bytes
        for _, bound in kept:
            if held <= IDLE_ARENA_BYTES:
                break
            held -= bound.pooled_bytes
            bound.pool.clear()

    def _reads(self) -> dict[str, frozenset[str]]:
        """For each operator those that it waits for: the ones whose results it reads, and with
        storages the ones that used its bytes before it.
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


def _apart(arrays: Sequence[Array], given: Sequence[Array]) -> list[Array]:
    """Those that are not written over an input."""
    return [a for a in arrays if not any(np.may_share_memory(a, g) for g in given)]


def _poison(arrays: Iterable[Array]) -> None:
    """Every byte is 255: NaN in any float, -1 or the greatest number in integers."""
    for array in arrays:
        array.reshape(-1).view(np.uint8)[...] = 255
