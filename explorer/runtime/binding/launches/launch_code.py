"""What a run is made of: launches, each with rows for every unit, and what Python does between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from explorer.grinder import BranchTask, LibraryTask, LoopTask, OperatorTask
from explorer.runtime.workers.launch import Pointer


@dataclass(frozen=True, slots=True)
class RunRow:
    """What a Run row of a unit is: tasks of an operator, in the n-th launch of the wall."""

    operator: OperatorTask
    first: int
    last: int
    program: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What a row of control flow decides, of the loop, branch or recursion that `binding` binds:
    "enter" and "trip" (of so many `trips` at once), "branch", or "call", whose register is `least`
    where no other is open. `own`: it is a decision of one unit.
    """

    kind: str
    binding: str
    trips: int = 1
    least: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True)
class LaunchCode:
    """Rows for each unit that has tasks: the others need not wake up. `units` are their numbers,
    and each has so many `registers`, and a stack of so many words.

    `operators`, `slots` and `pointers` say what the tables hold that the rows index; fault n + 1 of
    a row is that of `recursions[n]`; `marks` are what the rows of the first units decide: the first
    one's all, of others what each decides for itself.
    """

    units: tuple[int, ...]
    rows: tuple[np.ndarray, ...]
    operators: tuple[OperatorTask, ...]
    slots: tuple[str, ...]  # names of values
    pointers: tuple[Pointer, ...]
    runs: tuple[Mapping[int, RunRow], ...]  # for each unit, by row
    registers: int
    stack: int
    recursions: tuple[tuple[str, int], ...]  # functions, and how deep their calls may nest
    marks: tuple[Mapping[int, Mark], ...]


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop whose decisions are made in Python."""

    task: LoopTask
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class HostBranch:
    """A branch whose decision is made in Python."""

    task: BranchTask
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


Step: TypeAlias = LaunchCode | LibraryTask | HostLoop | HostBranch
