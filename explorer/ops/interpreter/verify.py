"""Well-formedness of a program at its stage, symbols included; the first error in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from explorer.errors import VerifyError
from explorer.ir.annotations import Match, match, signature_of, symbols_in, unify
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    Loop,
    MatchCast,
    OpCall,
    Var,
    View,
    updates_of,
)
from explorer.ir.dims import ShapeEnv, product
from explorer.ir.kernels.in_place import is_whole
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.symbols import defined_by, needed_by, parameter_symbols
from explorer.ir.text.text_tokens import print_type as _text
from explorer.ir.types import Annotation, Tensor, TupleType
from explorer.ops.verify_kernel import verify_kernel


def verify(program: Program) -> None:
    """Raise VerifyError unless the program satisfies the invariants of its stage.

    Values are bound once and before they are read; calls fit what they call; kernels are well
    formed; every source operator is in the program or was dropped with a reason.
    """
    names = [f.name for f in program.functions]
    if len(set(names)) < len(names):
        _wrong("two functions have one name", ", ".join(names))
    scopes = scopes_of(program)
    for function in program.functions:
        _Function(program, function, scopes[function.name]).verify()
    _origins(program)


def _wrong(problem: str, where: str) -> NoReturn:
    raise VerifyError(f"{where}: {problem}", where=where)


class _Function:
    """One function being walked: the values and the symbols that are defined so far."""

    def __init__(self, program: Program, function: Function, scope: frozenset[str]) -> None:
        self.program, self.function, self.env = program, function, program.env
        self.scope = {*scope, *parameter_symbols(function)}
        self.functions = {f.name: f for f in program.functions}
        self.defined: dict[str, Annotation] = {n: c.type for n, c in program.constants.items()}
        self.memory: dict[str, str] = {}  # by aliasing value, the owner of its memory
        self.over: dict[str, str] = {}  # by overwritten value, the value in its memory

    def verify(self) -> None:
        for param in self.function.params:
            self.define(param, "a parameter")
        for binding in self.function.body:
            for var in binding.reads:
                self.read(var, f"binding {binding.vars[0].name!r}")
            self.binding(binding)
            for var in binding.vars:
                self.define(var, "a binding")
            self.record_memory(binding)
            self.scope |= defined_by(binding)
        for var in self.function.outputs:
            self.read(var, f"the outputs of {self.function.name!r}")
        names = self.function.output_names
        if names and len(names) != len(self.function.outputs):
            _wrong("the numbers of outputs and of their names differ", self.function.name)

    def record_memory(self, binding: Binding) -> None:
        """Record which values share memory, and which are overwritten completely."""
        match binding.expr:
            case View(arg) | MatchCast(arg):
                self.memory[binding.var.name] = self.memory.get(arg.name, arg.name)
            case KernelCall(kernel) as call:
                for output, (var, arg) in zip(kernel.updates, updates_of(call, binding.vars)):
                    root = self.memory.get(arg.name, arg.name)
                    if is_whole(kernel, output[0]):
                        same = [n for n, r in self.memory.items() if r == root]
                        self.over |= dict.fromkeys((root, *same), var.name)
                    self.memory[var.name] = root

    def define(self, var: Var, what: str) -> None:
        if var.name in self.defined:
            _wrong(f"{what} binds {var.name!r} a second time", self.function.name)
        if self.program.stage >= Stage.TYPED and var.type == Tensor() and what == "a parameter":
            _wrong(f"{var.name!r} has no annotation at stage {self.program.stage.name}", var.name)
        self.defined[var.name] = var.type

    def read(self, var: Var, where: str) -> None:
        if var.name not in self.defined:
            _wrong(f"reads {var.name!r} before it is bound", where)
        if var.name in self.over:
            _wrong(f"reads {var.name!r}, over which {self.over[var.name]!r} was written", where)
        defined = self.defined[var.name]
        if self.program.stage >= Stage.TYPED and not same(defined, var.type, self.env):
            _wrong(
                f"reads {var.name!r} as {_text(var.type)}, and it is {_text(defined)}",
                where,
            )

    def binding(self, binding: Binding) -> None:
        where = f"binding {binding.vars[0].name!r}" if binding.vars else "a binding of nothing"
        if not binding.vars:
            _wrong("a binding has no values", self.function.name)
        check_symbols(self.function, binding, self.scope, where)
        match binding.expr:
            case OpCall(op, _, _) if self.program.stage >= Stage.LEGALIZED:
                _wrong(f"{op} is not a kernel at stage {self.program.stage.name}", where)
            case KernelCall(kernel, args, _):
                if len(binding.vars) != len(kernel.outputs):
                    outputs = f"{len(kernel.outputs)} outputs of a kernel"
                    _wrong(f"{len(binding.vars)} values for {outputs}", where)
                verify_kernel(kernel, where)
                self.kernel_call(binding, binding.expr, where)
            case View(arg, _):
                self.view(binding, arg, where)
            case FunctionCall(name, args):
                self.check_results(self.call(name, args, set(), where), binding.vars, where)
            case Gradient(name, args, wrt):
                results = self.call(name, args, self.scope, where)
                self.check_results((*results, *(args[n].type for n in wrt)), binding.vars, where)
            case Branch(cond, then, orelse, args):
                self.condition(cond, where)
                self.check_results(self.call(then, args, self.scope, where), binding.vars, where)
                self.check_results(self.call(orelse, args, self.scope, where), binding.vars, where)
            case Loop() as loop:
                self.loop(loop, binding, where)

    def kernel_call(self, binding: Binding, call: KernelCall, where: str) -> None:
        kernel = call.kernel
        if len(call.args) != len(kernel.inputs):
            _wrong(f"{len(call.args)} arguments for {len(kernel.inputs)} inputs", where)
        for name, arg in zip(kernel.inputs, call.args, strict=True):
            spec = kernel.spec(name)
            input_type = Tensor(spec.shape, spec.dtype)
            if arg.type != input_type:
                level, why = match(input_type, arg.type, self.env)
                if level < Match.PROVED:
                    self.differ(arg, f"the kernel's {name!r}", input_type, why, where)
            if name in kernel.constants and arg.name not in self.program.constants:
                _wrong(f"{arg.name!r} is not a constant, but the kernel's {name!r} is", where)
        for output, var in zip(kernel.outputs, binding.vars, strict=True):
            spec = kernel.spec(output)
            output_type = Tensor(spec.shape, spec.dtype)
            if var.type == output_type:
                continue
            level, why = match(var.type, output_type, self.env)
            if level < Match.PROVED:
                _wrong(
                    f"is {_text(var.type)} and the kernel makes {_text(output_type)}: {why}", where
                )

    def view(self, binding: Binding, arg: Var, where: str) -> None:
        before, after = arg.type, binding.var.type
        if not (isinstance(before, Tensor) and isinstance(after, Tensor)) or not before.is_known:
            return
        if before.dtype != after.dtype:
            _wrong(f"a view of {before.dtype} as {after.dtype}", where)
        offset = binding.expr.offset if isinstance(binding.expr, View) else 0
        if (
            isinstance(offset, int)
            and isinstance(before.elements, int)
            and isinstance(after.elements, int)
        ):
            if offset < 0 or offset + after.elements > before.elements:
                _wrong(
                    f"a view of {_text(after)} at {offset} does not fit into {_text(before)}",
                    where,
                )
        elif offset == 0 and self.env.equal(product(before.dims), product(after.dims)) is False:
            low = self.env.bounds(product(after.dims) - product(before.dims))[0]
            if low > 0:
                _wrong(f"a view of {_text(after)} does not fit into {_text(before)}", where)

    def condition(self, cond: Var, where: str) -> None:
        if isinstance(cond.type, Tensor) and cond.type.is_known and cond.type.dtype != "bool":
            _wrong(f"the condition {cond.name!r} is {_text(cond.type)}", where)

    def call(
        self, name: str, args: tuple[Var, ...], shared: set[str], where: str
    ) -> tuple[Annotation, ...]:
        """Return the results of a call by the function's signature; a body shares symbols."""
        function = self.functions.get(name)
        if function is None:
            _wrong(f"there is no function {name!r}", where)
        return self.fit(function, function.params, args, shared, where)

    def fit(
        self,
        function: Function,
        params: tuple[Var, ...],
        args: tuple[Var, ...],
        shared: set[str],
        where: str,
    ) -> tuple[Annotation, ...]:
        if len(params) != len(args):
            _wrong(f"{len(args)} arguments, expected {len(params)}", where)
        signature = signature_of(replace(function, params=params), shared)
        derived = unify(signature, tuple(a.type for a in args), self.env, shared)
        for row in derived.rows:
            if row.level < Match.CHECKED and self.program.stage >= Stage.TYPED:
                arg, param = args[row.argument], params[row.argument]
                self.differ(arg, repr(param.name), param.type, row.reason, where)
        if len(function.outputs) != 1 and isinstance(derived.result, TupleType):
            return derived.result.items
        return (derived.result,)

    def check_results(
        self, types: tuple[Annotation, ...], vars: tuple[Var, ...], where: str
    ) -> None:
        """Check that values are as declared, as far as signatures tell."""
        if len(types) != len(vars):
            _wrong(f"{len(vars)} values where {len(types)} are given", where)
        for var, type in zip(vars, types, strict=True):
            level, why = match(var.type, type, self.env)
            if level < Match.CHECKED and self.program.stage >= Stage.TYPED:
                self.differ(var, "what is called", type, why, where)

    def differ(self, a: Var, name: str, type: Annotation, why: str, where: str) -> NoReturn:
        _wrong(f"{a.name!r} is {_text(a.type)} and {name} is {_text(type)}: {why}", where)

    def loop(self, loop: Loop, binding: Binding, where: str) -> None:
        body = self.functions.get(loop.body)
        if body is None:
            _wrong(f"there is no function {loop.body!r}", where)
        count = len(loop.state)
        if len(body.outputs) != 1 + count + loop.scans or len(binding.vars) != count + loop.scans:
            _wrong(f"the body of the loop must return {count + loop.scans} values", where)
        args = (*loop.state, *loop.args)
        first_trip = self.fit(body, body.params[2:], args, self.scope, where)
        after = body.outputs[1 : 1 + count]
        second_trip = self.fit(body, body.params[2:], (*after, *loop.args), self.scope, where)
        for types in (
            first_trip[1 : 1 + count],
            second_trip[1 : 1 + count],
            [s.type for s in loop.state],
        ):
            self.check_results(tuple(types), binding.vars[:count], where)
        if loop.padded and loop.trip is None:
            _wrong("a loop without a limit has no buffer for its rows", where)
        for var, row in zip(binding.vars[count:], first_trip[1 + count :], strict=True):
            self.check_rows(loop, var, row, where)

    def check_rows(self, loop: Loop, var: Var, row: Annotation, where: str) -> None:
        """Check that a stacked value has the body's rows, and as many as a constant limit."""
        stacked = var.type
        if not isinstance(stacked, Tensor) or not stacked.is_known or not isinstance(row, Tensor):
            return
        of = Tensor(stacked.dims[1:], stacked.dtype) if stacked.dims else stacked
        if not stacked.dims or not same(of, row, self.env):
            _wrong(f"{var.name!r} is {_text(stacked)} and stacks {_text(row)}", where)
        limit = self.program.constants.get(loop.trip.name if loop.trip else "")
        trips = None if limit is None else max(0, int(limit.array.reshape(-1)[0]))
        if trips is not None and self.env.equal(stacked.dims[0], trips) is False:
            _wrong(f"{var.name!r} is {_text(stacked)} and has {trips} rows", where)


def same(a: Annotation, b: Annotation, env: ShapeEnv) -> bool:
    """Return True unless two annotations are proved to differ."""
    if a == b or not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return True
    if a.dtype != b.dtype and a.dtype is not None and b.dtype is not None:
        return False
    if a.shape is None or b.shape is None:
        return True
    return len(a.shape) == len(b.shape) and not any(
        env.equal(m, n) is False for m, n in zip(a.shape, b.shape, strict=True)
    )


def _origins(program: Program) -> None:
    """Check that every source operator remains or has a reason, and no name is invented."""
    sources = {s.name for s in program.sources}
    if not sources:
        return
    remaining: set[str] = set()
    for _, binding in program.bindings():
        _check_sources(binding.origin, sources, binding.vars[0].name)
        remaining |= binding.origin
        if isinstance(binding.expr, KernelCall):
            for compute in binding.expr.kernel.computes:
                _check_sources(compute.origin, sources, binding.vars[0].name)
                if not compute.origin:
                    _wrong(f"{compute.out!r} comes from no source operator", binding.vars[0].name)
                remaining |= compute.origin
    lost = sources - remaining - {name for name, _ in program.dropped}
    if lost:
        _wrong(f"{', '.join(sorted(lost)[:5])} left the program without a reason", program.name)


def _check_sources(origin: Iterable[str], sources: set[str], where: str) -> None:
    unknown = set(origin) - sources
    if unknown:
        _wrong(f"comes from {sorted(unknown)[:3]}, which are not source operators", where)


# Symbols that each function sees, and the check that a binding uses only those.


Scope = frozenset[str]


def scopes_of(program: Program) -> dict[str, Scope]:
    """Return the symbols that each function has from its caller.

    There are none unless it is only the body of branches and loops: then those that all its uses
    have in common. An unreachable function never runs, so it sees all symbols.
    """
    functions = {f.name: f for f in program.functions}
    scopes: dict[str, Scope] = {program.main.name: frozenset()}
    todo = [program.main.name]
    while todo:
        function = functions[todo.pop()]
        scope = set(scopes[function.name]) | parameter_symbols(function)
        for binding in function.body:
            for name, seen in _callees(binding, scope):
                earlier = scopes.get(name)
                shared = frozenset(seen) if earlier is None else earlier & seen
                if name in functions and shared != earlier:
                    scopes[name] = shared
                    todo.append(name)
            scope |= defined_by(binding)
    if len(scopes) == len(functions):
        return scopes
    anything = Scope().union(*map(parameter_symbols, program.functions))
    anything = anything.union(*(defined_by(b) for _, b in program.bindings()))
    return {name: scopes.get(name, anything) for name in functions}


def _callees(binding: Binding, scope: set[str]) -> list[tuple[str, set[str]]]:
    match binding.expr:
        case FunctionCall(name, _):
            return [(name, set())]
        case Branch(_, then, orelse, _):
            return [(then, scope), (orelse, scope)]
        case Loop(name) | Gradient(name):
            return [(name, scope)]
    return []


def check_symbols(function: Function, binding: Binding, scope: set[str], where: str) -> None:
    """Raise VerifyError if a binding uses a symbol without a value."""
    needed = needed_by(binding)
    if needed <= scope:
        return
    name = min(needed - scope)
    for later in function.body:
        if name in defined_by(later):
            _no_symbol(f"uses {name!r} before the match_cast {later.var.name!r} defines it", where)
    within = [p.name for p in function.params if name in symbols_in(p.type)]
    if within:
        _no_symbol(
            f"uses {name!r}, which {within[0]!r} has only in an expression, which defines nothing",
            where,
        )
    _no_symbol(f"uses {name!r}, which no parameter and no match_cast defines", where)


def _no_symbol(problem: str, where: str) -> NoReturn:
    raise VerifyError(f"{where}: {problem}", where=where, try_="a match_cast that defines it")
