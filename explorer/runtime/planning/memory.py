"""Memory plan of a program under the chosen policy; parts that no binding changes are cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from explorer.cached_property import cached_property
from explorer.errors import BoundError
from explorer.grinder import UProgram
from explorer.ir.decisions.memory_plan import MemoryPlan
from explorer.ir.shapes.dims import ShapeEnv, Sizes
from explorer.relax.memory.plan import Buffer, Buffers, Options, Timeline, place, rows
from explorer.relax.memory.storages import StoragePlan, plan_storages
from explorer.runtime.planning.allocations import allocations, steps
from explorer.runtime.planning.extents import Extents
from explorer.runtime.planning.memory_rows import StorageRows, with_views
from explorer.runtime.planning.stacks import Stack, StackFrames, stacks_of
from explorer.runtime.planning.timeline import Uses


@dataclass(frozen=True, slots=True)
class ArenaPlacement:
    """The offset of every root in the arena of one binding, and the arena's bytes.

    `frames` are those of each recursion; its roots have their offsets in the first frame.
    """

    offsets: Mapping[str, int]
    bytes: int
    frames: Mapping[str, StackFrames] = field(default_factory=dict)


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


def _outside(name: str, value: int, limit: str) -> BoundError:
    return BoundError(
        f"{name} is {value} and memory is planned for {limit}",
        where=name,
        expected=limit,
        actual=value,
        try_=f"load the model with bounds={{{name!r}: (low, high)}} that allow it",
    )
