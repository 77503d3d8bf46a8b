"""Memory plan of a program under the chosen policy; parts that no binding changes are cached.

A recursion has stacks: a frame for each call that may be open, all laid out alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from explorer.cached_property import cached_property
from explorer.errors import BoundError
from explorer.grinder import UProgram
from explorer.grinder.model import recursions_of
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.memory.allocations import allocations, steps
from explorer.memory.extents import Extents
from explorer.memory.plan import Buffer, Buffers, Options, Timeline, place, rows
from explorer.memory.rows import StorageRows, with_views
from explorer.memory.storages import StoragePlan, plan_storages
from explorer.memory.timeline import Uses
from explorer.process.budget import budget, check_room, size_text

USUAL_CALLS, USUAL_PARTS = 2000, 8  # default depth, within a USUAL_PARTS-th of memory; chosen


class MemoryPlanner:
    """Memory planner for any binding; `direct` are the roots that lie in the caller's arrays."""

    def __init__(
        self,
        program: UProgram,
        uses: Uses,
        env: ShapeEnv,
        direct: Mapping[str, int],
        options: Options,
    ) -> None:
        """Prepare the plan of a program's values."""
        self.program, self.uses, self.env = program, uses, env
        self.direct, self.options = direct, options

    def place(
        self,
        sizes: Sizes,
        extents: Extents,
        order: Callable[[], Timeline],
        stacks: Mapping[str, int],
    ) -> ArenaPlacement:
        """Return the places of one binding; `stacks` is the number of stacks of each recursion.

        Raises:
            BoundError: A symbol is above its bound.
        """
        self._check(sizes)
        timeline = cache(order)
        share = self.options.share
        laid = {
            s.recursion: s.lay(extents, timeline(), share, stacks.get(s.recursion, 1))
            for s in self.stacks
        }
        frames = {name: buffer_offsets for name, (_, buffer_offsets) in laid.items()}
        if self.by_storages:
            at = self._storages.layout.offsets(sizes)
            offsets, end = {name: at[n] for name, n in self._places}, at[-1]
            for stack in self.stacks:
                offsets[stack.buffer.name], end = end, end + frames[stack.recursion].bytes
        else:
            room = self._sizes(extents, frames)
            buffer_offsets, end = place(self._buffers, room, timeline(), self.options.share)
            offsets = {b.name: at for b, at in zip(self._buffers.all, buffer_offsets)}
        for stack in self.stacks:
            begin = offsets[stack.buffer.name]
            offsets |= {name: begin + at for name, at in laid[stack.recursion][0].items()}
        return ArenaPlacement(offsets, end, frames)

    def rows(self, placed: ArenaPlacement, sizes: Sizes, extents: Extents) -> MemoryPlan:
        """Return the plan for display, with a row for each view, and the bytes of the results."""
        if self.by_storages:
            plan = self._storages_with_stacks(placed, sizes)
        else:
            offsets = [placed.offsets[b.name] for b in self._buffers.all]
            plan = rows(self._buffers, self._sizes(extents, placed.frames), offsets, placed.bytes)
        memory_plan = with_views(plan, self.program, extents, self._formulas)
        return replace(memory_plan, result_bytes=sum(map(extents.bytes, self.program.outputs)))

    def _storages_with_stacks(self, placed: ArenaPlacement, sizes: Sizes) -> MemoryPlan:
        """Return Relax's plan, followed by the stacks."""
        plan = self._storages.plan(sizes)
        if not self.stacks:
            return plan
        buffers = Buffers([stack.buffer for stack in self.stacks])
        room = [placed.frames[stack.recursion].bytes for stack in self.stacks]
        stacks = rows(buffers, room, [placed.offsets[b.name] for b in buffers.all], placed.bytes)
        return replace(
            plan,
            buffers=(*plan.buffers, *stacks.buffers),
            planned_bytes=placed.bytes,
            naive_bytes=plan.naive_bytes + stacks.naive_bytes,
            bounded_bytes=None,
        )

    @property
    def by_storages(self) -> bool:
        """True if storages are used, not only planned."""
        return self.options.by_storages

    @cached_property
    def storages(self) -> StoragePlan:
        """Return Relax's plan, whichever policy is used."""
        candidates = allocations(self.program, self.uses, self.direct)
        names = {a.name for a in candidates}
        walk = steps(self.program, self.uses, names, self.options.in_place)
        return plan_storages(candidates, walk, self.env, self.options)

    @property
    def turns(self) -> list[tuple[int, tuple[int, ...]]]:
        """(a position that writes a storage, the positions that use its previous contents)."""
        out = []
        for storage in self.storages.storages if self.by_storages else ():
            before: tuple[int, ...] = ()
            for token in storage.tokens:
                out += [(write, before) for write in self.uses.writes[token.name] if before]
                before = tuple(sorted(set(self.uses.uses[token.name])))
        return out

    @cached_property
    def _storages(self) -> StorageRows:
        return StorageRows(self.storages, self.program, self.env)

    @cached_property
    def _places(self) -> tuple[tuple[str, int], ...]:
        storages = enumerate(self.storages.storages)
        return tuple((token.name, n) for n, storage in storages for token in storage.tokens)

    @cached_property
    def _buffers(self) -> Buffers:
        """Return every root that needs bytes in the arena and is written, and the stacks."""
        uses = self.uses
        return Buffers(
            [
                Buffer(
                    name,
                    tuple(uses.writes[name]),
                    tuple(uses.uses[name]),
                    str(value.type.bytes),
                    value.origin,
                )
                for name, value in self.program.values.items()
                if value.root == name
                and value.home == "buffer"
                and name in uses.writes
                and name not in self.direct
                and not value.frame
            ]
            + [stack.buffer for stack in self.stacks]
        )

    @cached_property
    def stacks(self) -> Sequence[Stack]:
        """Return the stacks of recursions."""
        return stacks_of(self.program, self.uses)

    @cached_property
    def _formulas(self) -> dict[str, str]:
        """Return the formula of every view's bytes."""
        values = self.program.values.values()
        return {v.name: str(v.type.bytes) for v in values if v.root != v.name}

    def _sizes(self, extents: Extents, frames: Mapping[str, StackFrames]) -> list[int]:
        """Return the bytes of every buffer, stacks last."""
        stacks = [frames[stack.recursion].bytes for stack in self.stacks]
        values = self._buffers.all[: len(self._buffers.all) - len(stacks)]
        return [*(extents.bytes(b.name) for b in values), *stacks]

    def _check(self, sizes: Sizes) -> None:
        """Check that the sizes are within the bounds, which the plan's proofs assume."""
        for name, value in sizes.items():
            bounds = self.env.of(name)
            if bounds.high is not None and value > bounds.high:
                raise _outside(name, value, f"at most {bounds.high}")
            if self.by_storages and self.options.ordered and value < bounds.low:
                raise _outside(name, value, f"at least {bounds.low}")


@dataclass(frozen=True, slots=True)
class ArenaPlacement:
    """The offset of every root in the arena of one binding, and the arena's bytes.

    `frames` are those of each recursion; its roots have their offsets in the first frame.
    """

    offsets: Mapping[str, int]
    bytes: int
    frames: Mapping[str, StackFrames] = field(default_factory=dict)


def _outside(name: str, value: int, limit: str) -> BoundError:
    return BoundError(
        f"{name} is {value} and memory is planned for {limit}",
        where=name,
        expected=limit,
        actual=value,
        try_=f"load the model with bounds={{{name!r}: (low, high)}} that allow it",
    )


@dataclass(frozen=True, slots=True)
class StackFrames:
    """The frames of a stack, the bytes of one, and the number of stacks."""

    depth: int
    frame_bytes: int
    stacks: int = 1

    @property
    def bytes(self) -> int:
        """The bytes of all stacks."""
        return self.stacks * self.depth * self.frame_bytes


@dataclass(frozen=True, slots=True)
class Stack:
    """The frames of a recursion: the buffers of each, and the stack as a buffer of the program.

    `depth` 0: the usual number of frames.
    """

    recursion: str
    function: str
    depth: int
    buffers: Buffers
    buffer: Buffer

    def lay(
        self, extents: Extents, timeline: Timeline, share: bool, stacks: int = 1
    ) -> tuple[Mapping[str, int], StackFrames]:
        """Return the offset of each buffer in a frame, and the frames of `stacks` stacks.

        Raises:
            TooLarge: There is no room for the requested frames.
        """
        sizes = [extents.bytes(b.name) for b in self.buffers.all]
        offsets, end = place(self.buffers, sizes, timeline, share)
        usual = min(USUAL_CALLS, budget() // USUAL_PARTS // max(1, end) // stacks)
        frames = StackFrames(self.depth or max(1, usual), end, stacks)
        each = f"{frames.depth:,} calls deep at {size_text(end)} each,"
        each += f" for each of {stacks} units," if stacks > 1 else ""
        check_room(
            frames.bytes,
            f"the stack of {self.function!r}, {each}",
            self.function,
            "a smaller grinder.depth, if calls nest less",
        )
        return {b.name: at for b, at in zip(self.buffers.all, offsets)}, frames


def stacks_of(program: UProgram, uses: Uses) -> Sequence[Stack]:
    """Return every stack of a program; that of a nested recursion serves all its calls."""
    inside: dict[str, list[Buffer]] = {}
    for name, value in program.values.items():
        if value.frame and value.root == name and name in uses.writes:
            writes, used = tuple(uses.writes[name]), tuple(uses.uses[name])
            buffer = Buffer(name, writes, used, str(value.type.bytes), value.origin)
            inside.setdefault(value.frame, []).append(buffer)
    stacks = []
    for task in recursions_of(program.parts):
        begin, end = uses.stacks[task.name]
        formula = f"frames of {task.function}"
        stack = Buffer(f"{task.name}/stack", (begin,), (begin, end), formula, task.origin)
        buffers = Buffers(inside.get(task.name, []))
        stacks.append(Stack(task.name, task.function, task.depth, buffers, stack))
    return stacks
