"""Protocol by which control flow gets the tasks of functions and their levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from explorer.grinder.model import UTask
from explorer.grinder.options import Options
from explorer.grinder.policy import ControlSchedules
from explorer.grinder.transform.values import Scope, Values
from explorer.ir.calls import Var
from explorer.ir.program import Binding, Function, Program


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
