"""All that was decided for a program: also what rooms above leave behind in types of their own, as
far as it can be said here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from explorer.ir.decisions.algorithms import AlgorithmDecision, ProductsDecision
from explorer.ir.decisions.control import ControlDecision, TaskTree
from explorer.ir.decisions.rematerialisation import Rematerialisation
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.decisions.tiling import BlockDecision, TilingDecision


class WallChoice(Protocol):
    """How walls are to be laid: on how many threads, 0 for as many as the device has units."""

    @property
    def threads(self) -> int: ...


class ControlChoice(Protocol):
    """How control flow is to run: of innermost loops that are unrolled, so many trips a turn, and
    how deep calls may nest.
    """

    @property
    def unroll(self) -> int: ...
    @property
    def depth(self) -> int: ...


class MemoryChoice(Protocol):
    """How memory is to be planned: by the policy's name, or a function of the user's own."""

    @property
    def policy(self) -> str | Callable[..., object]: ...  # type: ignore[explicit-any]


class DispatchedMatch(Protocol):
    """A match of a library's pattern: the operators that it is of, and where they went."""

    @property
    def value(self) -> str: ...
    @property
    def operators(self) -> tuple[str, ...]: ...
    @property
    def library(self) -> str: ...
    @property
    def refused(self) -> str: ...


class LiftedTensor(Protocol):
    """A tensor between the computes of a kernel, and why it is a workspace or not."""

    @property
    def call(self) -> str: ...
    @property
    def tensor(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def refused(self) -> str: ...


class PlannedFunction(Protocol):
    """A function whose nodes were grouped, by its name."""

    @property
    def function(self) -> str: ...


class FunctionPlan(Protocol):
    """How the nodes of one function were grouped."""

    @property
    def graph(self) -> PlannedFunction: ...


@dataclass(frozen=True, slots=True)
class Decisions:
    """All that was decided so far for a program; a stage that did not run has left None."""

    tasks: TaskTree | None = None
    tile_graph: TileGraph | None = None
    algorithms: tuple[AlgorithmDecision, ...] = ()
    tilings: tuple[TilingDecision, ...] = ()
    blocks: tuple[BlockDecision, ...] = ()  # on a GPU, in the place of tilings
    rammer: WallChoice | None = None  # explorer.rammer.Options: evaluated per binding
    memory: MemoryChoice | None = None  # the memory planner's options: evaluated per binding
    dispatch: tuple[DispatchedMatch, ...] = ()  # explorer.relax.dispatch.Moved: every match
    workspaces: tuple[LiftedTensor, ...] = ()  # explorer.relax.memory.workspace.Workspace
    fusion: tuple[FunctionPlan, ...] = ()  # explorer.relax.fusion.FusionPlan, one per function
    products: tuple[ProductsDecision, ...] = ()
    order: str = ""  # in which the main function's bindings run: "as written", "by layer", ...
    control: tuple[ControlDecision, ...] = ()
    grinder: ControlChoice | None = None  # explorer.grinder.Options
    rematerialisation: tuple[Rematerialisation, ...] = ()  # one per function with a choice

    def algorithm(self, binding: str) -> AlgorithmDecision | None:
        """What was weighed for a convolution."""
        return next((a for a in self.algorithms if a.binding == binding), None)

    def tiling(self, binding: str) -> TilingDecision | None:
        """What Roller weighed for a kernel call."""
        return next((t for t in self.tilings if t.binding == binding), None)

    def block(self, binding: str) -> BlockDecision | None:
        """What Roller weighed for it on a GPU."""
        return next((b for b in self.blocks if b.binding == binding), None)

    def rolled(self, binding: str) -> TilingDecision | BlockDecision | None:
        """What Roller decided of it, on whichever device."""
        return self.tiling(binding) or self.block(binding)
