"""Values of a uProgram: their types in memory, their places, and the scopes that name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from explorer.grinder.model import UTask, Value
from explorer.grinder.options import Options
from explorer.grinder.policy import ControlSchedules
from explorer.ir.calls import MatchCast, ShapeOf, Var
from explorer.ir.dims import Dim, simplify
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import ITEM_BYTES, ShapeType, Tensor

Names = dict[str, str]  # a function's own names -> names of values


@dataclass(frozen=True, slots=True)
class Scope:
    """Names that a body's bindings see, which grow with each binding.

    `path` is the prefix of the names of its values; `open_calls` are the functions whose bodies are
    being built.
    """

    names: Names
    path: str
    open_calls: tuple[str, ...]

    def value(self, var: Var) -> str:
        """Return the value that a variable stands for."""
        return self.names.get(var.name, var.name)  # constants keep their names


class Values:
    """Values by name, in order of definition.

    `frame` is the recursion whose body is being built; new buffers lie in its frames.
    """

    def __init__(self, program: Program) -> None:
        """Create a table without values for a program."""
        self.program = program
        self.frame = ""
        self.by_name: dict[str, Value] = {}
        casts = (b for _, b in program.bindings() if isinstance(b.expr, MatchCast))
        self._matched_types = {v.name: b.var.type for b in casts for v in b.reads}

    def tensor(self, var: Var) -> Tensor:
        """Return the type of a value in memory: its own, or that of its match_cast."""
        for kind in (var.type, self._matched_types.get(var.name)):
            match kind:
                case Tensor() if kind.is_known and kind.dtype in ITEM_BYTES:
                    return kind
                case ShapeType(tuple(dims)):
                    return Tensor((len(dims),), "int64")
        return Tensor((), "bool")

    def home(self, var: Var) -> str:
        """Return where a value lives: "buffer", or "host" for a Python object of unknown shape."""
        kinds = (var.type, self._matched_types.get(var.name))
        known_types = (
            isinstance(k, Tensor) and k.is_known and k.dtype in ITEM_BYTES for k in kinds
        )
        shape = any(isinstance(k, ShapeType) and k.dims is not None for k in kinds)
        return "buffer" if any(known_types) or shape else "host"

    def define(
        self,
        name: str,
        kind: Tensor,
        root: str = "",
        offset: Dim = 0,
        home: str = "buffer",
        origin: frozenset[str] = frozenset(),
    ) -> str:
        """Define a value and return its name."""
        frame = self.frame if home == "buffer" and not root else ""
        self.by_name[name] = Value(
            name, kind, root or name, offset, home, origin=origin, frame=frame
        )
        return name

    def constants(self) -> None:
        """Define the program's constants under their own names."""
        for name, constant in self.program.constants.items():
            has_kernels = constant.type.dtype in ITEM_BYTES
            kind = constant.type if has_kernels else Tensor((), "bool")
            self.define(name, kind, home="constant" if has_kernels else "host")

    def fresh(
        self, variables: Sequence[Var], scope: Scope, origin: frozenset[str]
    ) -> tuple[str, ...]:
        """Define buffers for the results of a binding."""
        for var in variables:
            kind, home = self.tensor(var), self.home(var)
            name = self.define(scope.path + var.name, kind, home=home, origin=origin)
            scope.names[var.name] = name
        return tuple(scope.names[var.name] for var in variables)

    def view(self, var: Var, of: str, offset: Dim, scope: Scope, origin: frozenset[str]) -> None:
        """Define a variable as a view that begins `offset` elements into a value."""
        base = self.by_name[of]
        start = simplify(base.offset + offset)
        scope.names[var.name] = self.define(
            scope.path + var.name, self.tensor(var), base.root, start, base.home, origin
        )

    def shape_of(self, b: Binding, shape: ShapeOf, scope: Scope) -> None:
        """Define a variable that holds extents."""
        name = scope.names[b.var.name] = scope.path + b.var.name
        kind = self.tensor(b.var)
        self.by_name[name] = Value(name, kind, name, 0, "shape", shape.dims, b.origin)

    def write_in_place(self, result: str, value: str, arm: str) -> None:
        """Let an arm write its value to the branch's result, if it is a complete buffer."""
        source, target = self.by_name[value], self.by_name[result]
        own = source.root == value and source.home == "buffer" and value.startswith(arm)
        if own and source.type == target.type:
            for name, other in self.by_name.items():
                if other.root == value:
                    self.by_name[name] = replace(other, root=result)

    def number(self, name: str) -> Dim | None:
        """Return a value that is a constant number or an extent; None for others."""
        value = self.by_name.get(name)
        if value is not None and value.home == "shape" and value.dims:
            return value.dims[0]
        constant = self.program.constants.get(name)
        return None if constant is None else int(constant.array.reshape(-1)[0])

    def is_true(self, name: str) -> bool:
        """Return True if a value is the constant True."""
        constant = self.program.constants.get(name)
        return constant is not None and constant.size == 1 and bool(constant.array.item())


class Bodies(Protocol):
    """Builder of the tasks of bodies, each in a scope."""

    program: Program
    schedules: ControlSchedules
    options: Options
    values: Values

    def body(self, function: Function, scope: Scope) -> tuple[UTask, ...]:
        """Return the tasks of a function's bindings."""
        ...

    def inline(
        self,
        function: str,
        args: Sequence[Var],
        scope: Scope,
        path: str,
        own: Mapping[str, str] | None = None,
    ) -> tuple[tuple[UTask, ...], tuple[str, ...]]:
        """Return a function's tasks and outputs; its first parameters are `own`, then `args`."""
        ...

    def level_of(self, body: Sequence[UTask], name: str, b: Binding) -> tuple[str, str]:
        """Return the level of a binding's body, and the reason."""
        ...
