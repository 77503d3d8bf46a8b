"""Right-hand sides of bindings: calls of operators, kernels, functions, loops and libraries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from explorer.ir.by_identity import by_identity
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, Shape
from explorer.ir.kernel import Kernel
from explorer.ir.types import Annotation, Tensor

AttrValue: TypeAlias = None | bool | int | float | str | Dim | tuple["AttrValue", ...]
REMEMBERED_CALLS = 1 << 17  # as many as a large program has; chosen
Attrs: TypeAlias = tuple[tuple[str, AttrValue], ...]


@dataclass(frozen=True, slots=True)
class Var:
    """A named value with its annotation. A name is bound once in a function."""

    name: str
    type: Annotation

    @property
    def tensor(self) -> Tensor:
        """The annotation as a Tensor; TypeError if it is none."""
        if isinstance(self.type, Tensor):
            return self.type
        raise TypeError(f"{self.name} is not a tensor: its type is {type(self.type).__name__}")


@dataclass(frozen=True, slots=True)
class OpCall:
    """A graph operator, by the name of its record in `explorer.ops` (ONNX's names).

    None in `args` is an omitted input.
    """

    op: str
    args: tuple[Var | None, ...]
    attrs: Attrs = ()

    def attr(self, name: str, default: AttrValue = None) -> AttrValue:
        """Return the value of an attribute."""
        return next((v for n, v in self.attrs if n == name), default)


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A loop-level kernel in destination-passing style.

    `args` are the kernel's inputs in order. The call writes the binding's values, its outputs in
    order.

    `tiling` is Roller's decision, None before it: the tiling with which the call alone finishes
    first. `efficient` is a tiling with less total work, if there is one; the wall chooses between
    them. Where tasks are thread blocks it is, of those that a wall may take, the one that finishes
    first alone; it is None for a call without a tile program for thread blocks.

    The call is ordered after the definition of `after` without reading it: this delays the
    recomputation of a value until it is needed.
    """

    kernel: Kernel
    args: tuple[Var, ...]
    tiling: Tiling | None = None
    efficient: Tiling | None = None
    after: Var | None = None

    @property
    def core_tiling(self) -> Tiling | None:
        """The tiling of tasks that run on one core each; None before Roller, and of blocks."""
        return None if self.tiling is None or self.tiling.is_thread_block else self.tiling


EFFICIENT = "\0efficient"


def efficient_binding(binding: str) -> str:
    """Return the key of the code of a call's efficient tiling; no binding has this name."""
    return f"{binding}{EFFICIENT}"


def code_text(name: str) -> str:
    """Return the display name of generated code: the binding that it belongs to."""
    return name.replace(EFFICIENT, ", for few units")


def updates_of(call: KernelCall, results: tuple[Var, ...]) -> tuple[tuple[Var, Var], ...]:
    """Return the results that a call writes over arguments, each with that argument."""
    by_output = dict(zip(call.kernel.outputs, results, strict=True))
    by_input = dict(zip(call.kernel.inputs, call.args, strict=True))
    return tuple((by_output[output], by_input[taken]) for output, taken in call.kernel.updates)


@dataclass(frozen=True, slots=True)
class View:
    """The same bytes under another shape, from element `offset` on; nothing is computed.

    The shape is the binding's type.
    """

    arg: Var
    offset: Dim = 0


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of last resort into a library.

    An example is the onnx package's reference implementation of an operator.
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
    """A value that is checked at run time to have the binding's type.

    The bare symbols of the type are defined by it.
    """

    arg: Var


@dataclass(frozen=True, slots=True)
class ShapeOf:
    """A small int64 tensor whose elements are dims: a shape, or arithmetic on shapes."""

    dims: Shape
    rank: int = 1  # 0: a scalar


@dataclass(frozen=True, slots=True)
class Branch:
    """`then(*args)` if the bool scalar `cond` holds, else `orelse(*args)`.

    The two functions have one signature.
    """

    cond: Var
    then: str
    orelse: str
    args: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with the semantics of ONNX's Loop.

    It runs `body(iteration, cond, *state, *args) -> (cond, *state, *scanned)` while `cond` holds
    and the iteration is below `trip`. `trip` and `cond` may be None: no limit, always true.

    The binding's values are the state after the last iteration, then the stacked outputs: each of
    the body's last `scans` outputs of all iterations, along a new first dim. `rows` are the types
    that the model declares for these outputs. Their dims are 0 where the model leaves one open; a
    symbol there is one that no input has. Without an iteration nothing else determines them.
    A `padded` loop always stacks `trip` rows; those after its last iteration are unspecified.
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
    """The results of `function(*args)`, then its derivative by each argument listed in `wrt`.

    The derivative is that of the sum of the first results times the `seeds`, one each. Without
    seeds it is that of the first result, which is a scalar.
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
    """Return every value that an expression reads or waits for, in order."""
    match expr:
        case OpCall(_, args, _) | LibraryCall(_, _, args, _):
            return tuple([a for a in args if a is not None])
        case KernelCall(_, args, _, _, after):
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
