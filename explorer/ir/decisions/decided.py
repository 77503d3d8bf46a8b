"""All decisions about a program, also those whose types belong to later layers, as protocols."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import ControlDecision, TaskTree
from explorer.ir.decisions.tile_graph import TileGraph
from explorer.ir.decisions.tiling import TilingDecision


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
    rammer: WallChoice | None = None  # explorer.rammer.Options: evaluated per binding
    memory: MemoryChoice | None = None  # the memory planner's options: evaluated per binding
    dispatch: tuple[DispatchedMatch, ...] = ()  # explorer.relax.dispatch.Moved: every match
    workspaces: tuple[LiftedTensor, ...] = ()  # explorer.relax.lift_workspaces.Workspace
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


@dataclass(frozen=True, slots=True)
class ProductsDecision:
    """Independent products by one constant, by the names they bind: done "together" or "apart".

    The choice stands first among the candidates. `generation` is the number of products by the
    constant on the longest path before each of them.
    """

    function: str
    weight: str
    generation: int
    products: tuple[str, ...]
    chosen: str
    candidates: tuple[Candidate[bool], ...]


@dataclass(frozen=True, slots=True)
class AlgorithmDecision:
    """The algorithm chosen for a convolution: direct, or minimal filtering.

    The choice stands first among the candidates.
    """

    binding: str
    chosen: str
    candidates: tuple[Candidate[str | None], ...]


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The bindings of a function that are computed a second time, and the predicted effect.

    It is the peak of the intermediates in bytes, and the time of all kernels.
    """

    recomputed: tuple[str, ...]
    peak_bytes: int
    us: float


@dataclass(frozen=True, slots=True)
class Rematerialisation:
    """The points between least time and least memory that were weighed for a function.

    The choice stands first; `room_bytes` are available.
    """

    function: str
    room_bytes: int
    chosen: Recomputation
    candidates: tuple[Candidate[Recomputation], ...]
