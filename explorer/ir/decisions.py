"""What the systems leave behind: each decision as a value, with its losing candidates, read by
later systems and pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from explorer.ir.shapes.dims import Dim

T_co = TypeVar("T_co", covariant=True)  # what a choice is: a tiling, a word, yes or no


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a choice was refused, as values: the condition that fails, the number found, the limit
    that it is compared with, and the smallest change that would flip it ("": none would).
    """

    condition: str  # its name: "capacity", "readers", "gain", ...
    found: float
    limit: float
    text: str  # the condition with its numbers, in words
    change: str = ""

    @property
    def words(self) -> str:
        """The condition and the change."""
        return f"{self.text}: {self.change}" if self.change else self.text


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T_co]):
    """One choice that was weighed: its cost in named terms (microseconds), or the reason why it was
    refused, in words and, where its room can tell them, as values.
    """

    label: str
    value: T_co
    terms: tuple[tuple[str, float], ...] = ()
    refused: str = ""
    why: Refusal | None = None

    @property
    def cost_us(self) -> float:
        """The modelled time; infinite where refused."""
        return float("inf") if self.refused else sum(t for _, t in self.terms)


# Grinder: control flow as uTasks.


@dataclass(frozen=True, slots=True)
class TaskTree:
    """A uTask: an operator (leaf), or a loop, branch, call or sequence over parts, run at a
    hardware level.

    `kind` is "operator", "sequence", "loop", "branch", "call" or "library"; `level` is "host" (back
    to Python), "device" (all units in step, barriers between), or "unit" (each on its own).
    """

    kind: str
    name: str
    level: str
    parts: tuple[TaskTree, ...] = ()
    binding: str = ""
    reason: str = ""
    barriers_per_trip: int = 0
    origin: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ControlWay:
    """How control flow may run: at a level as in `TaskTree`, or "both": both sides of a branch
    are computed and one is selected. A turn of a loop makes `turn` trips. Units make the `calls` of
    a recursion all "together", one "alone", or "apart"; "" where there is one unit.
    """

    level: str
    turn: int = 1
    calls: str = ""

    @property
    def words(self) -> str:
        """What texts call it."""
        if self.level == "both":
            return "both sides"
        if self.calls:
            return f"{self.level}, {self.calls}"
        return f"unrolled by {self.turn}" if self.turn > 1 else self.level


@dataclass(frozen=True, slots=True)
class MeasuredWay:
    """A way that was timed in whole runs on this machine, beside what the model had said of a trip
    or decision; `rank` 1 is the model's first.
    """

    rank: int
    way: ControlWay
    predicted_us: float
    measured_us: float


COSTS_ARE_OF = {"loop": "trip", "branch": "decision", "call": "call"}  # by kind


@dataclass(frozen=True, slots=True)
class ControlDecision:
    """The ways that were weighed for the loop, branch or outermost call of a recursion that a
    binding binds, the one taken first; a candidate's terms are of one trip, decision or call, as
    predicted. `measured` are those that were timed, the one taken first; they lead the candidates.
    """

    binding: str
    kind: str  # "loop", "branch" or "call"
    chosen: ControlWay
    candidates: tuple[Candidate[ControlWay], ...]
    reason: str = ""
    measured: tuple[MeasuredWay, ...] = ()


# Welder: the tile graph.


@dataclass(frozen=True, slots=True)
class TileEdge:
    """An intermediate between two kernels and the memory level at which its tile is handed over.

    `reuse_tile`: the extents of the part that is handed over at once; of all of it where the level
    is the last one, () where it is not known.
    """

    source: str  # binding names before welding; computes of the kernel in a `GroupPlan`
    target: str
    tensor: str
    bytes: Dim
    level: str  # "register", "L1", "L2", "L3", "DRAM"; "register", "shared", "DRAM" on a GPU
    reuse_tile: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorTile:
    """The part of a tensor that one operator of a group reads or writes for one tile of a level:
    one rectangle of the picture.
    """

    node: str  # the compute, by the tensor that it writes
    tensor: str
    tile: tuple[int, ...]
    full: tuple[int, ...]  # the extents of the tensor
    bytes: int  # of the tile
    level: str  # the memory that holds it


@dataclass(frozen=True, slots=True)
class LevelBytes:
    """One memory under a plan: bytes that a unit's tile holds in it, bytes that it has room for
    (None: all), and bytes moved in all between it and the next farther one. The farthest holds
    what the group reads and writes, and moves nothing more.
    """

    level: str
    footprint: int
    capacity: int | None
    traffic: int

    @property
    def fits(self) -> bool:
        """Whether there is room."""
        return self.capacity is None or self.footprint <= self.capacity


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group's tiles over the memory levels of a device, under the hints of its symbols.

    `level` is the memory that holds a task's tile, `tile` its sizes by axis of the output, `grid`
    how many tasks there are, and `waves` how often all units take one together. `levels` and
    `tiles` are nearest memory first. `recompute`: work of all tasks, halos done again included,
    over the work without (1.0: nothing is done twice).
    """

    level: str
    tile: tuple[tuple[str, int], ...]
    grid: int
    waves: int
    levels: tuple[LevelBytes, ...]
    tiles: tuple[OperatorTile, ...]
    edges: tuple[TileEdge, ...]
    recompute: float
    predicted_us: float

    @property
    def fits(self) -> bool:
        """Whether every memory has room for its tile."""
        return all(m.fits for m in self.levels)

    def at(self, level: str) -> LevelBytes:
        """What a memory holds and moves."""
        return next(m for m in self.levels if m.level == level)


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """The kernels that became one: their names in order, and bytes moved to and from memory before
    and after.
    """

    name: str  # the binding after welding
    members: tuple[str, ...]
    kinds: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    steps: tuple[Candidate[bool], ...] = ()  # each merge that was weighed, with its terms
    origin: frozenset[str] = frozenset()
    plan: GroupPlan | None = None  # its tiles over the memory levels


@dataclass(frozen=True, slots=True)
class TileGraph:
    """Groups and the edges between and inside of them."""

    groups: tuple[FusionGroup, ...]
    edges: tuple[TileEdge, ...]
    policy: str = ""


# How products by one constant are done.


@dataclass(frozen=True, slots=True)
class ProductsDecision:
    """Products by one constant that do not need each other, by what they bind: done "together" or
    "apart"; the way taken stands first among the candidates. `generation`: how many products by the
    constant are on the longest path before each of them.
    """

    function: str
    weight: str
    generation: int
    products: tuple[str, ...]
    chosen: str
    candidates: tuple[Candidate[bool], ...]


# How convolutions are done.


@dataclass(frozen=True, slots=True)
class AlgorithmDecision:
    """The algorithms that were weighed for a convolution, the one taken first: direct, or minimal
    filtering.
    """

    binding: str
    chosen: str
    candidates: tuple[Candidate[str | None], ...]


# Roller: tiles.


@dataclass(frozen=True, slots=True)
class Micro:
    """The register tile of a contraction: rows by vectors of `lanes` elements."""

    rows: int = 14
    vectors: int = 2
    lanes: int = 16

    @property
    def columns(self) -> int:
        """Elements in a row of the register tile."""
        return self.vectors * self.lanes

    @property
    def registers(self) -> int:
        """Vector registers that it needs: its sums, a row value, and a vector a column group; of
        one row alone each vector is used once, so that one is enough for all.
        """
        columns = self.vectors if self.rows > 1 else 1
        return self.rows * self.vectors + columns + 1

    def over(self, columns: Dim) -> Micro:
        """The tile of a contraction with so many columns: no vector lies past them, and as many
        sums are kept, in more rows.
        """
        if not isinstance(columns, int) or columns > (self.vectors - 1) * self.lanes:
            return self
        vectors = max(1, -(-columns // self.lanes))
        return Micro(self.rows * self.vectors // vectors, vectors, self.lanes)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tile of one task: sizes by output axis (an axis not named is not cut), and how
    contractions run inside.

    `pack`: copy a right operand that is no constant into panels. `depth_block`: products summed
    before the sums rest.
    """

    tile: tuple[tuple[str, int], ...] = ()
    micro: Micro = Micro()
    pack: bool = False
    depth_block: int = 0

    def size(self, axis: str) -> int | None:
        """The tile's size along an axis, None if it is not cut."""
        return next((n for a, n in self.tile if a == axis), None)


@dataclass(frozen=True, slots=True)
class Block:
    """The tile of a thread block of a GPU, sizes by output axis as in `Tiling`, and the tiles of
    nearer levels in it.

    `register`: elements along each axis of the heaviest compute that one of the `threads` has in
    registers; `shared`: of each axis that it reduces, how many shared memory holds at once;
    `padding`: elements added to the rows of an operand there, by tensor.
    """

    tile: tuple[tuple[str, int], ...] = ()
    threads: int = 1
    register: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, int], ...] = ()
    padding: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MeasuredTile:
    """A tiling that was timed alone on this machine, beside what the model had said; `rank` 1 is
    the model's first.
    """

    rank: int
    tiling: Tiling
    predicted_us: float
    measured_us: float


@dataclass(frozen=True, slots=True)
class TilingDecision:
    """The candidates of one kernel, best first; the first is the one taken, unless `pinned` was set
    by hand. `measured` are those that were timed, fastest first; they lead the candidates.
    `efficient` is the one that the wall may run instead, where units are short.
    """

    binding: str
    chosen: Tiling
    candidates: tuple[Candidate[Tiling], ...]
    pinned: bool = False
    measured: tuple[MeasuredTile, ...] = ()
    efficient: Tiling | None = None


# Rematerialisation: values that are computed again instead of kept.


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The bindings of a function that are computed a second time, and what is predicted: the most
    bytes that its intermediates need at once, and the time of all its kernels.
    """

    again: tuple[str, ...]
    peak_bytes: int
    us: float


@dataclass(frozen=True, slots=True)
class Rematerialisation:
    """The points between least time and least memory that were weighed for a function, the one
    taken first; `room_bytes` are there.
    """

    function: str
    room_bytes: int
    chosen: Recomputation
    candidates: tuple[Candidate[Recomputation], ...]


# Rammer: the wall. Evaluated per binding of the symbols.


@dataclass(frozen=True, slots=True)
class Run:
    """A unit runs the tasks from `first` up to, not including, `last` of a call. One brick."""

    call: int  # position in RProgram.calls
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A unit waits until another has finished `step` of its own instructions."""

    unit: int
    step: int


Instruction = Run | Wait


@dataclass(frozen=True, slots=True)
class RProgram:
    """One launch: an instruction list for each unit. `calls` names the bindings; step n of a unit
    is its n-th Run. `kernels` is the implementation that each call runs with; empty: all the first.
    """

    units: tuple[tuple[Instruction, ...], ...]
    calls: tuple[str, ...]
    kernels: tuple[int, ...] = ()

    def kernel(self, call: int) -> int:
        """The implementation of a call."""
        return self.kernels[call] if self.kernels else 0


@dataclass(frozen=True, slots=True)
class Brick:
    """One Run with its times; `last` is not included."""

    unit: int
    start_us: float
    end_us: float
    call: str  # binding name
    first: int
    last: int
    origin: frozenset[str]
    program: int = 0  # which launch
    iteration: int = 0  # how often this Run had run before: a loop runs it again


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time of a unit and its cause: dependency, tail, imbalance, barrier, launch, library, or
    preempted.
    """

    unit: int
    start_us: float
    end_us: float
    cause: str


@dataclass(frozen=True, slots=True)
class Ran:
    """What the control flow that a binding binds did in one run. A loop was entered `times` and
    made so many `trips` in all; a branch was decided `times`, for its first side `then` of them; a
    recursion was called from outside `times`, was `trips` calls in all, `depth` open at most.
    """

    binding: str
    kind: str  # "loop", "branch" or "call"
    times: int = 0
    trips: int = 0
    then: int = 0
    depth: int = 0

    @property
    def words(self) -> str:
        """In words."""
        often = "" if self.times == 1 else f", entered {self.times:,} times"
        match self.kind:
            case "loop":
                return f"ran {self.trips:,} trip{'' if self.trips == 1 else 's'}{often}"
            case "branch":
                return f"then side {self.then:,} of {self.times:,}"
            case _:
                return f"{self.trips:,} call{'' if self.trips == 1 else 's'}, depth {self.depth:,}"


@dataclass(frozen=True, slots=True)
class Trip:
    """A trip of the loop that a binding binds in one run; a turn of several `count` them."""

    binding: str
    count: int
    begin_us: float
    end_us: float


@dataclass(frozen=True, slots=True)
class Wall:
    """The brick wall: units by time. `kind` is "planned", "measured" or "simulated"; only a clock
    says measured.

    `host` is what Python runs meanwhile, in a lane of its own below the units': number `units`.
    `ran` and `trips`, of a measured wall, are what its control flow did, and its first trips.
    """

    kind: str
    bricks: tuple[Brick, ...]
    gaps: tuple[Gap, ...]
    units: int
    total_us: float
    policy: str = ""
    device: str = ""
    cuts_us: tuple[float, ...] = ()  # where one launch ends and the next begins
    host: tuple[Brick, ...] = ()
    ran: tuple[Ran, ...] = ()
    trips: tuple[Trip, ...] = ()

    @property
    def everything(self) -> tuple[Brick, ...]:
        """The bricks of the units, then those of the host."""
        return (*self.bricks, *self.host)

    @property
    def busy(self) -> float:
        """The share of units times time that bricks fill."""
        area = self.units * self.total_us
        return sum(b.end_us - b.start_us for b in self.bricks) / area if area else 0.0


# The arena. Evaluated per binding of the symbols.


@dataclass(frozen=True, slots=True)
class BufferPlacement:
    """Where one intermediate lies in the arena, and from which to which call it lives (positions in
    the launch order). `storage` and why it lies there: only where storages were planned.
    """

    name: str
    bytes: int
    offset: int
    first: int
    last: int
    formula: str = ""
    alias_of: str = ""
    origin: frozenset[str] = frozenset()
    storage: str = ""
    taken: str = ""  # "fresh", "reused", "grown", "in place", "kept"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StoragePlacement:
    """A storage of Relax's plan under one binding; `static`: it has these bytes in every one.

    `kept` says why it holds one value only, "" where values may take turns.
    """

    name: str
    bytes: int
    offset: int
    formula: str
    static: bool
    dtype: str
    values: tuple[str, ...]
    block: str = ""
    kept: str = ""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The arena of one binding. `naive_bytes` is the sum of all intermediates, `result_bytes` that
    of the results, which are fresh arrays of each run.

    With the policy "storages": the storages, both sums as formulas, `bounded_bytes` where no
    binding changes the arena, the `bounds` that were used, such as "seq <= 512", and the symbols
    for want of whose bounds the arena changes.
    """

    buffers: tuple[BufferPlacement, ...]
    planned_bytes: int
    naive_bytes: int
    policy: str = "arena"
    storages: tuple[StoragePlacement, ...] = ()
    planned_formula: str = ""
    naive_formula: str = ""
    bounded_bytes: int | None = None
    result_bytes: int = 0
    bounds: tuple[str, ...] = ()
    unbounded: tuple[str, ...] = ()


# What the rooms above leave behind in types of their own, as far as it can be said here.


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
    """How memory is to be planned, by the policy's name."""

    @property
    def policy(self) -> str: ...


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
