"""What may stand at the right of a binding: a call at any level, from graph operators down to loops
and libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from explorer.ir.by_identity import by_identity
from explorer.ir.decisions.tiling import Block, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.shapes.dims import Dim, Shape
from explorer.ir.types import Annotation, Tensor

AttrValue: TypeAlias = None | bool | int | float | str | Dim | tuple["AttrValue", ...]
REMEMBERED_CALLS = 1 << 17  # as many as a large program has: they are small; chosen
Attrs: TypeAlias = tuple[tuple[str, AttrValue], ...]


@dataclass(frozen=True, slots=True)
class Var:
    """A name for one value, with what is known of it. A name is bound once in a function."""

    name: str
    type: Annotation

    @property
    def tensor(self) -> Tensor:
        """What is known of a value that is a tensor; TypeError where it is none."""
        if isinstance(self.type, Tensor):
            return self.type
        raise TypeError(f"{self.name} is no tensor, but of type {type(self.type).__name__}")


@dataclass(frozen=True, slots=True)
class OpCall:
    """A graph operator, by the name of its record in `explorer.ops` (ONNX's names); None is an
    input left out.
    """

    op: str
    args: tuple[Var | None, ...]
    attrs: Attrs = ()

    def attr(self, name: str, default: AttrValue = None) -> AttrValue:
        """An attribute's value."""
        return next((v for n, v in self.attrs if n == name), default)


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A loop-level kernel in destination-passing style: `args` are the kernel's inputs in order; it
    writes the binding's values, its outputs in order.

    `tiling` is what Roller decided, None before: with it the call alone ends first. `efficient` is
    the one that takes less of all units, where there is such a one: the wall has the choice.
    On a GPU it decided on `block` instead, of those that a wall may take the one that is done first
    alone; None of a call without a program for thread blocks.
    It runs behind what makes `after`, of which it reads nothing: so a value that is computed again
    waits until it is needed again.
    """

    kernel: Kernel
    args: tuple[Var, ...]
    tiling: Tiling | None = None
    efficient: Tiling | None = None
    after: Var | None = None
    block: Block | None = None


EFFICIENT = "\0efficient"


def efficient_binding(binding: str) -> str:
    """The name under which there is code for a call's efficient tiling, which no binding has."""
    return f"{binding}{EFFICIENT}"


def code_text(name: str) -> str:
    """Return what a reader is told of the code that has this name: of which binding it is."""
    return name.replace(EFFICIENT, ", for few units")


def updates_of(call: KernelCall, results: tuple[Var, ...]) -> tuple[tuple[Var, Var], ...]:
    """The results that a call writes over arguments, each with that argument."""
    made = dict(zip(call.kernel.outputs, results, strict=True))
    given = dict(zip(call.kernel.inputs, call.args, strict=True))
    return tuple((made[output], given[taken]) for output, taken in call.kernel.updates)


@dataclass(frozen=True, slots=True)
class View:
    """The same bytes under another shape, `offset` elements in; nothing is computed. The binding's
    type is the shape.
    """

    arg: Var
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of last resort into a library, such as the onnx package's reference implementation of
    an operator.
    """

    library: str
    function: str
    args: tuple[Var | None, ...]
    attrs: Attrs = ()


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of another function of the program, recursion included."""

    function: str
    args: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class MatchCast:
    """The same value, checked at run time to be of the binding's type, whose bare symbols it
    defines.
    """

    arg: Var


@dataclass(frozen=True, slots=True)
class ShapeOf:
    """A small int64 tensor whose elements are dims: the shape of something, or what was computed
    from it.
    """

    dims: Shape
    rank: int = 1  # 0: a scalar


@dataclass(frozen=True, slots=True)
class Branch:
    """`then(*args)` if the bool scalar `cond` holds, else `orelse(*args)`: two functions of one
    signature.
    """

    cond: Var
    then: str
    orelse: str
    args: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """ONNX's Loop: `body(iteration, cond, *state, *args) -> (cond, *state, *scanned)` while `cond`
    and below `trip`.

    `trip` and `cond` may be None: no limit, always true. Binding's values: the state after the last
    iteration, then for each of the `scans` last outputs of the body those of all iterations,
    stacked along a new first dim. `rows` are the types that the model declares for these outputs,
    0 for a dim that it leaves open, a symbol that no input may have: without an iteration nothing
    else may tell. A `padded` loop stacks as many as `trip` says; those after its last are not
    specified.
    """

    body: str
    trip: Var | None
    cond: Var | None
    state: tuple[Var, ...]
    args: tuple[Var, ...]
    scans: int = 0
    rows: tuple[Tensor, ...] = ()
    padded: bool = False


@dataclass(frozen=True, slots=True)
class Gradient:
    """What `function(*args)` gives, and then its derivative by each argument that `wrt` counts: of
    its results times the `seeds`, one for each of the first results, summed up; without seeds of
    its first result, which is a scalar.
    """

    function: str
    args: tuple[Var, ...]
    wrt: tuple[int, ...]
    seeds: tuple[Var, ...] = ()


Expr: TypeAlias = (
    OpCall
    | KernelCall
    | View
    | LibraryCall
    | FunctionCall
    | MatchCast
    | ShapeOf
    | Branch
    | Loop
    | Gradient
)


@partial(by_identity, most=REMEMBERED_CALLS)
def reads_of(expr: Expr) -> tuple[Var, ...]:
    """Every value that an expression reads, or waits for, in order."""
    match expr:
        case OpCall(_, args, _) | LibraryCall(_, _, args, _):
            return tuple([a for a in args if a is not None])
        case KernelCall(_, args, _, _, after, _):
            return args if after is None else (*args, after)
        case FunctionCall(_, args):
            return args
        case View(arg, _) | MatchCast(arg):
            return (arg,)
        case ShapeOf():
            return ()
        case Branch(cond, _, _, args):
            return (cond, *args)
        case Gradient(_, args, _, seeds):
            return (*args, *seeds)
        case Loop(_, trip, cond, state, args, _, _):
            return (*(v for v in (trip, cond) if v is not None), *state, *args)
