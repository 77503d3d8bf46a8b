"""From functions to uTasks: calls are inlined, bodies get values, views find their bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from explorer.errors import UnsupportedOperator
from explorer.grinder.calls.recursion import recursive, unchanged
from explorer.grinder.first_states import begin_in_place
from explorer.grinder.host import host_of
from explorer.grinder.levels import level_of
from explorer.grinder.model import (
    BranchTask,
    CallTask,
    Carried,
    LibraryTask,
    LoopTask,
    OperatorTask,
    RecursionTask,
    Stacked,
    Straight,
    UProgram,
    UTask,
    Value,
)
from explorer.grinder.options import Options
from explorer.grinder.policy import LEVELS, LevelPolicy, Ways, lowest
from explorer.grinder.rows import RowReader, stack
from explorer.grinder.siblings import side_by_side
from explorer.grinder.unroll import fitting, joined, refusal
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

DECIDED = "its shapes, or those inside, are of values of the run"
Names = dict[str, str]  # a function's own names -> names of values


def uprogram(program: Program, ways: Ways | LevelPolicy = lowest) -> UProgram:
    """What a program of kernels, views and control flow runs; a policy alone asks for levels."""
    asked, hosted = ways if isinstance(ways, Ways) else Ways(ways), frozenset[str]()
    while True:
        grinder = _Grinder(program, asked, hosted)
        found = grinder.grind()
        if not grinder.refused:
            return found
        hosted |= grinder.refused  # and so is whatever calls them


class _Grinder:
    def __init__(self, program: Program, ways: Ways, hosted: frozenset[str]) -> None:
        self.program, self.ways, self.hosted = program, ways, hosted
        chosen = program.decisions.grinder
        self.options = chosen if isinstance(chosen, Options) else Options()
        self.recursive = recursive(program)
        self.frame = ""  # the recursion whose body is being made
        self.open: dict[str, tuple[str, frozenset[int]]] = {}  # functions; params given unchanged
        self.refused: set[str] = set()  # recursive functions that the policy leaves to the host
        self.values: dict[str, Value] = {}
        self.host = host_of(program, hosted)
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
        begin_in_place(parts, self.values, outputs)
        labels = main.output_names or tuple(v.name for v in main.outputs)
        inputs = tuple(p.name for p in main.params)
        apart, words = self.ways.apart, self.host.words
        return UProgram(parts, self.values, inputs, outputs, labels, apart, self.hosted, words)

    def define(
        self,
        name: str,
        kind: Tensor,
        root: str = "",
        offset: Dim = 0,
        home: str = "buffer",
        origin: frozenset[str] = frozenset(),
    ) -> str:
        frame = self.frame if home == "buffer" and not root else ""
        self.values[name] = Value(
            name, kind, root or name, offset, home, origin=origin, frame=frame
        )
        return name

    def value(self, var: Var, names: Names) -> str:
        return names.get(var.name, var.name)  # constants keep their names

    def body(
        self, function: Function, names: Names, path: str, open_calls: tuple[str, ...]
    ) -> tuple[UTask, ...]:
        parts: list[UTask] = []
        run: list[OperatorTask] = []
        for binding in function.body:
            if self.host.does(binding):  # what follows is another launch
                parts += self.straight(run)
                run = []
            for part in self.binding(binding, names, path, open_calls):
                if isinstance(part, Straight):
                    run += part.operators
                else:
                    parts += [*self.straight(run), part]
                    run = []
        parts += self.straight(run)
        return side_by_side(parts, self.values) if self.open else tuple(parts)

    def straight(self, run: Sequence[OperatorTask]) -> tuple[Straight, ...]:
        if self.ways.apart:
            return tuple(Straight((operator,)) for operator in run)
        return (Straight(tuple(run)),) if run else ()

    def binding(
        self, b: Binding, names: Names, path: str, open_calls: tuple[str, ...]
    ) -> tuple[UTask, ...]:
        """The tasks of a binding; none for a view."""
        match b.expr:
            case KernelCall(kernel, args, _, _, after):
                reads = tuple(self.value(a, names) for a in args)
                taken = dict(zip(kernel.inputs, reads, strict=True))
                over = {output: taken[name] for output, name in kernel.updates}
                for output, var in zip(kernel.outputs, b.vars, strict=True):
                    if output in over:
                        self.view(var, over[output], 0, names, path, b.origin)
                    else:
                        self.fresh(replace(b, vars=(var,)), names, path)
                results = tuple(names[var.name] for var in b.vars)
                behind = "" if after is None else self.value(after, names)
                task = OperatorTask(results[0], b.name, b.expr, reads, results, b.origin, behind)
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
                return self.loop(b, b.expr, names, path, open_calls)
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
        given = tuple(self.value(a, names) for a in args)
        if function in self.open:
            return (self.again(b, function, given, names, path),)
        if function in open_calls:  # the host goes deeper; the tree does not
            results = self.fresh(b, names, path)
            why = self.recursive.get(function) or DECIDED
            again = LibraryCall("host", function, tuple(args), (("why", why),))
            return (LibraryTask(results[0], b.name, again, given, results, b.origin),)
        if function in self.recursive and function not in self.host.dynamic:
            return (self.recursion(b, function, given, names, path, open_calls),)
        parts, outputs = self.inline(function, args, names, f"{path}{b.vars[0].name}/", open_calls)
        names.update((var.name, value) for var, value in zip(b.vars, outputs))
        return parts

    def recursion(
        self,
        b: Binding,
        function: str,
        given: Sequence[str],
        names: Names,
        path: str,
        open_calls: tuple[str, ...],
    ) -> RecursionTask:
        """The outermost call; what every call inside hands on as it is, is read where it lies."""
        results, name = self.fresh(b, names, path), path + b.name
        called, same = self.program.function(function), unchanged(self.program, function)
        outside, self.frame = self.frame, name
        inner: Names = {}
        for n, (param, arg) in enumerate(zip(called.params, given, strict=True)):
            own = f"{name}/{param.name}"
            kind = self.tensor(param)
            inner[param.name] = arg if n in same else self.define(own, kind, origin=b.origin)
        self.open[function] = name, same
        body = self.body(called, inner, f"{name}/", (*open_calls, function))
        del self.open[function]
        self.frame = outside
        level, reason = level_of(self.ways.level, body, name)
        chosen = self.ways.chosen.get(b.name)
        if chosen is not None and chosen.chosen.level == level:
            reason = chosen.reason
        if level == "host":
            self.refused.add(function)
        return RecursionTask(
            name,
            b.name,
            level,
            reason,
            function,
            self.options.depth,
            tuple(a for n, a in enumerate(given) if n not in same),
            tuple(inner[p.name] for n, p in enumerate(called.params) if n not in same),
            body,
            tuple(self.value(v, inner) for v in called.outputs),
            results,
            b.origin,
            self.options.recursion,
        )

    def again(
        self, b: Binding, function: str, given: Sequence[str], names: Names, path: str
    ) -> CallTask:
        """A call inside of the recursion."""
        recursion, same = self.open[function]
        args = tuple(a for n, a in enumerate(given) if n not in same)
        results = self.fresh(b, names, path)
        return CallTask(results[0], b.name, recursion, function, args, results, b.origin)

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
        rows: list[tuple[str, str, str]] = []
        for var, one, two in zip(b.vars, made, other, strict=True):
            if self.values[one].is_at(self.values[two]):
                self.view(var, one, 0, names, path, b.origin)
                continue
            (result,) = self.fresh(replace(b, vars=(var,)), names, path)
            self.write_in_place(result, one, f"{name}/then/")
            self.write_in_place(result, two, f"{name}/else/")
            rows.append((result, one, two))
        level, reason = self.level_of((*then, *orelse), name, b)
        return BranchTask(
            name, b.vars[0].name, level, reason, cond, then, orelse, tuple(rows), b.origin
        )

    def level_of(self, body: Sequence[UTask], name: str, b: Binding) -> tuple[str, str]:
        """What was chosen for a binding, or the policy says of its body."""
        if self.host.does(b):
            return "host", DECIDED
        chosen = self.ways.chosen.get(b.name)
        if chosen is not None and not self.frame:  # what a call does is in the program with it
            level, (least, why) = chosen.chosen.level, lowest(body)
            fits = LEVELS.index(level) <= LEVELS.index(least)
            return (level, chosen.reason) if fits else (least, why)
        return level_of(self.ways.level, body, name)

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
    ) -> tuple[LoopTask, ...]:
        """The loop; where it makes turns of several trips also what is then left of it."""
        name = path + b.vars[0].name if b.vars else f"{path}{e.body}"
        own: Names = {}
        for param in self.program.function(e.body).params[: 2 + len(e.state)]:
            kind = self.tensor(param)
            own[param.name] = self.define(f"{name}/{param.name}", kind, origin=b.origin)
        turn = Turn(self, e, names, open_calls, name, own)
        trip, cond = ("" if v is None else self.value(v, names) for v in (e.trip, e.cond))
        going, next_going = tuple(own.values())[1], turn.going
        checked = self.values[next_going].root != going and not self.is_true(next_going)
        level, reason = self.level_of(turn.body, name, b)
        trips = self.trips(trip)
        chosen = self.ways.chosen.get(b.name)
        asked = self.ways.turn if chosen is None else chosen.chosen.turn
        asked = asked if level == "device" and not self.frame else 1
        states = dict(zip(turn.params, turn.made))
        if asked > 1 and not refusal(turn.body, trip, checked, states, self.values):
            asked = fitting(asked, turn.body, trips)
            reason = f"{reason}; {asked} trips a turn" if asked > 1 else reason
            for _ in range(1, asked):
                turn.go_on()
        results = self.stacked_of(b, len(turn.rows[0]), names, path)
        made = LoopTask(
            name,
            b.vars[0].name if b.vars else e.body,
            level,
            reason,
            turn.body,
            trip,
            cond,
            turn.counts[0],
            going,
            checked,
            (),
            (),
            b.origin,
            turn.counts[1:],
        )
        initial = [self.value(v, names) for v in e.state]
        loops = [self.finished(made, turn, [*initial, cond], results, trips)]
        if turn.trips > 1 and not (isinstance(trips, int) and trips % turn.trips == 0):
            left = Turn(self, e, names, open_calls, f"{name}/rest", own)
            rest = replace(made, name=f"{name}/rest", body=left.body, later=(), rest=turn.trips)
            loops.append(self.finished(rest, left, left.params, results, trips))
        names.update((var.name, param) for var, param in zip(b.vars, turn.params))
        return tuple(loops)

    def finished(
        self,
        loop: LoopTask,
        turn: Turn,
        initial: Sequence[str],
        results: Sequence[str],
        trips: Dim | None,
    ) -> LoopTask:
        """The loop with its rows where they lie, and with what it carries."""
        own = (*turn.counts, loop.going, *turn.params)
        stacked = [Stacked(r, v, "") for rows in turn.rows for r, v in zip(results, rows)]
        body = loop.body
        if loop.level == "device":
            if trips is not None:
                body = self.read_rows(loop, trips, own)
            stacked = [
                stack(self.values, loop.name, s, n // len(results), own)
                for n, s in enumerate(stacked)
            ]
        rows = list(zip(turn.params, initial, turn.made))
        if loop.checked:
            rows.append((loop.going, loop.cond, turn.going))
        carried = tuple(self.carry(*row, {r[0] for r in rows}) for row in rows)
        return replace(loop, body=body, carried=carried, stacked=tuple(stacked))

    def read_rows(self, loop: LoopTask, trips: Dim, own: Collection[str]) -> tuple[UTask, ...]:
        """The body, in which rows of what it does not change are read where they lie."""
        constants, env = self.program.constants, self.program.env
        last = simplify(trips - len(loop.later))  # a turn begins below it
        reader = RowReader(self.values, constants, env, loop.name, loop.counts, last, own)
        return reader.without_copies(loop.body)

    def trips(self, trip: str) -> Dim | None:
        """How many trips a loop makes at most, where that is a number or an extent."""
        value = self.values.get(trip)
        if value is not None and value.home == "shape" and value.dims:
            return value.dims[0]
        constant = self.program.constants.get(trip)
        return None if constant is None else int(constant.array.reshape(-1)[0])

    def stacked_of(self, b: Binding, count: int, names: Names, path: str) -> tuple[str, ...]:
        """What a loop stacks, in buffers of their own."""
        stacked = Binding(b.vars[len(b.vars) - count :], b.expr, b.origin)
        return self.fresh(stacked, names, path)

    def carry(self, param: str, initial: str, result: str, params: set[str]) -> Carried:
        """Through a buffer of its own where the result lies in a value that is overwritten too."""
        made = self.values[result]
        if made.root not in params or made.is_at(self.values[param]):
            return Carried(param, initial, result)
        staging = self.define(f"{param}/next", self.values[param].type, origin=made.origin)
        return Carried(param, initial, result, staging)

    def is_true(self, name: str) -> bool:
        """Whether a value is the constant True."""
        constant = self.program.constants.get(name)
        return constant is not None and constant.array.size == 1 and bool(constant.array.item())


class Turn:
    """A turn of a loop that grows trip by trip: its parts, the state that it leaves, the rows that
    its trips stack, and their counts. `own` are the body's parameters as the loop holds them.
    """

    def __init__(
        self,
        grinder: _Grinder,
        loop: Loop,
        names: Names,
        open_calls: tuple[str, ...],
        path: str,
        own: Names,
    ) -> None:
        self.grinder, self.loop, self.names, self.open_calls = grinder, loop, names, open_calls
        self.path, self.own = path, own
        self.params = tuple(own.values())[2:]
        self.made, self.counts = self.params, tuple(own.values())[:1]
        self.body: tuple[UTask, ...] = ()
        self.rows: list[tuple[str, ...]] = []
        self.go_on()

    @property
    def trips(self) -> int:
        return len(self.rows)

    def go_on(self) -> None:
        """Another trip, which begins with what the one before made."""
        path, own = f"{self.path}/", dict(self.own)
        if self.rows:
            path = f"{path}+{self.trips}/"
            count, _, *states = own
            first = self.grinder.values[own[count]]
            own[count] = self.grinder.define(f"{path}{count}", first.type, origin=first.origin)
            own |= zip(states, self.made, strict=True)
            self.counts = (*self.counts, own[count])
        e = self.loop
        parts, (self.going, *made) = self.grinder.inline(
            e.body, e.args, self.names, path, self.open_calls, own
        )
        self.body = joined((*self.body, *parts)) if self.rows else parts
        self.made, rows = tuple(made[: len(e.state)]), made[len(e.state) :]
        self.rows.append(tuple(rows))
