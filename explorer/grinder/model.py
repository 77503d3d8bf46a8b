"""uTasks of a program as a tree, over values whose names are unique to each function call.

The functions at the end walk the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from explorer.grinder.recursion import SymbolRenaming
from explorer.ir.calls import KernelCall, LibraryCall, efficient_binding
from explorer.ir.dims import Dim, Shape
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


def nested_parts(parts: Sequence[UTask], recursions: bool = False) -> Iterator[UTask]:
    """Yield every part in order, those inside of loops and branches included.

    `recursions`: those inside of recursions too.
    """
    for part in parts:
        yield part
        inner = _bodies(part)
        if inner and (recursions or not isinstance(part, RecursionTask)):
            yield from nested_parts(inner, recursions)


def operators_of(parts: Sequence[UTask]) -> Iterator[OperatorTask]:
    """Yield every kernel call that is not inside of a recursion."""
    for part in nested_parts(parts):
        if isinstance(part, Straight):
            yield from part.operators


def straights(parts: Sequence[UTask]) -> Iterator[Straight]:
    """Yield every run of kernels."""
    return (p for p in nested_parts(parts, recursions=True) if isinstance(p, Straight))


def calls_of(parts: Sequence[UTask]) -> Iterator[OperatorTask | LibraryTask]:
    """Yield every call of a kernel or a library."""
    for part in nested_parts(parts, recursions=True):
        match part:
            case Straight(operators=operators):
                yield from operators
            case LibraryTask():
                yield part
            case _:
                continue


def loops_of(parts: Sequence[UTask]) -> Iterator[LoopTask]:
    """Yield every loop, an outer one before those inside."""
    return (p for p in nested_parts(parts, recursions=True) if isinstance(p, LoopTask))


def recursions_of(parts: Sequence[UTask]) -> Iterator[RecursionTask]:
    """Yield every recursion, an outer one before those inside."""
    return (p for p in nested_parts(parts, recursions=True) if isinstance(p, RecursionTask))


def accessed_names(part: UTask) -> Iterator[str]:
    """Yield each value that a part reads or writes, once per mention; "" where a field is empty."""
    match part:
        case Straight(operators):
            for o in operators:
                yield from (*o.args, *o.results)
        case LibraryTask(args=args, results=results):
            yield from (*(a or "" for a in args), *results)
        case CallTask(args=args, results=results):
            yield from (*args, *results)
        case LoopTask():
            yield from (part.trip, part.cond, part.going, *part.counts)
            for c in part.carried:
                yield from (c.param, c.initial, c.result, c.staging)
            for s in part.stacked:
                yield from (s.result, s.value, s.row)
        case BranchTask():
            yield part.cond
            yield from (name for row in part.results for name in row)
        case RecursionTask():
            yield from (*part.args, *part.params, *part.outputs, *part.results)
    yield from (name for inner in _bodies(part) for name in accessed_names(inner))


def written_names(part: UTask) -> Iterator[str]:
    """Yield each value that a part writes, once per mention; "" where a field is empty."""
    match part:
        case Straight(operators):
            yield from (name for o in operators for name in o.results)
        case LibraryTask(results=results) | CallTask(results=results):
            yield from results
        case LoopTask():
            yield from (part.going, *part.counts)
            yield from (name for c in part.carried for name in (c.param, c.staging))
            yield from (name for s in part.stacked for name in (s.result, s.row))
        case BranchTask(results=results):
            yield from (row[0] for row in results)
        case RecursionTask(params=params, results=results):
            yield from (*params, *results)
    yield from (name for inner in _bodies(part) for name in written_names(inner))


def key_of(part: Straight) -> str:
    """Return the key of a schedule: the first operator's name."""
    return part.operators[0].name


def _bodies(part: UTask) -> tuple[UTask, ...]:
    """Return the parts inside of a part."""
    match part:
        case LoopTask(body=body) | RecursionTask(body=body):
            return body
        case BranchTask(then=then, orelse=orelse):
            return (*then, *orelse)
        case _:
            return ()


def merge_straight_runs(parts: Sequence[UTask]) -> Iterator[UTask]:
    """Merge straight runs that are adjacent."""
    run: list[OperatorTask] = []
    for part in parts:
        if isinstance(part, Straight):
            run += part.operators
            continue
        if run:
            yield Straight(tuple(run))
        run = []
        yield part
    if run:
        yield Straight(tuple(run))
