"""uTasks of a program as a tree, over values whose names are unique to each function call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from explorer.grinder.calls.rename_symbols import SymbolRenaming
from explorer.ir.calls import KernelCall, LibraryCall, efficient_binding
from explorer.ir.shapes.dims import Dim, Shape
from explorer.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor; if its `root` is another value, a view that begins `offset` elements into it.

    With `moves`, it advances by that many elements with each trip of a loop: (loop, step), outer
    loops first; it has no place outside of them. `home` of a root is "input", "constant", "shape"
    (its elements are `dims`), "buffer", or "host": a Python object, such as a sequence. `origin`
    names the source operators that computed it. A root with a `frame` lies in the frame of that
    recursion: every call has a value of its own.
    """

    name: str
    type: Tensor
    root: str
    offset: Dim = 0
    home: str = "buffer"
    dims: Shape = ()
    origin: frozenset[str] = frozenset()
    moves: tuple[tuple[str, Dim], ...] = ()
    frame: str = ""

    def is_at(self, other: Value) -> bool:
        """Return True if both values begin at the same byte."""
        return (self.root, self.offset, self.moves) == (other.root, other.offset, other.moves)


@dataclass(frozen=True, slots=True)
class OperatorTask:
    """A kernel call; `binding` is its name in the program, `name` that of this instance.

    It also waits for the value `after`, unless that is "".
    """

    name: str
    binding: str
    call: KernelCall
    args: tuple[str, ...]
    results: tuple[str, ...]
    origin: frozenset[str]
    after: str = ""

    def implementation(self, number: int) -> OperatorTask:
        """Return the task with the tiling that the wall chose: 0 fastest, 1 efficient."""
        if not number:
            return self
        call = replace(self.call, tiling=self.call.efficient, efficient=None)
        return replace(self, binding=efficient_binding(self.binding), call=call)


@dataclass(frozen=True, slots=True)
class LibraryTask:
    """A library call, made by Python."""

    name: str
    binding: str
    call: LibraryCall
    args: tuple[str | None, ...]
    results: tuple[str, ...]
    origin: frozenset[str]


@dataclass(frozen=True, slots=True)
class Straight:
    """Kernel calls without control flow between them, which Rammer schedules together."""

    operators: tuple[OperatorTask, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """A loop-carried value: its place, its initial value, and the value that the body computes.

    `initial` "" is the bool True. A result that lies in another carried value goes through
    `staging`.
    """

    param: str
    initial: str
    result: str
    staging: str = ""


@dataclass(frozen=True, slots=True)
class Stacked:
    """A loop output whose row t is what trip t computes: `value`, copied unless it is `row`.

    `row` moves with the loop; it is "" if the host runs the loop, which copies rows.
    """

    result: str
    value: str
    row: str


@dataclass(frozen=True, slots=True)
class LoopTask:
    """A loop with its loop-carried values and stacked outputs.

    `going` is the bool that the body sees. If the body can end the loop (`checked`), it is carried
    and read before every trip; otherwise only `cond` is read, once. A turn is one iteration of the
    unrolled loop. `later` are the counts of its trips after the first, whose bodies follow each
    other in `body`; the loop makes complete turns only. A second loop makes the remaining trips;
    its `remainder_of` is the number of trips of a turn, and it continues the count in the same
    registers and memory. A loop `beside` the previous loop or branch shares no memory with it that
    either writes, so both may run at the same time; `units` tells whether on separate units:
    "auto", "together" or "apart".
    """

    name: str
    binding: str
    level: str
    reason: str
    body: tuple[UTask, ...]
    trip: str  # an int64 scalar, or "": no limit
    cond: str  # a bool scalar, or "": true
    iteration: str
    going: str
    checked: bool
    carried: tuple[Carried, ...]
    stacked: tuple[Stacked, ...]
    origin: frozenset[str]
    later: tuple[str, ...] = ()
    remainder_of: int = 0
    beside: bool = False
    units: str = "auto"

    @property
    def turn(self) -> int:
        """The number of trips of one turn (the unroll factor)."""
        return 1 + len(self.later)

    @property
    def counts(self) -> tuple[str, ...]:
        """The count of each trip of a turn."""
        return (self.iteration, *self.later)


@dataclass(frozen=True, slots=True)
class BranchTask:
    """A branch: `results` are (value, value of `then`, value of `orelse`).

    `beside` and `units` are as for a loop.
    """

    name: str
    binding: str
    level: str
    reason: str
    cond: str
    then: tuple[UTask, ...]
    orelse: tuple[UTask, ...]
    results: tuple[tuple[str, str, str], ...]
    origin: frozenset[str]
    beside: bool = False
    units: str = "auto"


@dataclass(frozen=True, slots=True)
class RecursionTask:
    """The outermost call of a recursive function.

    `args` are copied to `params`, and at the end `outputs` to `results`. `params`, `outputs` and
    the values of `body` lie in a frame. Every open call has its own frame; at most `depth` calls
    are open (0: the default limit). `units` tells whether independent calls may run on several
    units: "auto", "serial" or "parallel".
    """

    name: str
    binding: str
    level: str
    reason: str
    function: str
    depth: int
    args: tuple[str, ...]
    params: tuple[str, ...]
    body: tuple[UTask, ...]
    outputs: tuple[str, ...]
    results: tuple[str, ...]
    origin: frozenset[str]
    units: str = "auto"


@dataclass(frozen=True, slots=True)
class CallTask:
    """A recursive call: `args` are copied to the next frame's params, its outputs to `results`.

    A call `beside` the previous one does not read its results, and may run at the same time.
    """

    name: str
    binding: str
    recursion: str
    function: str
    args: tuple[str, ...]
    results: tuple[str, ...]
    origin: frozenset[str]
    beside: bool = False


UTask: TypeAlias = Straight | LibraryTask | LoopTask | BranchTask | RecursionTask | CallTask


@dataclass(frozen=True, slots=True)
class UProgram:
    """The uTasks of a program in order, and all of its values.

    Inputs and outputs are the model's. `apart`: each straight run is a launch of its own. `hosted`
    are the recursive functions that the host runs although the device could; `symbol_renaming` is
    for those that the device runs.
    """

    parts: tuple[UTask, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_names: tuple[str, ...]
    apart: bool = False
    hosted: frozenset[str] = frozenset()
    symbol_renaming: SymbolRenaming = field(default_factory=dict)

    def root(self, name: str) -> Value:
        """Return the value whose bytes hold a value."""
        return self.values[self.values[name].root]
