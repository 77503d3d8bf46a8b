"""Stacks of recursions: a frame for each call that may be open, all laid out alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.budget import budget, check_room, size_text
from explorer.grinder import UProgram
from explorer.relax.memory.plan import Buffer, Buffers, Timeline, place
from explorer.runtime.planning.allocations import recursions_of
from explorer.runtime.planning.extents import Extents
from explorer.runtime.planning.timeline import Uses

USUAL_CALLS, USUAL_PARTS = 2000, 8  # default depth, within a USUAL_PARTS-th of memory; chosen


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
