"""The ordered stages of compilation, and the invariant that holds for a program of each stage."""

from __future__ import annotations

from enum import IntEnum


class Stage(IntEnum):
    """The stage that a program has reached; each keeps the invariants of the earlier ones."""

    IMPORTED = 0
    TYPED = 1
    DIFFERENTIATED = 2
    LEGALIZED = 3
    TASKED = 4
    WELDED = 5
    ROLLED = 6
    RAMMED = 7
    PLANNED = 8
    EMITTED = 9

    @property
    def title(self) -> str:
        """The name with the field's word for what a system did: "WELDED fusion"."""
        return f"{self.name} {WORDS.get(self, '')}".rstrip()


WORDS: dict[Stage, str] = {  # where a stage is named after its system's own verb
    Stage.TASKED: "control flow",
    Stage.WELDED: "fusion",
    Stage.ROLLED: "tiling",
    Stage.RAMMED: "scheduling",
    Stage.PLANNED: "memory",
}
SYSTEMS: dict[str, Stage] = {  # by system, the stage that it produces
    "relax": Stage.LEGALIZED,
    "grinder": Stage.TASKED,
    "welder": Stage.WELDED,
    "roller": Stage.ROLLED,
    "rammer": Stage.RAMMED,
    "memory": Stage.PLANNED,
    "codegen": Stage.EMITTED,
}
PROMISES: dict[Stage, str] = {
    Stage.IMPORTED: "graph operators as they stand in the file",
    Stage.TYPED: "every value has an annotation; shape arithmetic is folded into symbolic dims",
    Stage.DIFFERENTIATED: "gradients stand beside the forward operators",
    Stage.LEGALIZED: "every operator is a loop-level kernel, a view, or a marked library call",
    Stage.TASKED: "control flow is a tree of uTasks with a level for each",
    Stage.WELDED: "kernels that share tiles are one kernel",
    Stage.ROLLED: "every kernel has its tiles for each memory level",
    Stage.RAMMED: "rTasks stand on execution units in order, with barriers where data crosses",
    Stage.PLANNED: "every intermediate has its place in memory",
    Stage.EMITTED: "every kernel is machine code",
}
