"""What control flow asks of that which makes the tasks of functions: bodies, and levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from explorer.grinder.model import UTask
from explorer.grinder.options import Options
from explorer.grinder.policy import Ways
from explorer.grinder.transform.values import Scope, Values
from explorer.ir.calls import Var
from explorer.ir.program import Binding, Function, Program


class Bodies(Protocol):
    """Makes the tasks of bodies, each where a scope says."""

    program: Program
    ways: Ways
    options: Options
    values: Values

    def body(self, function: Function, scope: Scope) -> tuple[UTask, ...]: ...

    def inline(
        self,
        function: str,
        args: Sequence[Var],
        scope: Scope,
        path: str,
        own: Mapping[str, str] | None = None,
    ) -> tuple[tuple[UTask, ...], tuple[str, ...]]: ...

    def level_of(self, body: Sequence[UTask], name: str, b: Binding) -> tuple[str, str]: ...
