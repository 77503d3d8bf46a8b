"""What launches are assembled of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from explorer.cached_property import cached_property
from explorer.codegen.build import Argument
from explorer.grinder import UProgram, UTask
from explorer.grinder.independent_calls import first_member_name
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.rammer import Schedule
from explorer.runtime.planning.stacks import Frames


class Code(Protocol):
    """The code of a kernel call, whatever device it is for."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """In the order in which it takes them."""


@dataclass(frozen=True)
class Given:
    """The uTasks and their schedules under one binding. `frames` are those of each recursion, with
    a stack for each unit that makes calls of its own; the first unit does those that are `alone`.
    `dealt` are the units of the members of groups that units do apart, by the name of the first.
    """

    program: UProgram
    schedules: Mapping[str, Schedule]
    units: int
    sizes: Sizes
    codes: Mapping[str, Code]
    frames: Mapping[str, Frames]
    alone: Collection[str]
    dealt: Mapping[str, Sequence[int]]

    @cached_property
    def moving(self) -> frozenset[str]:
        """The loops and recursions that addresses follow."""
        loops = {loop for value in self.program.values.values() for loop, _ in value.moves}
        return frozenset(loops | {*self.frames})

    def frame(self, name: str) -> str:
        """The recursion in whose frames a value lies, or ""."""
        return self.program.root(name).frame

    def bytes_of(self, name: str) -> int:
        """The bytes that a value's elements take."""
        return evaluate_dim(self.program.values[name].type.bytes, self.sizes)

    def dealt_to(self, group: Sequence[UTask]) -> Sequence[int]:
        """The units of loops and branches that are done apart; none of others."""
        return self.dealt.get(first_member_name(group), ())

    def is_alone(self, recursion: str) -> bool:
        """Whether the first unit does a recursion while the others wait for its end."""
        return recursion in self.alone

    def stacks(self, recursion: str) -> int:
        """How many units make calls of their own; 1 where none does."""
        return self.frames[recursion].stacks

    def depth(self, recursion: str) -> int:
        """How many of its calls may be open."""
        return self.frames[recursion].depth
