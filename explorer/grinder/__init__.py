"""Control flow scheduled like data flow, at the lowest hardware level that can hold it.

Cocktailer (Grinder): Zhang et al., OSDI 2023, "Cocktailer: analyzing and optimizing dynamic control
flow in deep learning". Its nouns: uTask and uProgram (`model`). Levels here: "host", back to Python
for each decision, and "device", all units in step; a unit of its own for each part is to come.
Rows that a loop reads and stacks move with it (`rows`); what only Python can do is told by `host`.
"""

from explorer.grinder.model import (
    BranchTask,
    Carried,
    LibraryTask,
    LoopTask,
    OperatorTask,
    Stacked,
    Straight,
    UProgram,
    UTask,
    Value,
)
from explorer.grinder.policy import lowest, on_host
from explorer.grinder.transform import uprogram
from explorer.grinder.tree import grind, task_tree

__all__ = [
    "BranchTask",
    "Carried",
    "LibraryTask",
    "LoopTask",
    "OperatorTask",
    "Stacked",
    "Straight",
    "UProgram",
    "UTask",
    "Value",
    "grind",
    "lowest",
    "on_host",
    "task_tree",
    "uprogram",
]
