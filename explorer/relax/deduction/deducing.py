"""What a rule of deduction may ask of the deduction that it is part of."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Protocol

from explorer.errors import DtypeError, ShapeError
from explorer.ir.calls import Expr, Var
from explorer.ir.program import Binding, Constant, Function
from explorer.ops.record import OperatorRecord
from explorer.ops.site import Site, Values
from explorer.relax.deduction.fresh import Found, Symbols
from explorer.relax.deduction.known import Knowledge

Known = tuple[Var, "Values | None"]  # a value, and its elements where they are few and known
Deduced = tuple[list[Binding], Expr, tuple[Found, ...]]


class Deducing(Protocol):
    """One program being annotated.

    constants  its constants, and those that rules add
    given      its functions as they were, by name; functions: those that are annotated
    open       closed signatures whose bodies are being annotated
    scope      the symbols that the function being annotated sees
    dropped    source operators that left the program, each with the reason
    """

    symbols: Symbols
    constants: dict[str, Constant]
    scope: set[str]
    open: set[str]
    functions: dict[str, Function]
    dropped: list[tuple[str, str]]

    @property
    def given(self) -> MutableMapping[str, Function]: ...

    def function(self, function: Function, args: list[Known], name: str = "") -> Function:
        """A function annotated for these arguments; it sees the symbols in scope."""
        ...

    def saved(self) -> Callable[[], None]:
        """Return what brings all that is known of the program back to where it is now."""
        ...

    def contradiction(
        self, bindings: Sequence[Binding], known: Knowledge
    ) -> ShapeError | DtypeError | None:
        """What is wrong if these bindings came next, before the rest of the function."""
        ...

    def annotated(self, record: OperatorRecord, site: Site) -> tuple[Expr, tuple[Found, ...]]:
        """An operator where it stands, with the annotations of its results."""
        ...
