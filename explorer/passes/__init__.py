"""Passes from one program to the next, their registry, and the pipeline that records snapshots."""

from explorer.passes.pipeline.pipeline import Pass, Snapshot, Step, run_steps
from explorer.passes.pipeline.registry import compiler_pass, find_pass, forget_pass, passes

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
