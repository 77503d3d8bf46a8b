"""Steps of a run: launches with rows for every unit, and decisions of Python between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from explorer.grinder import BranchTask, LibraryTask, LoopTask, OperatorTask
from explorer.runtime.workers.launch import Pointer


@dataclass(frozen=True, slots=True)
class RunRow:
    """The meaning of a unit's Run row: tasks of an operator, in the n-th launch of the wall."""

    operator: OperatorTask
    first: int
    last: int
    program: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The decision that a row of control flow makes, for the loop, branch or recursion `binding`.

    `kind` is "enter", "trip" (of `trips` trips at once), "branch", or "call", whose register is
    `least` if no other call is open. `own`: one unit decides for itself.
    """

    kind: str
    binding: str
    trips: int = 1
    least: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True)
class LaunchCode:
    """Rows for each unit that has tasks; the other units need not wake up.

    `units` are their numbers; each has `registers` registers, and a stack of `stack` words.
    `operators`, `slots` and `pointers` are the contents of the tables that the rows index; fault n
    + 1 of a row is that of `recursions[n]`; `marks` are the decisions of the rows of the first
    units: all of the first unit's, and those that each other unit makes for itself.
    """

    units: tuple[int, ...]
    rows: tuple[np.ndarray, ...]
    operators: tuple[OperatorTask, ...]
    slots: tuple[str, ...]  # names of values
    pointers: tuple[Pointer, ...]
    runs: tuple[Mapping[int, RunRow], ...]  # for each unit, by row
    registers: int
    stack: int
    recursions: tuple[tuple[str, int], ...]  # functions, and the largest depth of their calls
    marks: tuple[Mapping[int, Mark], ...]


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop that Python decides."""

    task: LoopTask
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class HostBranch:
    """A branch that Python decides."""

    task: BranchTask
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


Step: TypeAlias = LaunchCode | LibraryTask | HostLoop | HostBranch
