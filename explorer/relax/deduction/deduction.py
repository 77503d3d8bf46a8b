"""Forward deduction: every value gets an annotation, and shape arithmetic leaves the program.

    n = Shape(x); m = Concat(n, [-1]); y = Reshape(x, m)
    ->  y: float32[batch, 64] = Reshape(x, shape=(batch, 64))

It never guesses and never fails for lack of information. A value that only a run knows gets a
coarser annotation, and a match_cast that names its dims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx

from explorer.errors import (
    BoundError,
    DtypeError,
    IronworksError,
    ShapeError,
    TooLarge,
    UnsupportedOperator,
)
from explorer.ir.annotations import defined_by
from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.dims import ShapeEnv
from explorer.ir.dtypes import HOST_DTYPES
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Annotation, Tensor
from explorer.ops import RECORDS
from explorer.ops.record import OperatorRecord, Site, Values, arguments_by_value
from explorer.ops.rules import check_site, in_rule
from explorer.ops.run_time import MOST_DIMS
from explorer.ops.shape_rules import ImpliedBound, Unprovable
from explorer.passes.registry import compiler_pass
from explorer.relax.deduction.control_flow import (
    OnlyArm,
    branch,
    call,
    declared_results,
    gradient,
    loop,
    require_arm,
    taken_arm,
)
from explorer.relax.deduction.knowledge import (
    Deduced,
    DeducedValue,
    Knowledge,
    KnownValue,
    Symbols,
    is_known,
    materialize,
)
from explorer.relax.deduction.library import (
    coarse_types,
    constant_results,
    last_resort,
    library_types,
    without_dims,
)
from explorer.relax.deduction.run_time import at_run_time, with_agreement, with_filling
from explorer.relax.deduction.stacked_rows import pad_rows
from explorer.relax.deduction.symbol_bounds import hints_from_use, imply_bounds

MOST_ANNOTATED_FUNCTIONS = 1 << 10  # plus eight for each function: a bound on time, chosen
MOST_TRIALS = 16  # of branch arms with all that follows: a bound on time, chosen
MOST_ELEMENTS = 1 << 60  # their bytes are numbers of 64 bits
NOTHING = "it has no results"
RESTORED = ("symbols", "dropped", "scope", "readers", "annotated_functions", "open", "pending")


@compiler_pass("deduce", paper="Relax, ASPLOS 2025, section 3.2: shape annotation deduction")
def deduce(program: Program) -> Program:
    """Annotate every value, forward only; drop dead bindings with the reason."""
    limits: dict[str, int] = {}  # of deduced symbols, which a retry names equally
    while True:
        try:
            program_ = Deduction(program, limits).program()
            imply_bounds(program_)
            return replace(program_, env=hints_from_use(program_))
        except ImpliedBound as bound:  # each makes a bound tighter, so this ends
            if any(s.name == bound.name for s in program.env.symbols):
                program = replace(program, env=_tightened(program.env, bound))
            else:
                limits[bound.name] = _limit(limits, bound)


def _tightened(env: ShapeEnv, bound: ImpliedBound) -> ShapeEnv:
    """Return the environment within an implied bound; raise BoundError if it is empty."""
    bounds = env.of(bound.name)
    low = max(bounds.low, bound.low)
    if low > bound.high:
        raise BoundError(
            f"the model takes {bound.name} up to {bound.high}; it was bounded from {bounds.low} on",
            where=bound.name,
        )
    tight = replace(bounds, low=low, high=bound.high, hint=min(max(low, bounds.hint), bound.high))
    return ShapeEnv(tuple(tight if s.name == bound.name else s for s in env.symbols))


def _limit(limits: Mapping[str, int], bound: ImpliedBound) -> int:
    """Return the greatest value of a deduced symbol; raise BoundError if there is none."""
    if bound.high < 0 or limits.get(bound.name, bound.high + 1) <= bound.high:
        raise BoundError(
            f"the model has a meaning only where {bound.name} is at most {bound.high}",
            where=bound.name,
        )
    return bound.high


class Deduction:
    """One program being annotated: annotated functions, new constants, and dropped operators.

    `scope` are the symbols that the function being annotated sees.
    """

    def __init__(self, program: Program, limits: Mapping[str, int] | None = None) -> None:
        """Start with no function annotated; `limits` bounds the symbols that deduction makes."""
        self.source = program
        self.symbols = Symbols(program.env, limits)
        self.constants: dict[str, Constant] = dict(program.constants)
        self.source_functions = {f.name: f for f in program.functions}
        self.functions: dict[str, Function] = {}
        self.dropped: list[tuple[str, str]] = list(program.dropped)
        self.scope: set[str] = set()
        self.readers: dict[str, list[OpCall]] = {}  # of the values of the function, by name
        self.annotated_functions = 0  # a loop's body counts until its state is wide enough
        self.open: set[str] = set()  # closed signatures whose bodies are being annotated
        self.pending: list[Binding] = []  # of the function being annotated, the last one first
        self.trials = 0

    def program(self) -> Program:
        """Return the program with every function that is still reached."""
        main = self.source.main
        annotated_main = self.function(main, [(p, None) for p in main.params])
        annotated_main = replace(
            annotated_main, outputs=declared_results(main, annotated_main, self.symbols.env)
        )
        others = tuple(f for n, f in self.functions.items() if n != main.name)
        order = {f.name: i for i, f in enumerate(self.source.functions)}
        surviving = {o for f in (annotated_main, *others) for b in f.body for o in b.origin}
        self.dropped = [(name, why) for name, why in self.dropped if name not in surviving]
        others = tuple(sorted(others, key=lambda f: order.get(f.name, len(order))))
        return replace(
            self.source,
            functions=(annotated_main, *others),
            constants=self.constants,
            env=self.symbols.env,
            dropped=tuple(dict(self.dropped).items()),
            stage=max(self.source.stage, Stage.TYPED),
        )

    def function(self, function: Function, args: list[KnownValue], name: str = "") -> Function:
        """Annotate a function for these arguments; it sees the symbols in scope."""
        self.annotated_functions += 1
        if self.annotated_functions > MOST_ANNOTATED_FUNCTIONS + 8 * len(self.source_functions):
            raise TooLarge(
                f"{function.name}: shapes in nested loops change too often to be deduced",
                where=function.name,
                try_="loops that nest less deep, or whose states keep their shapes",
            )
        outside, self.scope = self.scope, set(self.scope)
        knowledge = Knowledge(self.constants)
        knowledge.matched = _only_matched(function)
        before, self.readers = self.readers, _readers(function.body)
        params = tuple(
            knowledge.learn(Var(p.name, a.type), v)
            for p, (a, v) in zip(function.params, args, strict=True)
        )
        for p in params:
            self.scope.update(defined_by(p.type))
        body = self.follow(function.body, knowledge)
        outputs = tuple(knowledge.var(v) for v in function.outputs)
        name = name or function.name
        result = replace(function, name=name, params=params, body=tuple(body), outputs=outputs)
        result = materialize(result, knowledge, self.constants, self.dropped)
        self.functions[name] = result
        self.scope, self.readers = outside, before
        return result

    def follow(self, bindings: Sequence[Binding], knowledge: Knowledge) -> list[Binding]:
        """Annotate bindings in order; replacements of a binding come before the later ones."""
        outside, self.pending = self.pending, list(reversed(bindings))
        body: list[Binding] = []
        while self.pending:
            body += self.binding(self.pending.pop(), knowledge)
        self.pending = outside
        return body

    def insert_next(self, bindings: list[Binding]) -> list[Binding]:
        """Put bindings next, in place of one."""
        self.readers = self.readers | _readers(bindings)
        self.pending += reversed(bindings)
        return []

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that restores the present state of the deduction."""
        shared: list[tuple[dict[str, Any], dict[str, Any]]]
        shared = [
            (mapping, dict(mapping))
            for mapping in (self.constants, self.source_functions, self.functions)
        ]
        own = {n: copy(v) for n, v in vars(self).items() if n in RESTORED}

        def restore() -> None:
            for mapping, before in shared:
                mapping.clear()
                mapping.update(before)
            vars(self).update(own)

        return restore

    def contradiction(
        self, bindings: Sequence[Binding], knowledge: Knowledge
    ) -> ShapeError | DtypeError | None:
        """Return the error if these bindings came next; the trial leaves no trace.

        Return None if there is no known error, or after too many trials.
        """
        self.trials += 1
        if self.trials > MOST_TRIALS:
            return None
        restore = self.checkpoint()
        try:
            self.follow([*bindings, *reversed(self.pending)], knowledge.copied())
        except (ShapeError, DtypeError) as problem:
            return problem
        except (IronworksError, ImpliedBound):
            return None
        finally:
            restore()
        return None

    def binding(self, binding: Binding, knowledge: Knowledge) -> list[Binding]:
        """Annotate one binding; its prerequisites precede it and its match_casts follow."""
        if isinstance(binding.expr, Branch):
            inlined = taken_arm(self, binding, binding.expr, knowledge)
            if inlined is not None:
                return self.insert_next(inlined)
        if not binding.vars:  # a loop without results
            self.dropped += [(name, NOTHING) for name in binding.origin]
            return []
        where = min(binding.origin, default=binding.vars[0].name)
        try:
            before, expr, values = self.expr(binding, knowledge, where)
        except OnlyArm as only:
            return self.insert_next(require_arm(self, binding, only, knowledge))
        trimmed = pad_rows(self, replace(binding, expr=expr), values, knowledge)
        if trimmed:
            return self.insert_next(trimmed)
        values += (DeducedValue(Tensor()),) * (len(binding.vars) - len(values))
        vars: list[Var] = []
        casts: list[Binding] = []
        for var, value in zip(binding.vars, values, strict=False):
            bound, cast = Var(var.name, value.type), None
            if var.name not in knowledge.matched:
                bound, cast = self.symbols.settle(var, value, binding.origin)
            vars.append(knowledge.learn(bound, value.elements))
            if isinstance(expr, OpCall) and expr.op == "Equal":
                knowledge.calls[var.name] = expr
            if cast is not None:
                knowledge.learn(cast.var)
                self.scope.update(defined_by(cast.var.type))
                casts.append(cast)
        return [*before, Binding(tuple(vars), expr, binding.origin), *casts]

    def expr(self, binding: Binding, knowledge: Knowledge, where: str) -> Deduced:
        """Return the expression with annotated arguments, and its results."""
        stated = tuple(DeducedValue(v.type) for v in binding.vars)
        match binding.expr:
            case OpCall() as source:
                return self.operator(source, binding, knowledge, where)
            case Branch():
                return branch(self, binding, binding.expr, knowledge, where)
            case Loop():
                return loop(self, binding, binding.expr, knowledge, where)
            case FunctionCall():
                return call(self, binding.expr, knowledge, where)
            case Gradient():
                return gradient(self, binding.expr, knowledge, where)
            case View(arg, offset):
                return [], View(knowledge.var(arg), offset), stated
            case MatchCast(arg):
                self.scope.update(defined_by(binding.var.type))
                return [], MatchCast(knowledge.var(arg)), stated
            case LibraryCall(library, name, args, attrs):
                vars = tuple(None if a is None else knowledge.var(a) for a in args)
                return [], LibraryCall(library, name, vars, attrs), stated
            case ShapeOf(dims, rank) as expr:
                row = np.array(dims, object)
                return [], expr, (DeducedValue(binding.var.type, row if rank else row.reshape(())),)
            case KernelCall() as expr:
                return [], expr, stated

    def operator(self, call: OpCall, binding: Binding, knowledge: Knowledge, where: str) -> Deduced:
        """Annotate a graph operator; values that only a run knows become run-time numbers."""
        args = tuple(None if a is None else knowledge.var(a) for a in call.args)
        count, record = len(binding.vars), RECORDS.get(call.op)
        typed_call = OpCall(call.op, args, call.attrs)
        if not all(is_known(a) for a in args):
            return [], typed_call, coarse_types(typed_call, count, self.constants, where)
        if record is None:
            return self.without_record(typed_call, count, binding, where)
        values = tuple(knowledge.values(a) for a in args)
        site = Site(call.op, where, args, dict(call.attrs), self.symbols.env, values, count)
        check_site(record, site)
        try:
            expr, results = self.annotated(record, arguments_by_value(record, site))
        except (Unprovable, UnsupportedOperator) as refused:
            return self.by_run_time(record, site, binding, typed_call, refused)
        return [], expr, results

    def by_run_time(
        self,
        record: OperatorRecord,
        site: Site,
        binding: Binding,
        call: OpCall,
        refused: Unprovable | UnsupportedOperator,
    ) -> Deduced:
        """Annotate an operator by values that the host computes during the run.

        Without a rule for that, it gets a coarser annotation or becomes a library call.
        """
        host = any(
            isinstance(a.type, Tensor) and a.type.dtype in HOST_DTYPES for a in site.present_args
        )
        if isinstance(refused, Unprovable) and refused.filled is not None and not host:
            return with_filling(self, record, arguments_by_value(record, site), binding, refused)
        strategies = [self.by_host, self.by_agreement]
        if isinstance(refused, Unprovable) and refused.pair is not None and refused.rank is None:
            strategies.reverse()
        for strategy in strategies:
            deduced = strategy(record, site, binding, refused)
            if deduced is not None:
                return deduced
        if isinstance(refused, UnsupportedOperator):
            return [], *self.library(call, site.results, refused)
        return [], call, coarse_types(call, site.results, self.constants, site.where)

    def by_host(
        self, record: OperatorRecord, site: Site, binding: Binding, refused: Exception
    ) -> Deduced | None:
        """Return the operator with numbers that the host computes, if it has a rule for that."""
        if record.run_time is not None:
            with suppress(Unprovable, UnsupportedOperator):
                with in_rule(site):
                    before, symbolic = at_run_time(self, site, record.run_time, binding)
                return before, *self.annotated(RECORDS[symbolic.op], symbolic)
        return None

    def by_agreement(
        self, record: OperatorRecord, site: Site, binding: Binding, refused: Exception
    ) -> Deduced | None:
        """Return the operator behind match_casts, if only equal extents are missing."""
        if isinstance(refused, Unprovable) and self.is_assumed(refused, binding):
            resolved = arguments_by_value(record, site)
            return with_agreement(self, record, resolved, binding, refused)
        return None

    def is_assumed(self, refused: Unprovable, binding: Binding) -> bool:
        """Return True unless extents are equal only for a rank that no reader relies on."""
        readers = self.readers.get(binding.vars[0].name, ())
        return refused.rank is None or any(_relies_on(r, refused.rank) for r in readers)

    def without_record(self, call: OpCall, count: int, binding: Binding, where: str) -> Deduced:
        """Annotate an operator that only a library has; of constants it is folded."""
        results = library_types(call, count, self.constants, where)
        unknown = any(isinstance(f.type, Tensor) and f.type.shape is None for f in results)
        if unknown and constant_results(call, binding, self.constants):
            return [], call, tuple(DeducedValue(self.constants[v.name].type) for v in binding.vars)
        return [], call, results

    def library(
        self, call: OpCall, results: int, refused: UnsupportedOperator
    ) -> tuple[Expr, tuple[DeducedValue, ...]]:
        """Return a library call for the refused form, if ONNX infers its annotations."""
        version = ("opset", onnx.defs.onnx_opset_version())
        plain = OpCall(call.op, call.args, (*call.attrs, version))
        try:
            inferred = library_types(plain, results, self.constants, refused.where)
        except UnsupportedOperator:
            raise refused from None
        if not all(isinstance(d, int) for a in call.args if a for d in a.tensor.dims):
            inferred = tuple(map(without_dims, inferred))  # ONNX's rules see no symbols as we do
        return last_resort(call), inferred

    def annotated(
        self, record: OperatorRecord, site: Site
    ) -> tuple[Expr, tuple[DeducedValue, ...]]:
        """Apply a record's rules to a site; raise Unprovable if they cannot decide."""
        call = OpCall(site.op, site.args, tuple(site.attrs.items()))
        if any(site.has(p) for p in record.by_value):
            raise Unprovable("it depends on values of the run")
        elements: tuple[Values | None, ...] = ()
        with in_rule(site):
            types = record.deduce(site)
            for type in types:
                _check_extents(site, type)
            small = all(t.dtype in ("int64", "int32", "bool") for t in types)
            if record.fold is not None and small and _is_small(types):
                elements = record.fold(site)
        types = tuple(_settled(type, site.env) for type in types)
        padded = (*elements, *(None,) * (len(types) - len(elements)))
        return call, tuple(DeducedValue(t, e) for t, e in zip(types, padded))


def _settled(type: Tensor, env: ShapeEnv) -> Tensor:
    """Replace dims that bounds leave one value by that number."""
    if type.shape is None or all(isinstance(d, int) for d in type.shape):
        return type
    bounds = [(d, env.bounds(d)) for d in type.shape]
    return replace(type, shape=tuple(low if low == high else d for d, (low, high) in bounds))


def _readers(bindings: Iterable[Binding]) -> dict[str, list[OpCall]]:
    """Return the operators that read each value."""
    readers: dict[str, list[OpCall]] = {}
    for binding in bindings:
        if isinstance(binding.expr, OpCall):
            for var in binding.reads:
                readers.setdefault(var.name, []).append(binding.expr)
    return readers


def _relies_on(call: OpCall, rank: int) -> bool:
    """Return True if an attribute of an operator names an axis that fewer dims do not have."""
    axis, perm = call.attr("axis"), call.attr("perm")
    if isinstance(perm, tuple):
        return len(perm) >= rank
    return isinstance(axis, int) and not 1 - rank <= axis < rank - 1


def _only_matched(function: Function) -> frozenset[str]:
    """Return the values that only the program's own match_casts read."""
    matched = {b.expr.arg.name for b in function.body if isinstance(b.expr, MatchCast)}
    if matched:
        others = (b for b in function.body if not isinstance(b.expr, MatchCast))
        matched -= {v.name for b in others for v in b.reads}
        matched -= {v.name for v in function.outputs}
    return frozenset(matched)


def _check_extents(site: Site, type: Annotation) -> None:
    """Raise ShapeError if a result has too many, negative or too large dims."""
    dims = type.shape if isinstance(type, Tensor) else None
    if dims is None:
        return
    numbers = [d for d in dims if isinstance(d, int)]
    if len(dims) > MOST_DIMS:
        site.fail(f"has a result of rank {len(dims)}; at most {MOST_DIMS} have kernels")
    if any(d < 0 for d in numbers) or prod(d for d in numbers if d) >= MOST_ELEMENTS:
        site.fail(f"has a result of the impossible shape {_text(type)}")


def _is_small(types: tuple[Tensor, ...]) -> bool:
    is_few = all(isinstance(t.elements, int) and t.elements <= 64 for t in types)
    return is_few and all(d <= 64 for t in types for d in t.dims if isinstance(d, int))


def _text(type: Annotation) -> str:
    if isinstance(type, Tensor) and type.is_known:
        return f"{type.dtype}[{', '.join(map(str, type.dims))}]"
    return "unknown"
