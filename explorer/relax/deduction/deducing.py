"""Interface between the rules of deduction and the deduction that they are part of."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Protocol

from explorer.errors import DtypeError, ShapeError
from explorer.ir.calls import Expr, Var
from explorer.ir.program import Binding, Constant, Function
from explorer.ops.record import OperatorRecord
from explorer.ops.site import Site, Values
from explorer.relax.deduction.knowledge import Knowledge
from explorer.relax.deduction.symbols import DeducedValue, Symbols

KnownValue = tuple[Var, "Values | None"]  # a value, and its elements if they are few and known
Deduced = tuple[list[Binding], Expr, tuple[DeducedValue, ...]]


class Deducing(Protocol):
    """One program being annotated.

    constants  its constants, and those that rules add
    source_functions  its functions before deduction
    functions  the annotated functions
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
    def source_functions(self) -> MutableMapping[str, Function]:
        """The functions before deduction, by name."""
        ...

    def function(self, function: Function, args: list[KnownValue], name: str = "") -> Function:
        """Annotate a function for these arguments; it sees the symbols in scope."""
        ...

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that restores the present state of the deduction."""
        ...

    def contradiction(
        self, bindings: Sequence[Binding], knowledge: Knowledge
    ) -> ShapeError | DtypeError | None:
        """Return the error if these bindings came next, before the rest of the function."""
        ...

    def annotated(
        self, record: OperatorRecord, site: Site
    ) -> tuple[Expr, tuple[DeducedValue, ...]]:
        """Return an operator at its site, with the annotations of its results."""
        ...
