"""Control flow scheduled like data flow, at the lowest hardware level that can hold it.

Cocktailer (Grinder): Zhang et al., OSDI 2023, "Cocktailer: analyzing and optimizing dynamic control
flow in deep learning". Its nouns: uTask and uProgram (`model`). Levels here: "host", back to Python
for each decision, and "device", all units in step; independent calls of a recursion may be made by
units apart (`siblings`). Rows that a loop reads and stacks move with it (`rows`); a function that
calls itself has a frame for each call (`calls.recursion`), and of several that call each other one
stays (`calls.inline`); what only Python can do is told by `host`.
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
from explorer.grinder.options import Options, ways_of
from explorer.grinder.policy import SCHEDULES, LevelPolicy, Ways, lowest, on_host
from explorer.grinder.transform.uprogram import uprogram
from explorer.grinder.tree import Grind, task_tree

__all__ = [
    "SCHEDULES",
    "BranchTask",
    "CallTask",
    "Carried",
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
    "Ways",
    "lowest",
    "on_host",
    "task_tree",
    "uprogram",
    "ways_of",
]
