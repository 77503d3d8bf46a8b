"""A program as a tree of uTasks, over values with names of their own in each function call."""

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
    """A tensor. One whose `root` is another value is a view: its bytes begin `offset` elements in.

    One that `moves` begins farther in by so many elements with each trip of a loop: (loop, step),
    outer loops first; it has no place outside of them.
    `home` of a root is "input", "constant", "shape" (its elements are `dims`), "buffer", or "host":
    an object of Python's, such as a sequence.
    `origin` names the source operators that made it. A root with a `frame` lies in the frame of
    that recursion: every call has a value of its own.
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
        """Whether both begin at the same byte."""
        return (self.root, self.offset, self.moves) == (other.root, other.offset, other.moves)


@dataclass(frozen=True, slots=True)
class OperatorTask:
    """A kernel call; `binding` is its name in the program, `name` that of this instance. It waits
    for the value `after` too, where there is one.
    """

    name: str
    binding: str
    call: KernelCall
    args: tuple[str, ...]
    results: tuple[str, ...]
    origin: frozenset[str]
    after: str = ""

    def implementation(self, number: int) -> OperatorTask:
        """With the tiling that the wall chose: 0 is the fastest, 1 the efficient one."""
        if not number:
            return self
        call = replace(self.call, tiling=self.call.efficient, efficient=None)
        return replace(self, binding=efficient_binding(self.binding), call=call)


@dataclass(frozen=True, slots=True)
class LibraryTask:
    """A call of a library, from Python."""

    name: str
    binding: str
    call: LibraryCall
    args: tuple[str | None, ...]
    results: tuple[str, ...]
    origin: frozenset[str]


@dataclass(frozen=True, slots=True)
class Straight:
    """Kernel calls without control flow between them: what Rammer schedules at once."""

    operators: tuple[OperatorTask, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """A value of a loop: where it lives, where it comes from, and what the body makes of it.

    `initial` "" is the bool True. What lies in another carried value goes through `staging`.
    """

    param: str
    initial: str
    result: str
    staging: str = ""


@dataclass(frozen=True, slots=True)
class Stacked:
    """A value of a loop whose row t is what trip t makes: `value`, which is copied unless it is
    `row` itself.

    `row` moves with the loop; "" where the host follows it, which copies rows.
    """

    result: str
    value: str
    row: str


@dataclass(frozen=True, slots=True)
class LoopTask:
    """A loop over values that it carries from trip to trip, and that stacks what each makes.

    `going` is the bool that the body sees. Where the body can end the loop (`checked`), it is
    carried and looked at before every trip; otherwise only `cond` is, once.
    `later`, of an unrolled loop, are the counts of a turn's further trips, whose bodies follow each
    other in `body`; it makes whole turns only. What is then left of turns of `rest` trips is a loop
    of its own that counts on, in the same registers and memory.
    One `beside` the loop or branch before it shares nothing with it that either writes, and may run
    at the same time; `units` says whether on units apart: "auto", "together" or "apart".
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
    rest: int = 0
    beside: bool = False
    units: str = "auto"

    @property
    def turn(self) -> int:
        """How many trips one turn makes."""
        return 1 + len(self.later)

    @property
    def counts(self) -> tuple[str, ...]:
        """The count of each trip of a turn."""
        return (self.iteration, *self.later)


@dataclass(frozen=True, slots=True)
class BranchTask:
    """A branch: `results` are (value, what `then` makes, what `orelse` makes); `beside` and `units`
    are as a loop's.
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
    """The outermost call of a function that calls itself. `args` are copied to `params`, and in the
    end `outputs` to `results`; `params`, `outputs` and what `body` makes lie in a frame, of which
    every open call has its own, at most `depth` (0: as many as usual). `units` says whether
    independent calls may run on several units: "auto", "serial" or "parallel".
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
    """A call of the function in its own body: `args` are copied to the params of the next frame,
    and its outputs to `results`. One `beside` the call before it reads nothing that this gives, and
    may run at the same time.
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
    """What runs, in order, and every value of it. Inputs and outputs are the model's. `apart`: each
    straight run is a launch of its own. `hosted` are the functions that call themselves and that
    the host shall follow, though the device could; `words` say what the symbols of those are that
    the device runs.
    """

    parts: tuple[UTask, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_names: tuple[str, ...]
    apart: bool = False
    hosted: frozenset[str] = frozenset()
    words: SymbolRenaming = field(default_factory=dict)

    def root(self, name: str) -> Value:
        """The value whose bytes a value lies in."""
        return self.values[self.values[name].root]
