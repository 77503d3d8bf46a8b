"""Tasks of calls: functions are inlined, except recursive ones, whose body is built once."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.grinder.calls.recursion import find_recursive, invariant_parameters
from explorer.grinder.host import Host
from explorer.grinder.levels import select_level
from explorer.grinder.model import CallTask, LibraryTask, RecursionTask, UTask
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.values import Names, Scope
from explorer.ir.calls import LibraryCall, Var
from explorer.ir.program import Binding

MEMOISED = "grinder.memoise stores the results of calls, which Python looks up"
DECIDED = "its shapes, or those inside, depend on values of the run"


class Calls:
    """Calls of a program; `refused` are the recursive functions that the host must run."""

    def __init__(self, bodies: Bodies, host: Host) -> None:
        """Prepare the calls of a program; no call is open yet."""
        self.bodies, self.host = bodies, host
        self.recursive = find_recursive(bodies.program)
        # name of the task, invariant parameters
        self.open: dict[str, tuple[str, frozenset[int]]] = {}
        self.refused: set[str] = set()

    def tasks(
        self, b: Binding, function: str, args: Sequence[Var], scope: Scope
    ) -> tuple[UTask, ...]:
        """Return the tasks of a call."""
        bodies = self.bodies
        arguments = tuple(scope.value(a) for a in args)
        if function in self.open:
            return (self._recursive_call(b, function, arguments, scope),)
        if function in scope.open_calls:  # the host recurses further; the tree does not
            results = bodies.values.fresh(b.vars, scope, b.origin)
            why = self.recursive.get(function) or self._host_reason
            call = LibraryCall("host", function, tuple(args), (("why", why),))
            return (LibraryTask(results[0], b.name, call, arguments, results, b.origin),)
        if function in self.recursive and function not in self.host.dynamic:
            return (self._recursion(b, function, arguments, scope),)
        path = f"{scope.path}{b.vars[0].name}/"
        parts, outputs = bodies.inline(function, args, scope, path)
        scope.names.update((var.name, value) for var, value in zip(b.vars, outputs))
        return parts

    @property
    def _host_reason(self) -> str:
        return MEMOISED if self.bodies.options.memoise else DECIDED

    def _recursive_call(
        self, b: Binding, function: str, arguments: Sequence[str], scope: Scope
    ) -> CallTask:
        """Return the task of a call inside of the recursion."""
        recursion, same = self.open[function]
        args = tuple(a for n, a in enumerate(arguments) if n not in same)
        results = self.bodies.values.fresh(b.vars, scope, b.origin)
        return CallTask(results[0], b.name, recursion, function, args, results, b.origin)

    def _recursion(
        self, b: Binding, function: str, arguments: Sequence[str], scope: Scope
    ) -> RecursionTask:
        """Return the task of the outermost call; loop-invariant arguments are read in place."""
        bodies, values = self.bodies, self.bodies.values
        results, name = values.fresh(b.vars, scope, b.origin), scope.path + b.name
        called, same = (
            bodies.program.function(function),
            invariant_parameters(bodies.program, function),
        )
        outside, values.frame = values.frame, name
        names: Names = {}
        for n, (param, arg) in enumerate(zip(called.params, arguments, strict=True)):
            own, kind = f"{name}/{param.name}", values.tensor(param)
            names[param.name] = arg if n in same else values.define(own, kind, origin=b.origin)
        inner = Scope(names, f"{name}/", (*scope.open_calls, function))
        self.open[function] = name, same
        body = bodies.body(called, inner)
        del self.open[function]
        values.frame = outside
        level, reason = self._level(b, function, body, name)
        return RecursionTask(
            name,
            b.name,
            level,
            reason,
            function,
            bodies.options.depth,
            tuple(a for n, a in enumerate(arguments) if n not in same),
            tuple(names[p.name] for n, p in enumerate(called.params) if n not in same),
            body,
            tuple(inner.value(v) for v in called.outputs),
            results,
            b.origin,
            bodies.options.recursion,
        )

    def _level(
        self, b: Binding, function: str, body: Sequence[UTask], name: str
    ) -> tuple[str, str]:
        """Return the level of a recursion and its reason; a function of level "host" is refused."""
        schedules = self.bodies.schedules
        level, reason = select_level(schedules.level, body, name)
        if self.bodies.options.memoise:
            level, reason = "host", MEMOISED
        if level == "host":
            self.refused.add(function)
        chosen = schedules.chosen.get(b.name)
        same = chosen is not None and chosen.chosen.level == level
        return level, chosen.reason if chosen is not None and same else reason
