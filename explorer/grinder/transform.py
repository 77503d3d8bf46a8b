"""Conversion of a program to uTasks, binding by binding.

Functions are inlined, except recursive ones, whose body is built once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.errors import UnsupportedOperator
from explorer.grinder.host import Host, analyse_host
from explorer.grinder.independent import UnitRequest, group_independent, group_independent_calls
from explorer.grinder.model import (
    CallTask,
    LibraryTask,
    OperatorTask,
    RecursionTask,
    Straight,
    UProgram,
    UTask,
)
from explorer.grinder.options import Options
from explorer.grinder.policy import LEVELS, ControlSchedules, LevelPolicy, lowest, select_level
from explorer.grinder.recursion import find_recursive, invariant_parameters
from explorer.grinder.values import Bodies, Names, Scope, Values
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.program import Binding, Function, Program

UNITS = {"auto": "auto", "all": "together", "one": "apart"}  # of a lone loop or branch
MEMOISED = "grinder.memoise stores the results of calls, which Python looks up"
DECIDED = "its shapes, or those inside, depend on values of the run"


def uprogram(program: Program, schedules: ControlSchedules | LevelPolicy = lowest) -> UProgram:
    """Return the uTasks of a program of kernels, views and control flow.

    `schedules` may be a level policy alone; everything else is then the default.
    """
    requested, hosted = (
        schedules if isinstance(schedules, ControlSchedules) else ControlSchedules(schedules),
        frozenset[str](),
    )
    while True:
        grinder = _Grinder(program, requested, hosted)
        tasks = grinder.grind()
        if not grinder.calls.refused:
            return tasks
        hosted |= grinder.calls.refused  # their callers become hosted too


class _Grinder:
    """Builder of a program's uTasks."""

    def __init__(
        self, program: Program, schedules: ControlSchedules, hosted: frozenset[str]
    ) -> None:
        self.program, self.schedules, self.hosted = program, schedules, hosted
        chosen = program.decisions.grinder
        self.options = chosen if isinstance(chosen, Options) else Options()
        self.values = Values(program)
        self.host = analyse_host(program, hosted)
        self.calls = _Calls(self, self.host)

    def grind(self) -> UProgram:
        main = self.program.main
        names: Names = {}
        self.values.constants()
        for param in main.params:
            kind = self.values.tensor(param)
            names[param.name] = self.values.define(param.name, kind, home="input")
        scope = Scope(names, "", (main.name,))
        parts = self.body(main, scope)
        outputs = tuple(scope.value(v) for v in main.outputs)
        values = self.values.by_name
        if not self.schedules.apart:
            request = UnitRequest(self.options.independent, UNITS[self.options.alone])
            parts = group_independent(parts, values, request)
        if not all(isinstance(part, Straight | LibraryTask) for part in parts):
            from explorer.grinder.alias_loop_state import alias_loop_state  # of loops alone

            alias_loop_state(parts, values, outputs)
        labels = main.output_names or tuple(v.name for v in main.outputs)
        inputs = tuple(p.name for p in main.params)
        apart, words = self.schedules.apart, self.host.symbol_renaming
        return UProgram(parts, values, inputs, outputs, labels, apart, self.hosted, words)

    def body(self, function: Function, scope: Scope) -> tuple[UTask, ...]:
        parts: list[UTask] = []
        run: list[OperatorTask] = []
        for binding in function.body:
            if self.host.is_host_only(binding):  # the next parts are another launch
                parts += self.straight(run)
                run = []
            for part in self.binding(binding, scope):
                if isinstance(part, Straight):
                    run += part.operators
                else:
                    parts += [*self.straight(run), part]
                    run = []
        parts += self.straight(run)
        return (
            group_independent_calls(parts, self.values.by_name) if self.calls.open else tuple(parts)
        )

    def straight(self, run: Sequence[OperatorTask]) -> tuple[Straight, ...]:
        if self.schedules.apart:
            return tuple(Straight((operator,)) for operator in run)
        return (Straight(tuple(run)),) if run else ()

    def binding(self, b: Binding, scope: Scope) -> tuple[UTask, ...]:
        """Return the tasks of a binding; none for a view."""
        match b.expr:
            case KernelCall():
                return (Straight((self.operator(b, b.expr, scope),)),)
            case LibraryCall(_, _, operands, _):
                read_values = tuple(None if a is None else scope.value(a) for a in operands)
                results = self.values.fresh(b.vars, scope, b.origin)
                name = results[0]
                return (LibraryTask(name, b.vars[0].name, b.expr, read_values, results, b.origin),)
            case View(arg, offset):
                self.values.view(b.var, scope.value(arg), offset, scope, b.origin)
            case MatchCast(arg):
                self.values.view(b.var, scope.value(arg), 0, scope, b.origin)
            case ShapeOf():
                self.values.shape_of(b, b.expr, scope)
            case FunctionCall(function, args):
                return self.calls.tasks(b, function, args, scope)
            case Branch(_, then, orelse, args) if then == orelse:  # both arms are the same
                path = f"{scope.path}{b.name}/then/"
                parts, outputs = self.inline(then, args, scope, path)
                scope.names.update(zip((v.name for v in b.vars), outputs, strict=True))
                return parts
            case Branch() | Loop():
                from explorer.grinder.loops import branch_task, loop_tasks  # most have none

                if isinstance(b.expr, Loop):
                    return loop_tasks(self, b, b.expr, scope)
                return (branch_task(self, b, b.expr, scope),)
            case OpCall(op):
                raise UnsupportedOperator(f"{op} has no kernel, so it cannot run", where=b.var.name)
        return ()

    def operator(self, b: Binding, e: KernelCall, scope: Scope) -> OperatorTask:
        """Return the task of a kernel call; results that overwrite an argument are views of it."""
        reads = tuple(scope.value(a) for a in e.args)
        taken = dict(zip(e.kernel.inputs, reads, strict=True))
        over = {output: taken[name] for output, name in e.kernel.updates}
        for output, var in zip(e.kernel.outputs, b.vars, strict=True):
            if output in over:
                self.values.view(var, over[output], 0, scope, b.origin)
            else:
                self.values.fresh((var,), scope, b.origin)
        results = tuple(scope.names[var.name] for var in b.vars)
        behind = "" if e.after is None else scope.value(e.after)
        return OperatorTask(results[0], b.name, e, reads, results, b.origin, behind)

    def inline(
        self,
        function: str,
        args: Sequence[Var],
        scope: Scope,
        path: str,
        own: Mapping[str, str] | None = None,
    ) -> tuple[tuple[UTask, ...], tuple[str, ...]]:
        """Return a function's tasks and outputs.

        `own` are its first parameters, `args` the others.
        """
        called = self.program.function(function)
        names: Names = dict(own or {})
        for param, arg in zip(called.params[len(names) :], args, strict=True):
            names[param.name] = scope.value(arg)
        inner = Scope(names, path, (*scope.open_calls, function))
        parts = self.body(called, inner)
        return parts, tuple(inner.value(v) for v in called.outputs)

    def level_of(self, body: Sequence[UTask], name: str, b: Binding) -> tuple[str, str]:
        """Return the level of a binding's body and the reason: the chosen one, or the policy's."""
        if self.host.is_host_only(b):
            return "host", DECIDED
        chosen = self.schedules.chosen.get(b.name)
        if chosen is not None and not self.values.frame:  # a recursion's body follows its level
            level, (least, why) = chosen.chosen.level, lowest(body)
            fits = LEVELS.index(level) <= LEVELS.index(least)
            return (level, chosen.reason) if fits else (least, why)
        return select_level(self.schedules.level, body, name)


class _Calls:
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
