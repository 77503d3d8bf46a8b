"""Inputs of the assembly of launches."""

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
from explorer.runtime.planning.stacks import StackFrames


class Code(Protocol):
    """The code of a kernel call for any device."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments in the order in which the code takes them."""


@dataclass(frozen=True)
class LaunchInputs:
    """The uTasks and their schedules under one binding.

    `frames` are those of each recursion, with a stack for each unit that makes calls of its own;
    the first unit runs the recursions that are `alone`. `assignments` are the units of the members
    of concurrent groups, by the name of the first member.
    """

    program: UProgram
    schedules: Mapping[str, Schedule]
    units: int
    sizes: Sizes
    codes: Mapping[str, Code]
    frames: Mapping[str, StackFrames]
    alone: Collection[str]
    assignments: Mapping[str, Sequence[int]]

    @cached_property
    def moving(self) -> frozenset[str]:
        """Return the loops and recursions that addresses depend on."""
        loops = {loop for value in self.program.values.values() for loop, _ in value.moves}
        return frozenset(loops | {*self.frames})

    def frame(self, name: str) -> str:
        """Return the recursion in whose frames a value lies, or ""."""
        return self.program.root(name).frame

    def bytes_of(self, name: str) -> int:
        """Return the bytes of a value's elements."""
        return evaluate_dim(self.program.values[name].type.bytes, self.sizes)

    def assigned_units(self, group: Sequence[UTask]) -> Sequence[int]:
        """Return the units of concurrent loops and branches; none for other groups."""
        return self.assignments.get(first_member_name(group), ())

    def is_alone(self, recursion: str) -> bool:
        """Return True if the first unit runs a recursion while the others wait for its end."""
        return recursion in self.alone

    def stacks(self, recursion: str) -> int:
        """Return how many units make calls of their own; 1 if none does."""
        return self.frames[recursion].stacks

    def depth(self, recursion: str) -> int:
        """Return how many of its calls may be open."""
        return self.frames[recursion].depth
