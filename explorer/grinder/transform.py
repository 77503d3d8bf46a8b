"""From functions to uTasks: calls are inlined, bodies get values, views find their bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.errors import UnsupportedOperator
from explorer.grinder.host import dynamic_functions, is_host
from explorer.grinder.model import (
    BranchTask,
    Carried,
    LibraryTask,
    LoopTask,
    OperatorTask,
    Stacked,
    Straight,
    UProgram,
    UTask,
    Value,
)
from explorer.grinder.policy import LEVELS, LevelPolicy, lowest
from explorer.grinder.rows import RowReader, stack
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
from explorer.ir.shapes.dims import Dim, simplify
from explorer.ir.types import ITEM_BYTES, ShapeType, Tensor
from explorer.passes.pipeline.own_policy import Asked, shown

DECIDED = "its shapes, or those inside, are of values of the run"
Names = dict[str, str]  # a function's own names -> names of values


def uprogram(program: Program, level: LevelPolicy = lowest) -> UProgram:
    """What a program of kernels, views and control flow runs."""
    return _Grinder(program, level).grind()


class _Grinder:
    def __init__(self, program: Program, level: LevelPolicy) -> None:
        self.program, self.level = program, level
        self.values: dict[str, Value] = {}
        self.functions = {f.name: f for f in program.functions}
        self.dynamic = dynamic_functions(program)
        casts = (b for _, b in program.bindings() if isinstance(b.expr, MatchCast))
        self.found = {v.name: b.var.type for b in casts for v in b.reads}

    def tensor(self, var: Var) -> Tensor:
        """What a value takes in memory: where its own annotation is coarse, as it is matched."""
        for known in (var.type, self.found.get(var.name)):
            match known:
                case Tensor() if known.is_known and known.dtype in ITEM_BYTES:
                    return known
                case ShapeType(tuple(dims)):
                    return Tensor((len(dims),), "int64")
        return Tensor((), "bool")

    def home(self, var: Var) -> str:
        """Where a value lives: what has no known shape is an object that Python holds."""
        kinds = (var.type, self.found.get(var.name))
        known = (isinstance(k, Tensor) and k.is_known and k.dtype in ITEM_BYTES for k in kinds)
        shape = any(isinstance(k, ShapeType) and k.dims is not None for k in kinds)
        return "buffer" if any(known) or shape else "host"

    def grind(self) -> UProgram:
        main = self.program.main
        names: Names = {}
        for name, constant in self.program.constants.items():
            held = constant.type.dtype in ITEM_BYTES
            kind = constant.type if held else Tensor((), "bool")
            self.define(name, kind, home="constant" if held else "host")
        for param in main.params:
            names[param.name] = self.define(param.name, self.tensor(param), home="input")
        parts = self.body(main, names, "", (main.name,))
        outputs = tuple(self.value(v, names) for v in main.outputs)
        labels = main.output_names or tuple(v.name for v in main.outputs)
        inputs = tuple(p.name for p in main.params)
        return UProgram(parts, self.values, inputs, outputs, labels)

    def define(
        self,
        name: str,
        kind: Tensor,
        root: str = "",
        offset: Dim = 0,
        home: str = "buffer",
        origin: frozenset[str] = frozenset(),
    ) -> str:
        self.values[name] = Value(name, kind, root or name, offset, home, origin=origin)
        return name

    def value(self, var: Var, names: Names) -> str:
        return names.get(var.name, var.name)  # constants keep their names

    def body(
        self, function: Function, names: Names, path: str, open_calls: tuple[str, ...]
    ) -> tuple[UTask, ...]:
        parts: list[UTask] = []
        run: list[OperatorTask] = []
        for binding in function.body:
            if self.is_host(binding):  # what follows is another launch
                parts += _straight(run)
                run = []
            for part in self.binding(binding, names, path, open_calls):
                if isinstance(part, Straight):
                    run += part.operators
                else:
                    parts += [*_straight(run), part]
                    run = []
        return (*parts, *_straight(run))

    def binding(
        self, b: Binding, names: Names, path: str, open_calls: tuple[str, ...]
    ) -> tuple[UTask, ...]:
        """The tasks of a binding; none for a view."""
        match b.expr:
            case KernelCall(kernel, args, _):
                reads = tuple(self.value(a, names) for a in args)
                taken = dict(zip(kernel.inputs, reads, strict=True))
                over = {output: taken[name] for output, name in kernel.updates}
                for output, var in zip(kernel.outputs, b.vars, strict=True):
                    if output in over:
                        self.view(var, over[output], 0, names, path, b.origin)
                    else:
                        self.fresh(replace(b, vars=(var,)), names, path)
                results = tuple(names[var.name] for var in b.vars)
                task = OperatorTask(results[0], b.name, b.expr, reads, results, b.origin)
                return (Straight((task,)),)
            case LibraryCall(_, _, given, _):
                found = tuple(None if a is None else self.value(a, names) for a in given)
                results = self.fresh(b, names, path)
                name = results[0]
                return (LibraryTask(name, b.vars[0].name, b.expr, found, results, b.origin),)
            case View(arg, offset):
                self.view(b.var, self.value(arg, names), offset, names, path, b.origin)
            case MatchCast(arg):
                self.view(b.var, self.value(arg, names), 0, names, path, b.origin)
            case ShapeOf(dims, _):
                name = names[b.var.name] = path + b.var.name
                kind = self.tensor(b.var)
                self.values[name] = Value(name, kind, name, 0, "shape", dims, b.origin)
            case FunctionCall(function, args):
                return self.call(b, function, args, names, path, open_calls)
            case Branch():
                return (self.branch(b, b.expr, names, path, open_calls),)
            case Loop():
                return (self.loop(b, b.expr, names, path, open_calls),)
            case OpCall(op):
                raise UnsupportedOperator(f"{op} has no kernel, so it cannot run", where=b.var.name)
        return ()

    def fresh(self, b: Binding, names: Names, path: str) -> tuple[str, ...]:
        """New buffers for all that a binding binds."""
        for var in b.vars:
            kind, home = self.tensor(var), self.home(var)
            names[var.name] = self.define(path + var.name, kind, home=home, origin=b.origin)
        return tuple(names[var.name] for var in b.vars)

    def view(
        self, var: Var, of: str, offset: Dim, names: Names, path: str, origin: frozenset[str]
    ) -> None:
        base = self.values[of]
        start = simplify(base.offset + offset)
        names[var.name] = self.define(
            path + var.name, self.tensor(var), base.root, start, base.home, origin
        )

    def call(
        self,
        b: Binding,
        function: str,
        args: Sequence[Var],
        names: Names,
        path: str,
        open_calls: tuple[str, ...],
    ) -> tuple[UTask, ...]:
        if function in open_calls:  # the host goes deeper; the tree does not
            results, given = self.fresh(b, names, path), tuple(self.value(a, names) for a in args)
            again = LibraryCall("host", function, tuple(args))
            name = b.vars[0].name
            return (LibraryTask(results[0], name, again, given, results, b.origin),)
        parts, outputs = self.inline(function, args, names, f"{path}{b.vars[0].name}/", open_calls)
        names.update((var.name, value) for var, value in zip(b.vars, outputs))
        return parts

    def inline(
        self,
        function: str,
        args: Sequence[Var],
        names: Names,
        path: str,
        open_calls: tuple[str, ...],
        own: Mapping[str, str] | None = None,
    ) -> tuple[tuple[UTask, ...], tuple[str, ...]]:
        """A function's tasks and outputs; `own` are its first parameters, `args` the others."""
        called = self.program.function(function)
        inner: Names = dict(own or {})
        for param, arg in zip(called.params[len(inner) :], args, strict=True):
            inner[param.name] = self.value(arg, names)
        parts = self.body(called, inner, path, (*open_calls, function))
        return parts, tuple(self.value(v, inner) for v in called.outputs)

    def branch(
        self, b: Binding, e: Branch, names: Names, path: str, open_calls: tuple[str, ...]
    ) -> BranchTask:
        name = path + b.vars[0].name
        cond = self.value(e.cond, names)
        then, made = self.inline(e.then, e.args, names, f"{name}/then/", open_calls)
        orelse, other = self.inline(e.orelse, e.args, names, f"{name}/else/", open_calls)
        results = self.fresh(b, names, path)
        for arm, values in ((f"{name}/then/", made), (f"{name}/else/", other)):
            for result, value in zip(results, values):
                self.write_in_place(result, value, arm)
        rows = tuple(zip(results, made, other, strict=True))
        level, reason = self.level_of((*then, *orelse), name, b)
        return BranchTask(name, b.vars[0].name, level, reason, cond, then, orelse, rows, b.origin)

    def is_host(self, b: Binding) -> bool:
        """Whether values of the run decide a binding, so that Python does it."""
        return is_host(b, self.functions, self.dynamic)

    def level_of(self, body: Sequence[UTask], name: str, b: Binding) -> tuple[str, str]:
        """What the policy says of a body; BadPolicy where that is none, or cannot be."""
        if self.is_host(b):
            return "host", DECIDED
        if self.level is lowest:
            return lowest(body)
        asked = Asked("Grinder", self.level, f"{name!r}")
        with asked.answering():
            found: Any = self.level(body)
        pair = isinstance(found, tuple) and len(found) == 2
        if not pair or not all(isinstance(part, str) for part in found):
            raise asked.refused(
                f"gave {shown(found)}, and must give a level and why", '("device", "asked for")'
            )
        if found[0] not in LEVELS:
            raise asked.refused(f"gave the level {shown(found[0])}", " or ".join(LEVELS))
        least, why = lowest(body)
        if found[0] == "device" and least == "host":
            raise asked.refused(f"put it on the device, and {why}", "host", "device")
        return str(found[0]), str(found[1])

    def write_in_place(self, result: str, value: str, arm: str) -> None:
        """Let an arm write its result where the branch's readers look, if it is a whole buffer."""
        made, wanted = self.values[value], self.values[result]
        own = made.root == value and made.home == "buffer" and value.startswith(arm)
        if own and made.type == wanted.type:
            for name, other in self.values.items():
                if other.root == value:
                    self.values[name] = replace(other, root=result)

    def loop(
        self, b: Binding, e: Loop, names: Names, path: str, open_calls: tuple[str, ...]
    ) -> LoopTask:
        name = path + b.vars[0].name if b.vars else f"{path}{e.body}"
        own: Names = {}
        for param in self.program.function(e.body).params[: 2 + len(e.state)]:
            kind = self.tensor(param)
            own[param.name] = self.define(f"{name}/{param.name}", kind, origin=b.origin)
        iteration, going, *params = own.values()
        initial = [self.value(v, names) for v in e.state]
        body, (next_going, *made) = self.inline(e.body, e.args, names, f"{name}/", open_calls, own)
        trip, cond = ("" if v is None else self.value(v, names) for v in (e.trip, e.cond))
        checked = self.values[next_going].root != going and not self.is_true(next_going)
        level, reason = self.level_of(body, name, b)
        if level == "device":
            body = self.read_rows(body, name, trip, own.values())
        stacked = self.stacked(b, made[len(e.state) :], names, path)
        if level == "device":
            stacked = [stack(self.values, name, s.result, s.value, own.values()) for s in stacked]
        rows = list(zip(params, initial, made[: len(e.state)], strict=True))
        if checked:
            rows.append((going, cond, next_going))
        carried = tuple(self.carry(*row, {r[0] for r in rows}) for row in rows)
        names.update((var.name, param) for var, param in zip(b.vars, params))
        return LoopTask(
            name,
            b.vars[0].name if b.vars else e.body,
            level,
            reason,
            body,
            trip,
            cond,
            iteration,
            going,
            checked,
            carried,
            tuple(stacked),
            b.origin,
        )

    def read_rows(
        self, body: tuple[UTask, ...], loop: str, trip: str, own: Collection[str]
    ) -> tuple[UTask, ...]:
        """The body, in which rows of what it does not change are read where they lie."""
        trips, (iteration, *_) = self.trips(trip), own
        if trips is None:
            return body
        constants, env = self.program.constants, self.program.env
        reader = RowReader(self.values, constants, env, loop, iteration, trips, own)
        return reader.without_copies(body)

    def trips(self, trip: str) -> Dim | None:
        """How many trips a loop makes at most, where that is a number or an extent."""
        value = self.values.get(trip)
        if value is not None and value.home == "shape" and value.dims:
            return value.dims[0]
        constant = self.program.constants.get(trip)
        return None if constant is None else int(constant.array.reshape(-1)[0])

    def stacked(self, b: Binding, made: Sequence[str], names: Names, path: str) -> list[Stacked]:
        """What a loop stacks, in buffers of their own, copied from what its body makes."""
        stacked = Binding(b.vars[len(b.vars) - len(made) :], b.expr, b.origin)
        results = self.fresh(stacked, names, path)
        return [Stacked(result, row, "") for result, row in zip(results, made, strict=True)]

    def carry(self, param: str, initial: str, result: str, params: set[str]) -> Carried:
        """Through a buffer of its own where the result lies in a value that is overwritten too."""
        made = self.values[result]
        if made.root not in params or (result == param):
            return Carried(param, initial, result)
        staging = self.define(f"{param}/next", self.values[param].type, origin=made.origin)
        return Carried(param, initial, result, staging)

    def is_true(self, name: str) -> bool:
        """Whether a value is the constant True."""
        constant = self.program.constants.get(name)
        return constant is not None and constant.array.size == 1 and bool(constant.array.item())


def _straight(run: Sequence[OperatorTask]) -> tuple[Straight, ...]:
    return (Straight(tuple(run)),) if run else ()
