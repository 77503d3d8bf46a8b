"""Control flow scheduled like data flow, at the lowest hardware level that can hold it.

Cocktailer (Grinder): Zhang et al., OSDI 2023, "Cocktailer: analyzing and optimizing dynamic control
flow in deep learning". Its nouns: uTask and uProgram (`model`). The levels here are "host" (return
to Python for each decision) and "device" (all units run the control flow in step). Independent
calls of a recursion may run on separate units (`independent`). Views replace copies of rows that a
loop reads and stacks (`row_views`). A recursive function has a frame for each call (`recursion`);
of mutually recursive functions one remains (`inline`). `host` finds what only Python can run.
"""

from explorer.grinder.if_conversion import IfConversion
from explorer.grinder.model import (
    BranchTask,
    CallTask,
    Carried,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Stacked,
    Straight,
    UProgram,
    UTask,
    Value,
)
from explorer.grinder.options import Options, control_schedules_of
from explorer.grinder.policy import SCHEDULES, ControlSchedules, LevelPolicy, lowest, on_host
from explorer.grinder.transform import uprogram
from explorer.grinder.tree import Grind, task_tree

__all__ = [
    "SCHEDULES",
    "BranchTask",
    "CallTask",
    "Carried",
    "ControlSchedules",
    "Grind",
    "IfConversion",
    "LevelPolicy",
    "LibraryTask",
    "LoopTask",
    "OperatorTask",
    "Options",
    "RecursionTask",
    "Stacked",
    "Straight",
    "UProgram",
    "UTask",
    "Value",
    "control_schedules_of",
    "lowest",
    "on_host",
    "task_tree",
    "uprogram",
]
