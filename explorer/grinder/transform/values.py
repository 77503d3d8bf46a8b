"""The values of a program of uTasks: what each takes in memory, and at which bytes it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.grinder.model import Value
from explorer.ir.calls import MatchCast, ShapeOf, Var
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import Dim, simplify
from explorer.ir.types import ITEM_BYTES, ShapeType, Tensor

Names = dict[str, str]  # a function's own names -> names of values


@dataclass(frozen=True, slots=True)
class Scope:
    """Where bindings stand: the names that they see, which grow with each of them, what the names
    of their values begin with, and the functions whose bodies are being made.
    """

    names: Names
    path: str
    open_calls: tuple[str, ...]

    def value(self, var: Var) -> str:
        """The value that a variable stands for."""
        return self.names.get(var.name, var.name)  # constants keep their names


class Values:
    """The values by name, made one after the other; `frame` is the recursion whose body is being
    made, in whose frames new buffers lie.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.frame = ""
        self.by_name: dict[str, Value] = {}
        casts = (b for _, b in program.bindings() if isinstance(b.expr, MatchCast))
        self._found = {v.name: b.var.type for b in casts for v in b.reads}

    def tensor(self, var: Var) -> Tensor:
        """What a value takes in memory: where its own annotation is coarse, as it is matched."""
        for known in (var.type, self._found.get(var.name)):
            match known:
                case Tensor() if known.is_known and known.dtype in ITEM_BYTES:
                    return known
                case ShapeType(tuple(dims)):
                    return Tensor((len(dims),), "int64")
        return Tensor((), "bool")

    def home(self, var: Var) -> str:
        """Where a value lives: what has no known shape is an object that Python holds."""
        kinds = (var.type, self._found.get(var.name))
        known = (isinstance(k, Tensor) and k.is_known and k.dtype in ITEM_BYTES for k in kinds)
        shape = any(isinstance(k, ShapeType) and k.dims is not None for k in kinds)
        return "buffer" if any(known) or shape else "host"

    def define(
        self,
        name: str,
        kind: Tensor,
        root: str = "",
        offset: Dim = 0,
        home: str = "buffer",
        origin: frozenset[str] = frozenset(),
    ) -> str:
        """A value of that name."""
        frame = self.frame if home == "buffer" and not root else ""
        self.by_name[name] = Value(
            name, kind, root or name, offset, home, origin=origin, frame=frame
        )
        return name

    def constants(self) -> None:
        """Those of the program, under their own names."""
        for name, constant in self.program.constants.items():
            held = constant.type.dtype in ITEM_BYTES
            kind = constant.type if held else Tensor((), "bool")
            self.define(name, kind, home="constant" if held else "host")

    def fresh(
        self, variables: Sequence[Var], scope: Scope, origin: frozenset[str]
    ) -> tuple[str, ...]:
        """New buffers for what a binding binds."""
        for var in variables:
            kind, home = self.tensor(var), self.home(var)
            name = self.define(scope.path + var.name, kind, home=home, origin=origin)
            scope.names[var.name] = name
        return tuple(scope.names[var.name] for var in variables)

    def view(self, var: Var, of: str, offset: Dim, scope: Scope, origin: frozenset[str]) -> None:
        """A variable that lies so many elements behind the begin of a value."""
        base = self.by_name[of]
        start = simplify(base.offset + offset)
        scope.names[var.name] = self.define(
            scope.path + var.name, self.tensor(var), base.root, start, base.home, origin
        )

    def shape_of(self, b: Binding, shape: ShapeOf, scope: Scope) -> None:
        """A variable that holds extents."""
        name = scope.names[b.var.name] = scope.path + b.var.name
        kind = self.tensor(b.var)
        self.by_name[name] = Value(name, kind, name, 0, "shape", shape.dims, b.origin)

    def write_in_place(self, result: str, value: str, arm: str) -> None:
        """Let an arm write its result where the branch's readers look, if it is a whole buffer."""
        made, wanted = self.by_name[value], self.by_name[result]
        own = made.root == value and made.home == "buffer" and value.startswith(arm)
        if own and made.type == wanted.type:
            for name, other in self.by_name.items():
                if other.root == value:
                    self.by_name[name] = replace(other, root=result)

    def number(self, name: str) -> Dim | None:
        """A value where it is a number or an extent."""
        value = self.by_name.get(name)
        if value is not None and value.home == "shape" and value.dims:
            return value.dims[0]
        constant = self.program.constants.get(name)
        return None if constant is None else int(constant.array.reshape(-1)[0])

    def is_true(self, name: str) -> bool:
        """Whether a value is the constant True."""
        constant = self.program.constants.get(name)
        return constant is not None and constant.array.size == 1 and bool(constant.array.item())
