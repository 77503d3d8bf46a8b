"""A program bound to sizes: its plan, its tables, a pool of arenas for runs, and their outputs.

Limits are checked before memory is laid out: no value is too large, and no kernel takes hours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from types import MappingProxyType
from typing import NoReturn, TypeAlias

import numpy as np

from explorer.codegen.build import KernelCode
from explorer.errors import BadOption, DtypeError, ShapeError, TooLarge
from explorer.grinder import LibraryTask
from explorer.grinder.recursion import extend_sizes
from explorer.ir.dims import Sizes
from explorer.ir.types import ITEM_BYTES, numpy_dtype
from explorer.process.budget import check_room
from explorer.process.counters import counters
from explorer.runtime.binding.arena import Arena
from explorer.runtime.binding.assemble import assemble
from explorer.runtime.binding.launch_code import (
    HostBranch,
    HostLoop,
    LaunchCode,
    LaunchInputs,
    Step,
)
from explorer.runtime.binding.recording import Recording, RunTrace, capture, replay
from explorer.runtime.binding.tables import ArgumentBlocks, Constants, Template, ValuePlaces
from explorer.runtime.planning.plan import Plan, Planner
from explorer.runtime.workers.aligned_memory import address_of, aligned_array
from explorer.runtime.workers.workers import Launcher

Array = np.ndarray
Kind: TypeAlias = tuple[tuple[int, ...], np.dtype[np.generic]]
LONGEST_SECONDS = 3600.0
MOST_BYTES = 1 << 62
NOT_ALLOCATED = ("input", "constant", "host")  # homes of values that a run does not allocate


class BoundProgram:
    """A program bound to sizes, immutable except for its pool of arenas.

    Concurrent runs take an arena each. `shape_inputs` are arrays that every run reads after its
    inputs.
    """

    def __init__(
        self,
        plan: Plan,
        constants: Constants,
        codes: Mapping[str, KernelCode],
        units: int,
        shape_inputs: Sequence[np.ndarray] = (),
    ) -> None:
        """Assemble the launches of a plan, and lay out their tables."""
        self.plan, self.codes, self.units, self.shape_inputs = (
            plan,
            codes,
            units,
            tuple(shape_inputs),
        )
        self.places = ValuePlaces(plan, constants)
        program, frames = plan.program, plan.placed.frames
        inputs = (
            program,
            plan.schedules,
            units,
            plan.sizes,
            codes,
            frames,
            plan.alone,
            plan.unit_assignments,
        )
        self.steps = assemble(LaunchInputs(*inputs))
        self.launches = tuple(launches(self.steps))
        self.blocks = ArgumentBlocks(self.places, codes)
        for launch in self.launches:
            self.blocks.add(launch)
        self.args = Template.of(self.blocks.rows)
        self.slots = tuple(
            Template.of([self.places.of(name) for name in launch.slots]) for launch in self.launches
        )
        program = plan.program
        kinds = [
            (plan.shape(name), numpy_dtype(program.values[name].type.element))
            for name in program.outputs
        ]
        written = plan.planner.written_inputs
        self.outputs = Outputs.of(program.output_names, kinds, plan.planner.overwritable, written)
        direct = {*plan.direct.values(), *self.outputs.inside}
        self.copied = tuple((n, o) for n, o in enumerate(program.outputs) if n not in direct)
        self.pool: list[Arena] = []
        self.used = 0  # time stamp of the last use

    @property
    def arena_bytes(self) -> int:
        """The bytes of one arena, with scratch and the stacks of its units."""
        calls = 8 * sum(len(code.units) * code.stack for code in self.launches)
        return self.plan.placed.bytes + self.units * self.blocks.scratch_bytes + calls

    def check_room(self, name: str) -> None:
        """Check that the intermediates and results of a run fit into memory.

        Raises:
            TooLarge: They do not fit.
        """
        results = sum(prod(shape) * dtype.itemsize for shape, dtype in self.outputs.kinds)
        what = f"a run of {name} with its {len(self.outputs.kinds)} results"
        check_room(self.arena_bytes + results, what, name)

    @property
    def pooled_bytes(self) -> int:
        """The bytes of the arenas that no run uses."""
        return len(self.pool) * self.arena_bytes

    def take(self) -> Arena:
        """Return an arena that no other run uses."""
        try:
            return self.pool.pop()
        except IndexError:
            counters.add("arenas_made")
            return Arena(self)

    def give(self, arena: Arena) -> None:
        """Return an arena to the pool."""
        arena.arrays.clear()
        self.pool.append(arena)

    def replay(self, arena: Arena, team: Launcher, traced: RunTrace | None = None) -> None:
        """Run an arena's recording, which is captured before the first run."""
        replay(self.recording(arena), team, traced)

    def recording(self, arena: Arena) -> Recording:
        """Return the recording of a run in an arena."""
        if arena.recording is None:
            counters.add("captures")
            arena.recording = capture(self.steps, self.copied, arena)
        else:
            counters.add("replays")
        return arena.recording


def launches(steps: Sequence[Step]) -> list[LaunchCode]:
    """Return every launch of the steps, in order."""
    out: list[LaunchCode] = []
    for step in steps:
        match step:
            case LaunchCode():
                out.append(step)
            case HostLoop(body=body):
                out += launches(body)
            case HostBranch(then=then, orelse=orelse):
                out += launches((*then, *orelse))
            case LibraryTask():
                continue
    return out


def check_values(planner: Planner, known_sizes: Sizes) -> None:
    """Check that every value of a run fits into memory.

    Raises:
        TooLarge: A value does not fit.
    """
    program = planner.program
    extents, values = (
        planner.extents(extend_sizes(program.symbol_renaming, known_sizes)),
        program.values,
    )
    roots = [n for n, v in values.items() if v.root == n and v.home not in NOT_ALLOCATED]
    for name in roots:
        shape, dtype = extents.shape(name), values[name].type.element
        # The strides of an array without elements are 64-bit numbers too.
        strides = ITEM_BYTES[dtype] * prod(d for d in shape if d)
        count = extents.bytes(name) if strides < MOST_BYTES else strides
        check_room(count, f"{name!r}, {dtype}{list(shape)},", name)


def check_time(planner: Planner, known_sizes: Sizes) -> None:
    """Check that no kernel would run for hours, as modelled: no signal interrupts it.

    Raises:
        TooLarge: A kernel would.
    """
    sizes = extend_sizes(planner.program.symbol_renaming, known_sizes)
    for operator in (o for run in planner.runs for o in run.operators):
        fact = planner.task_facts(operator, sizes)
        seconds = fact.tasks * fact.us / planner.units.units / 1e6
        if seconds > LONGEST_SECONDS:
            raise TooLarge(
                f"{operator.name!r} is one kernel that would run for {seconds / 3600:,.0f} "
                "hours, and could not be interrupted",
                where=operator.name,
                try_="smaller sizes",
            )


@dataclass(frozen=True, slots=True)
class Outputs:
    """The names of a program's outputs, and their kinds for a binding.

    `over`: by position of an output the inputs whose memory kernels may write it into; `takers`: by
    position of an input the outputs that may be written into it. `written` are the inputs that
    kernels write into, whatever a run asks for, and `inside` the outputs that are such an input.
    """

    names: Sequence[str]
    kinds: Sequence[Kind]
    position: Mapping[str, int]
    over: Mapping[int, frozenset[int]]
    takers: Mapping[int, Sequence[int]]
    written: frozenset[int]
    inside: Mapping[int, int]

    @staticmethod
    def of(
        names: Sequence[str],
        kinds: Sequence[Kind],
        over: Mapping[int, frozenset[int]] = MappingProxyType({}),
        written: Mapping[int, int | None] = MappingProxyType({}),
    ) -> Outputs:
        """Return outputs with these names and kinds; `written` has the output of each input."""
        takers: dict[int, list[int]] = {}
        for n, inputs in over.items():
            for at in inputs:
                takers.setdefault(at, []).append(n)
        inside = {n: at for at, n in written.items() if n is not None}
        position = {name: n for n, name in enumerate(names)}
        return Outputs(names, kinds, position, over, takers, frozenset(written), inside)

    def own_inputs(self, inputs: list[Array], theirs: Collection[int]) -> list[Array]:
        """Return the inputs with copies of those that kernels write into and may not.

        They may write into arrays that no one else has, and into those at the positions `theirs`,
        which the caller donates, unless they are read-only or share memory with another input.
        """
        is_apart = not _overlap(inputs)
        for at in self.written:
            others = (a for n, a in enumerate(inputs) if n != at and not is_apart)
            is_ours = at in theirs and _is_writable(inputs[at])
            if not is_ours or any(np.may_share_memory(inputs[at], a) for a in others):
                counters.add("arrays_made")
                copy = aligned_array(inputs[at].shape, inputs[at].dtype)
                np.copyto(copy, inputs[at])
                inputs[at] = copy
        return inputs

    def new_arrays(self) -> list[Array]:
        """Return a new array for each output."""
        return [aligned_array(shape, dtype) for shape, dtype in self.kinds]

    def select_arrays(
        self, out: Mapping[str, Array], inputs: Sequence[Array], donated: Sequence[int] = ()
    ) -> tuple[list[Array], dict[int, Array]]:
        """Return by position the arrays that kernels write, and the caller's to copy to afterwards.

        An array that kernels write shares no byte with another output, nor with an input. The
        exception is an input that the output may overwrite, if `out` says so or the input is
        donated.

        Raises:
            ShapeError: An array has the wrong shape for its output.
            DtypeError: An array has the wrong dtype for its output.
            BadOption: Two of the caller's arrays share memory.
        """
        targets: dict[int, Array] = {}
        for name, target in out.items():
            n = self.position.get(name, -1)
            if n < 0 or (target.shape, target.dtype) != self.kinds[n]:
                self._refuse(name, target)
            targets[n] = target
        own = {n: inputs[at] for n, at in self.inside.items()}
        later = {n: targets.pop(n) for n in own if n in targets}
        later = {n: a for n, a in later.items() if not _is_same_memory(a, own[n])}
        wanted = {**targets, **self._taken_over(inputs, donated, targets)} if donated else targets
        direct = _direct(inputs, wanted, self.over)
        if len(direct) < len(wanted) or later:
            self._refuse_shared({**targets, **later})
        placed = {**direct, **own}
        if len(placed) == len(self.kinds):
            return [placed[n] for n in range(len(self.kinds))], later
        arrays = [placed[n] if n in placed else aligned_array(*k) for n, k in enumerate(self.kinds)]
        return arrays, {**later, **{n: a for n, a in targets.items() if n not in direct}}

    def _taken_over(
        self, inputs: Sequence[Array], donated: Sequence[int], targets: Mapping[int, Array]
    ) -> dict[int, Array]:
        """Return an output for each donated input that can hold one, by position."""
        out: dict[int, Array] = {}
        for at in donated:
            kind = inputs[at].shape, inputs[at].dtype
            for n in self.takers.get(at, ()):
                if n not in out and n not in targets and self.kinds[n] == kind:
                    out[n] = inputs[at]
                    break
        return out

    def _refuse_shared(self, targets: Mapping[int, Array]) -> None:
        """Refuse arrays of the caller that share memory."""
        for (n, a), (m, b) in combinations(targets.items(), 2):
            if np.shares_memory(a, b):
                raise BadOption(
                    f"the arrays for the outputs {self.names[n]!r} and {self.names[m]!r} share "
                    "memory, so that one result would overwrite the other",
                    where=self.names[m],
                    try_="an array of its own for each output",
                )

    def _refuse(self, name: str, target: Array) -> NoReturn:
        if name not in self.position:
            names = ", ".join(self.names)
            raise ShapeError(f"there is no output {name!r}; the outputs are {names}", where=name)
        shape, dtype = self.kinds[self.position[name]]
        if target.shape != shape:
            raise ShapeError(
                f"the array for the output {name!r} must have shape {shape} and has {target.shape}",
                where=name,
                expected=shape,
                actual=target.shape,
            )
        raise DtypeError(
            f"the array for the output {name!r} must be {dtype} and is {target.dtype}",
            where=name,
            expected=dtype,
            actual=target.dtype,
        )


def as_usable(array: Array) -> Array:
    """Return the array itself, or a copy that kernels can read."""
    if is_usable(array):
        return array
    counters.add("arrays_made")
    array = np.asarray(array)
    copy = aligned_array(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def copy_out(results: dict[str, Array], out: Mapping[str, Array] | None) -> dict[str, Array]:
    """Return results whose shapes only the run knew, copied to the caller's arrays where given.

    Raises:
        ShapeError: An array has the wrong shape for its output.
        DtypeError: An array has the wrong dtype for its output.
    """
    if out:
        kinds = [(a.shape, a.dtype) for a in results.values()]
        Outputs.of(tuple(results), kinds).select_arrays(out, ())
        for name, target in out.items():
            np.copyto(target, results[name])
    return {**results, **(out or {})}


def is_usable(array: Array) -> bool:
    """Return True if kernels can work on the array's own bytes."""
    if not isinstance(array, np.ndarray):
        return False
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned and array.dtype.isnative)


def _direct(
    inputs: Sequence[Array], targets: Mapping[int, Array], over: Mapping[int, frozenset[int]]
) -> Mapping[int, Array]:
    """Return the arrays that kernels can write directly.

    In order, these share no byte with an input that they must not overwrite, or with an earlier
    array.
    """
    writable = all([_is_writable(a) for a in targets.values()])
    if writable and not _overlap([*inputs, *_elsewhere(inputs, targets, over)]):
        return targets
    out: dict[int, Array] = {}
    seen: list[Array] = []
    for n, target in targets.items():
        allowed = over.get(n, frozenset())
        apart = _is_writable(target) and not any(np.may_share_memory(target, a) for a in seen)
        if apart and all(
            (at in allowed and _is_same_memory(target, a)) or not np.may_share_memory(target, a)
            for at, a in enumerate(inputs)
        ):
            out[n] = target
        seen.append(target)
    return out


def _elsewhere(
    inputs: Sequence[Array], targets: Mapping[int, Array], over: Mapping[int, frozenset[int]]
) -> list[Array]:
    """Return the targets that do not overwrite an input that they may overwrite.

    Each input excuses one target.
    """
    out: list[Array] = []
    written: set[int] = set()
    for n, target in targets.items():
        for at in over.get(n, ()):
            if at not in written and _is_same_memory(target, inputs[at]):
                written.add(at)
                break
        else:
            out.append(target)
    return out


def _is_same_memory(a: Array, b: Array) -> bool:
    """Return True if two arrays in C order are the same elements."""
    return address_of(a) == address_of(b) and (a.shape, a.dtype) == (b.shape, b.dtype)


def _is_writable(array: Array) -> bool:
    return is_usable(array) and array.flags.writeable


def _overlap(arrays: Sequence[Array]) -> bool:
    """Return True if any two of these arrays in C order share a byte."""
    reached = 0
    for begin, size in sorted([(address_of(a), a.nbytes) for a in arrays]):
        if begin < reached and size:
            return True
        reached = max(reached, begin + size)
    return False
