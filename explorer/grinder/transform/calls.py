"""Calls of functions: inlined, but for those of a recursion, which has its body once."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.grinder.calls.recursion import recursive, unchanged
from explorer.grinder.host import Host
from explorer.grinder.levels import level_of
from explorer.grinder.model import CallTask, LibraryTask, RecursionTask, UTask
from explorer.grinder.transform.bodies import Bodies
from explorer.grinder.transform.values import Names, Scope
from explorer.ir.calls import LibraryCall, Var
from explorer.ir.program import Binding

MEMOISED = "grinder.memoise keeps what each call gave, which Python looks up"
DECIDED = "its shapes, or those inside, are of values of the run"


class Calls:
    """The calls of a program; `refused` are the recursive functions that the policy leaves to the
    host.
    """

    def __init__(self, bodies: Bodies, host: Host) -> None:
        self.bodies, self.host = bodies, host
        self.recursive = recursive(bodies.program)
        self.open: dict[str, tuple[str, frozenset[int]]] = {}  # functions; params given unchanged
        self.refused: set[str] = set()

    def tasks(
        self, b: Binding, function: str, args: Sequence[Var], scope: Scope
    ) -> tuple[UTask, ...]:
        """What a call does."""
        bodies = self.bodies
        given = tuple(scope.value(a) for a in args)
        if function in self.open:
            return (self._again(b, function, given, scope),)
        if function in scope.open_calls:  # the host goes deeper; the tree does not
            results = bodies.values.fresh(b.vars, scope, b.origin)
            why = self.recursive.get(function) or self._why_host
            again = LibraryCall("host", function, tuple(args), (("why", why),))
            return (LibraryTask(results[0], b.name, again, given, results, b.origin),)
        if function in self.recursive and function not in self.host.dynamic:
            return (self._recursion(b, function, given, scope),)
        path = f"{scope.path}{b.vars[0].name}/"
        parts, outputs = bodies.inline(function, args, scope, path)
        scope.names.update((var.name, value) for var, value in zip(b.vars, outputs))
        return parts

    @property
    def _why_host(self) -> str:
        return MEMOISED if self.bodies.options.memoise else DECIDED

    def _again(self, b: Binding, function: str, given: Sequence[str], scope: Scope) -> CallTask:
        """A call inside of the recursion."""
        recursion, same = self.open[function]
        args = tuple(a for n, a in enumerate(given) if n not in same)
        results = self.bodies.values.fresh(b.vars, scope, b.origin)
        return CallTask(results[0], b.name, recursion, function, args, results, b.origin)

    def _recursion(
        self, b: Binding, function: str, given: Sequence[str], scope: Scope
    ) -> RecursionTask:
        """The outermost call; what every call inside hands on as it is, is read where it lies."""
        bodies, values = self.bodies, self.bodies.values
        results, name = values.fresh(b.vars, scope, b.origin), scope.path + b.name
        called, same = bodies.program.function(function), unchanged(bodies.program, function)
        outside, values.frame = values.frame, name
        names: Names = {}
        for n, (param, arg) in enumerate(zip(called.params, given, strict=True)):
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
            tuple(a for n, a in enumerate(given) if n not in same),
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
        """The level of a recursion, and why; one of the host's is refused."""
        ways = self.bodies.ways
        level, reason = level_of(ways.level, body, name)
        if self.bodies.options.memoise:
            level, reason = "host", MEMOISED
        if level == "host":
            self.refused.add(function)
        chosen = ways.chosen.get(b.name)
        same = chosen is not None and chosen.chosen.level == level
        return level, chosen.reason if chosen is not None and same else reason
