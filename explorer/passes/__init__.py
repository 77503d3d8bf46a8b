"""Passes from one program to the next, their registry, and the pipeline that records snapshots."""

from explorer.passes.registry import compiler_pass, find_pass, forget_pass, passes
from explorer.passes.snapshots import Pass, Snapshot, Step, run_steps

__all__ = [
    "Pass",
    "Snapshot",
    "Step",
    "compiler_pass",
    "find_pass",
    "forget_pass",
    "passes",
    "run_steps",
]
