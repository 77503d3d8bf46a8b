"""All decisions about a program, also those whose types belong to later layers, as protocols."""

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
    """Options of walls: the number of threads, 0 for as many as the device has units."""

    @property
    def threads(self) -> int:
        """The number of threads, 0 for one per unit."""


class ControlChoice(Protocol):
    """Options of control flow: the unroll factor of innermost loops, and the depth of calls."""

    @property
    def unroll(self) -> int:
        """The unroll factor of innermost loops."""

    @property
    def depth(self) -> int:
        """The depth of nested calls at most."""


class MemoryChoice(Protocol):
    """Options of memory planning: the policy's name, or a user's function."""

    @property
    def policy(self) -> str | Callable[..., object]:  # type: ignore[explicit-any]
        """The policy's name, or a function."""


class DispatchedMatch(Protocol):
    """A match of a library's pattern: its operators, and the library that runs them."""

    @property
    def value(self) -> str:
        """The name of the value that is matched."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of the match."""

    @property
    def library(self) -> str:
        """The library that runs them, "" if none does."""

    @property
    def refused(self) -> str:
        """The reason of a refusal, "" if dispatched."""


class LiftedTensor(Protocol):
    """A tensor between the computes of a kernel, and why it is a workspace or not."""

    @property
    def call(self) -> str:
        """The name of the kernel call."""

    @property
    def tensor(self) -> str:
        """The name of the tensor."""

    @property
    def reason(self) -> str:
        """The reason for the decision."""

    @property
    def refused(self) -> str:
        """The reason of a refusal, "" if it is a workspace."""


class PlannedFunction(Protocol):
    """A function whose nodes were grouped, by its name."""

    @property
    def function(self) -> str:
        """The name of the function."""


class FunctionPlan(Protocol):
    """The grouping of the nodes of one function."""

    @property
    def graph(self) -> PlannedFunction:
        """The function that the plan is for."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """All decisions made so far for a program; None stands for a stage that did not run."""

    tasks: TaskTree | None = None
    tile_graph: TileGraph | None = None
    algorithms: tuple[AlgorithmDecision, ...] = ()
    tilings: tuple[TilingDecision, ...] = ()
    blocks: tuple[BlockDecision, ...] = ()  # on a GPU, instead of tilings
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
        """Return the decision about a convolution."""
        return next((a for a in self.algorithms if a.binding == binding), None)

    def tiling(self, binding: str) -> TilingDecision | None:
        """Return Roller's decision about a kernel call."""
        return next((t for t in self.tilings if t.binding == binding), None)

    def block(self, binding: str) -> BlockDecision | None:
        """Return Roller's decision about a kernel call on a GPU."""
        return next((b for b in self.blocks if b.binding == binding), None)

    def rolled(self, binding: str) -> TilingDecision | BlockDecision | None:
        """Return Roller's decision about a kernel call on either kind of device."""
        return self.tiling(binding) or self.block(binding)
