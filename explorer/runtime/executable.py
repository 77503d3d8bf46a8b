"""A compiled program that runs: bound to each shape once, then only addresses change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.counters import counters
from explorer.devices.model import Device
from explorer.errors import DtypeError, ShapeError
from explorer.grinder import lowest, uprogram
from explorer.grinder.policy import LevelPolicy
from explorer.ir.decisions import MemoryPlan, Wall
from explorer.ir.dims import Sizes
from explorer.ir.program import Program
from explorer.ops.bind import bind_sizes
from explorer.rammer import Options as RammerOptions
from explorer.relax.memory_plan import Options as MemoryOptions
from explorer.runtime import clock
from explorer.runtime.arena import aligned_array
from explorer.runtime.bound import Bound
from explorer.runtime.constants import Constants
from explorer.runtime.follow import Traced, follow
from explorer.runtime.measured_wall import measured_wall
from explorer.runtime.plan import Plan, make_plan, straights
from explorer.runtime.task_times import TaskTimes
from explorer.runtime.workers import team

Array = np.ndarray
FIRST_CAPACITY, LARGEST_CAPACITY = 4096, 1 << 22  # stamps of a unit in a launch; 96 MB at most
BINDINGS = 256  # remembered of a program
IDLE_ARENA_BYTES = 256 << 20
Names = tuple[tuple[str, int], ...]
Remembered = TypeVar("Remembered")


class Executable:
    """Runs from any thread. `device` is the one that the plan is made for."""

    def __init__(
        self,
        program: Program,
        codes: Mapping[str, KernelCode],
        device: Device,
        level: LevelPolicy = lowest,
    ) -> None:
        self.program, self.codes, self.device = program, codes, device
        chosen, memory = program.decisions.rammer, program.decisions.memory
        self.rammer = chosen if isinstance(chosen, RammerOptions) else RammerOptions()
        self.memory_options = memory if isinstance(memory, MemoryOptions) else MemoryOptions()
        self.units = self.rammer.threads or device.units
        self.tasks = uprogram(program, level)
        self.task_times = TaskTimes(program, codes, device)
        self.constants = Constants(program.constants)
        self._plans: dict[Names, Plan] = {}
        self._bounds: dict[Names, Bound] = {}
        self._by_shape: dict[tuple[object, ...], Bound] = {}

    def run(
        self, inputs: Mapping[str, Array], *, out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """The outputs by name: fresh arrays, or those of `out` where it names them.

        Raises MissingInput, UnknownInput, DtypeError, ShapeError, BoundError before anything runs.
        """
        return self._run(inputs, out, None)

    def measured_wall(self, inputs: Mapping[str, Array]) -> Wall:
        """The wall of one run, from its time stamps."""
        capacity = FIRST_CAPACITY
        while True:
            traced = Traced(capacity)
            self._run(inputs, None, traced)
            if traced.needed <= capacity or capacity >= LARGEST_CAPACITY:
                break
            capacity = min(LARGEST_CAPACITY, 2 * traced.needed)
        return measured_wall(
            traced,
            self._reads(),
            self.units,
            clock.cycles_per_us(),
            self.rammer.policy_name,
            self.device.name,
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
            made = make_plan(
                self.tasks,
                dict(sizes),
                self.device,
                self.task_times.of,
                self.rammer,
                self.memory_options,
            )
            _make_room(self._plans)
            found = self._plans.setdefault(key, made)
        return found

    def _run(
        self, inputs: Mapping[str, Array], out: Mapping[str, Array] | None, traced: Traced | None
    ) -> dict[str, Array]:
        counters.add("runs")
        bound = self._bound(inputs)
        given = [_usable(inputs[name]) for name in self.tasks.inputs]
        made = [aligned_array(shape, dtype) for shape, dtype in bound.outputs]
        later = self._given(out, bound, made, given) if out else {}
        arena = bound.take()
        try:
            arena.point(given + made)
            follow(bound.steps, arena, team(), traced)
            for n in bound.copied:
                np.copyto(made[n], arena.array(self.tasks.outputs[n]))
        finally:
            arena.arrays = []
            bound.give(arena)
        for n, target in later.items():
            np.copyto(target, made[n])
            made[n] = target
        return dict(zip(self.tasks.output_names, made))

    def _bound(self, inputs: Mapping[str, Array]) -> Bound:
        """The binding of these shapes; the checks are made for the first inputs of each kind."""
        key = tuple((n, a.shape, a.dtype) for n, a in inputs.items())
        found = self._by_shape.get(key)
        return self._new_bound(inputs, key) if found is None else found

    def _new_bound(self, inputs: Mapping[str, Array], key: tuple[object, ...]) -> Bound:
        sizes = bind_sizes(self.program, inputs)
        names = tuple(sorted(sizes.items()))
        found = self._bounds.get(names)
        if found is None:
            made = Bound(self.plan(sizes), self.constants, self.codes, self.units)
            self._let_arenas_go(made)
            _make_room(self._bounds)
            found = self._bounds.setdefault(names, made)
        _make_room(self._by_shape)
        self._by_shape[key] = found
        return found

    def _let_arenas_go(self, coming: Bound) -> None:
        """Before a new binding takes its arena: what all of them hold idle stays within a bound."""
        held = sum(b.pooled_bytes for b in list(self._bounds.values()))
        if held + coming.arena_bytes > IDLE_ARENA_BYTES:
            for bound in list(self._bounds.values()):
                bound.pool.clear()

    def _given(
        self, out: Mapping[str, Array], bound: Bound, made: list[Array], inputs: list[Array]
    ) -> dict[int, Array]:
        """Put the caller's arrays in place where kernels can write them; else copy at the end."""
        later: dict[int, Array] = {}
        for name, target in out.items():
            if name not in self.tasks.output_names:
                known = ", ".join(self.tasks.output_names)
                raise ShapeError(
                    f"there is no output {name!r}; the outputs are {known}", where=name
                )
            n = self.tasks.output_names.index(name)
            _check_out(name, target, *bound.outputs[n])
            shared = any(np.may_share_memory(target, a) for a in (*inputs, *made, *later.values()))
            if _is_usable(target) and target.flags.writeable and not shared:
                made[n] = target
            else:
                later[n] = target
        return later

    def _reads(self) -> dict[str, frozenset[str]]:
        """For each operator the operators whose results it reads."""
        writers: dict[str, str] = {}
        out: dict[str, frozenset[str]] = {}
        for part in straights(self.tasks.parts):
            for operator in part.operators:
                roots = {self.tasks.values[a].root for a in operator.args}
                out[operator.name] = frozenset(writers[r] for r in roots if r in writers)
                writers[self.tasks.values[operator.result].root] = operator.name
        return out


def _make_room(remembered: dict[Remembered, Any]) -> None:
    """Forget all where there is too much; no lock, so that a fork never finds one held."""
    if len(remembered) >= BINDINGS:
        remembered.clear()


def _is_usable(array: Array) -> bool:
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned and array.dtype.isnative)


def _usable(array: Array) -> Array:
    """The array itself, or a copy that kernels can read."""
    if _is_usable(array):
        return array
    copy = aligned_array(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def _check_out(
    name: str, target: Array, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> None:
    if target.shape != shape:
        raise ShapeError(
            f"the array for the output {name!r} must have shape {shape} and has {target.shape}",
            where=name,
            expected=shape,
            found=target.shape,
        )
    if target.dtype != dtype:
        raise DtypeError(
            f"the array for the output {name!r} must be {dtype} and is {target.dtype}",
            where=name,
            expected=dtype,
            found=target.dtype,
        )
