"""Forward deduction: every value gets an annotation; arithmetic on shapes leaves the program.

n = Shape(x); m = Concat(n, [-1]); y = Reshape(x, m)
->  y: float32[batch, 64] = Reshape(x, shape=(batch, 64))

It never guesses and never fails for want of knowledge: what only a run knows gets a coarser
annotation, and a match_cast that names its dims.
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
from explorer.ir.dtypes import HOST_DTYPES
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.stage import Stage
from explorer.ir.types import Annotation, Tensor
from explorer.ops import RECORDS
from explorer.ops.arithmetic.broadcast import ImpliedBound, Unprovable
from explorer.ops.record import OperatorRecord, arguments_by_value
from explorer.ops.rules import check_site, in_rule
from explorer.ops.run_time.site import MOST_DIMS
from explorer.ops.site import Site, Values
from explorer.passes.pipeline.registry import compiler_pass
from explorer.relax.deduction.agreement import with_agreement, with_filling
from explorer.relax.deduction.bounded_rows import bounded
from explorer.relax.deduction.control_flow import branch, call, gradient, loop
from explorer.relax.deduction.deducing import Deduced, Known
from explorer.relax.deduction.fresh import Found, Symbols
from explorer.relax.deduction.hints_from_use import hints_from_use
from explorer.relax.deduction.implied_bounds import imply_bounds
from explorer.relax.deduction.known import Knowledge, is_known
from explorer.relax.deduction.known_branch import OnlySide, only_side, taken_side
from explorer.relax.deduction.library import (
    coarse_types,
    constant_results,
    last_resort,
    library_types,
    without_dims,
)
from explorer.relax.deduction.materialize import materialize
from explorer.relax.deduction.promises import promised
from explorer.relax.deduction.run_time import at_run_time

MOST_ANNOTATED_FUNCTIONS = 1 << 10  # beside eight for each that is given: a bound on time, chosen
MOST_TRIALS = 16  # of the sides of branches with all that follows: a bound on time, chosen
MOST_ELEMENTS = 1 << 60  # their bytes are numbers of 64 bits
NOTHING = "it gives nothing"
RESTORED = ("symbols", "dropped", "scope", "readers", "annotated_functions", "open", "rest")


@compiler_pass("deduce", paper="Relax, ASPLOS 2025, section 3.2: shape annotation deduction")
def deduce(program: Program) -> Program:
    """Annotate every value, forward only; what nothing needs is dropped, with its reason."""
    limits: dict[str, int] = {}  # of symbols that deduction makes, which a retry names alike
    while True:
        try:
            found = Deduction(program, limits).program()
            imply_bounds(found)
            return replace(found, env=hints_from_use(found))
        except ImpliedBound as bound:  # each makes a bound tighter, so this ends
            if any(s.name == bound.name for s in program.env.symbols):
                program = replace(program, env=_tightened(program.env, bound))
            else:
                limits[bound.name] = _limit(limits, bound)


def _tightened(env: ShapeEnv, bound: ImpliedBound) -> ShapeEnv:
    """The environment in which the model has a meaning; BoundError if there is none."""
    known = env.of(bound.name)
    low = max(known.low, bound.low)
    if low > bound.high:
        raise BoundError(
            f"the model takes {bound.name} up to {bound.high}; it was bounded from {known.low} on",
            where=bound.name,
        )
    tight = replace(known, low=low, high=bound.high, hint=min(max(low, known.hint), bound.high))
    return ShapeEnv(tuple(tight if s.name == bound.name else s for s in env.symbols))


def _limit(limits: Mapping[str, int], bound: ImpliedBound) -> int:
    """The greatest value of a symbol that deduction makes; BoundError if it can have none."""
    if bound.high < 0 or limits.get(bound.name, bound.high + 1) <= bound.high:
        raise BoundError(
            f"the model has a meaning only where {bound.name} is at most {bound.high}",
            where=bound.name,
        )
    return bound.high


class Deduction:
    """One program being annotated: functions done, new constants, and what was dropped.

    `scope` are the symbols that the function being annotated sees.
    """

    def __init__(self, program: Program, limits: Mapping[str, int] | None = None) -> None:
        self.source = program
        self.symbols = Symbols(program.env, limits)
        self.constants: dict[str, Constant] = dict(program.constants)
        self.given = {f.name: f for f in program.functions}
        self.functions: dict[str, Function] = {}
        self.dropped: list[tuple[str, str]] = list(program.dropped)
        self.scope: set[str] = set()
        self.readers: dict[str, list[OpCall]] = {}  # of the values of the function, by name
        self.annotated_functions = 0  # a loop's body again until its state is wide enough
        self.open: set[str] = set()  # closed signatures whose bodies are being annotated
        self.rest: list[Binding] = []  # of the function being annotated, the last one first
        self.trials = 0

    def program(self) -> Program:
        """The program with every function that is still reached."""
        main = self.source.main
        done = self.function(main, [(p, None) for p in main.params])
        done = replace(done, outputs=promised(main, done, self.symbols.env))
        others = tuple(f for n, f in self.functions.items() if n != main.name)
        order = {f.name: i for i, f in enumerate(self.source.functions)}
        kept = {o for f in (done, *others) for b in f.body for o in b.origin}
        self.dropped = [(name, why) for name, why in self.dropped if name not in kept]
        others = tuple(sorted(others, key=lambda f: order.get(f.name, len(order))))
        return replace(
            self.source,
            functions=(done, *others),
            constants=self.constants,
            env=self.symbols.env,
            dropped=tuple(dict(self.dropped).items()),
            stage=max(self.source.stage, Stage.TYPED),
        )

    def function(self, function: Function, args: list[Known], name: str = "") -> Function:
        """A function annotated for these arguments; it sees the symbols in scope."""
        self.annotated_functions += 1
        if self.annotated_functions > MOST_ANNOTATED_FUNCTIONS + 8 * len(self.given):
            raise TooLarge(
                f"{function.name}: the shapes of loops in loops change too often to be followed",
                where=function.name,
                try_="loops that nest less deep, or whose states keep their shapes",
            )
        outside, self.scope = self.scope, set(self.scope)
        known = Knowledge(self.constants)
        known.matched = _only_matched(function)
        before, self.readers = self.readers, _readers(function.body)
        params = tuple(
            known.learn(Var(p.name, a.type), v)
            for p, (a, v) in zip(function.params, args, strict=True)
        )
        for p in params:
            self.scope.update(defined_by(p.type))
        body = self.follow(function.body, known)
        outputs = tuple(known.var(v) for v in function.outputs)
        name = name or function.name
        done = replace(function, name=name, params=params, body=tuple(body), outputs=outputs)
        done = materialize(done, known, self.constants, self.dropped)
        self.functions[name] = done
        self.scope, self.readers = outside, before
        return done

    def follow(self, bindings: Sequence[Binding], known: Knowledge) -> list[Binding]:
        """Annotate bindings in order; what stands in the place of one comes before the rest."""
        outside, self.rest = self.rest, list(reversed(bindings))
        body: list[Binding] = []
        while self.rest:
            body += self.binding(self.rest.pop(), known)
        self.rest = outside
        return body

    def instead(self, bindings: list[Binding]) -> list[Binding]:
        """Let bindings come next, in the place of one."""
        self.readers = self.readers | _readers(bindings)
        self.rest += reversed(bindings)
        return []

    def saved(self) -> Callable[[], None]:
        """Return what brings all that is known of the program back to where it is now."""
        shared: list[tuple[dict[str, Any], dict[str, Any]]]
        shared = [(held, dict(held)) for held in (self.constants, self.given, self.functions)]
        own = {n: copy(v) for n, v in vars(self).items() if n in RESTORED}

        def restore() -> None:
            for held, before in shared:
                held.clear()
                held.update(before)
            vars(self).update(own)

        return restore

    def contradiction(
        self, bindings: Sequence[Binding], known: Knowledge
    ) -> ShapeError | DtypeError | None:
        """Return what is wrong if these bindings came next, before the rest; nothing of it stays.

        None where nothing is known to be wrong, or too much was tried already.
        """
        self.trials += 1
        if self.trials > MOST_TRIALS:
            return None
        restore = self.saved()
        try:
            self.follow([*bindings, *reversed(self.rest)], known.copied())
        except (ShapeError, DtypeError) as problem:
            return problem
        except (IronworksError, ImpliedBound):
            return None
        finally:
            restore()
        return None

    def binding(self, binding: Binding, known: Knowledge) -> list[Binding]:
        """One binding annotated, after what it needs and before the match_casts it leads to."""
        if isinstance(binding.expr, Branch):
            inlined = taken_side(self, binding, binding.expr, known)
            if inlined is not None:
                return self.instead(inlined)
        if not binding.vars:  # a loop that gives nothing
            self.dropped += [(name, NOTHING) for name in binding.origin]
            return []
        where = min(binding.origin, default=binding.vars[0].name)
        try:
            before, expr, found = self.expr(binding, known, where)
        except OnlySide as only:
            return self.instead(only_side(self, binding, only, known))
        trimmed = bounded(self, replace(binding, expr=expr), found, known)
        if trimmed:
            return self.instead(trimmed)
        found += (Found(Tensor()),) * (len(binding.vars) - len(found))
        vars: list[Var] = []
        casts: list[Binding] = []
        for var, what in zip(binding.vars, found, strict=False):
            bound, cast = Var(var.name, what.type), None
            if var.name not in known.matched:
                bound, cast = self.symbols.settle(var, what, binding.origin)
            vars.append(known.learn(bound, what.elements))
            if isinstance(expr, OpCall) and expr.op == "Equal":
                known.calls[var.name] = expr
            if cast is not None:
                known.learn(cast.var)
                self.scope.update(defined_by(cast.var.type))
                casts.append(cast)
        return [*before, Binding(tuple(vars), expr, binding.origin), *casts]

    def expr(self, binding: Binding, known: Knowledge, where: str) -> Deduced:
        """The expression with annotated arguments, and what it gives."""
        stated = tuple(Found(v.type) for v in binding.vars)
        match binding.expr:
            case OpCall() as given:
                return self.operator(given, binding, known, where)
            case Branch():
                return branch(self, binding, binding.expr, known, where)
            case Loop():
                return loop(self, binding, binding.expr, known, where)
            case FunctionCall():
                return call(self, binding.expr, known, where)
            case Gradient():
                return gradient(self, binding.expr, known, where)
            case View(arg, offset):
                return [], View(known.var(arg), offset), stated
            case MatchCast(arg):
                self.scope.update(defined_by(binding.var.type))
                return [], MatchCast(known.var(arg)), stated
            case LibraryCall(library, name, args, attrs):
                vars = tuple(None if a is None else known.var(a) for a in args)
                return [], LibraryCall(library, name, vars, attrs), stated
            case ShapeOf(dims, rank) as expr:
                row = np.array(dims, object)
                return [], expr, (Found(binding.var.type, row if rank else row.reshape(())),)
            case KernelCall() as expr:
                return [], expr, stated

    def operator(self, call: OpCall, binding: Binding, known: Knowledge, where: str) -> Deduced:
        """A graph operator; where its record needs values that only a run knows, in that form."""
        args = tuple(None if a is None else known.var(a) for a in call.args)
        count, record = len(binding.vars), RECORDS.get(call.op)
        given = OpCall(call.op, args, call.attrs)
        if not all(is_known(a) for a in args):
            return [], given, coarse_types(given, count, self.constants, where)
        if record is None:
            return self.without_record(given, count, binding, where)
        values = tuple(known.values(a) for a in args)
        site = Site(call.op, where, args, dict(call.attrs), self.symbols.env, values, count)
        check_site(record, site)
        try:
            expr, found = self.annotated(record, arguments_by_value(record, site))
        except (Unprovable, UnsupportedOperator) as refused:
            return self.by_run_time(record, site, binding, given, refused)
        return [], expr, found

    def by_run_time(
        self,
        record: OperatorRecord,
        site: Site,
        binding: Binding,
        call: OpCall,
        refused: Unprovable | UnsupportedOperator,
    ) -> Deduced:
        """What the host can find when the program runs; without a rule a coarser annotation, or a
        library call.
        """
        host = any(isinstance(a.type, Tensor) and a.type.dtype in HOST_DTYPES for a in site.given)
        if isinstance(refused, Unprovable) and refused.filled is not None and not host:
            return with_filling(self, record, arguments_by_value(record, site), binding, refused)
        ways = [self.by_host, self.by_agreement]
        if isinstance(refused, Unprovable) and refused.pair is not None and refused.rank is None:
            ways.reverse()
        for way in ways:
            deduced = way(record, site, binding, refused)
            if deduced is not None:
                return deduced
        if isinstance(refused, UnsupportedOperator):
            return [], *self.library(call, site.results, refused)
        return [], call, coarse_types(call, site.results, self.constants, site.where)

    def by_host(
        self, record: OperatorRecord, site: Site, binding: Binding, refused: Exception
    ) -> Deduced | None:
        """The operator with numbers that the host finds, where it has a rule for that."""
        if record.run_time is not None:
            with suppress(Unprovable, UnsupportedOperator):
                with in_rule(site):
                    before, symbolic = at_run_time(self, site, record.run_time, binding)
                return before, *self.annotated(RECORDS[symbolic.op], symbolic)
        return None

    def by_agreement(
        self, record: OperatorRecord, site: Site, binding: Binding, refused: Exception
    ) -> Deduced | None:
        """The operator behind match_casts, where extents only have to be equal."""
        if isinstance(refused, Unprovable) and self.is_assumed(refused, binding):
            given = arguments_by_value(record, site)
            return with_agreement(self, record, given, binding, refused)
        return None

    def is_assumed(self, refused: Unprovable, binding: Binding) -> bool:
        """Return True unless extents are equal only for a rank that no reader relies on."""
        readers = self.readers.get(binding.vars[0].name, ())
        return refused.rank is None or any(_relies_on(r, refused.rank) for r in readers)

    def without_record(self, call: OpCall, count: int, binding: Binding, where: str) -> Deduced:
        """An operator that only a library has; of constants it is one."""
        found = library_types(call, count, self.constants, where)
        unknown = any(isinstance(f.type, Tensor) and f.type.shape is None for f in found)
        if unknown and constant_results(call, binding, self.constants):
            return [], call, tuple(Found(self.constants[v.name].type) for v in binding.vars)
        return [], call, found

    def library(
        self, call: OpCall, results: int, refused: UnsupportedOperator
    ) -> tuple[Expr, tuple[Found, ...]]:
        """The form that a record refuses as a library call, if ONNX knows its annotations."""
        version = ("opset", onnx.defs.onnx_opset_version())
        plain = OpCall(call.op, call.args, (*call.attrs, version))
        try:
            found = library_types(plain, results, self.constants, refused.where)
        except UnsupportedOperator:
            raise refused from None
        if not all(isinstance(d, int) for a in call.args if a for d in a.tensor.dims):
            found = tuple(map(without_dims, found))  # ONNX's rules see no symbols as we do
        return last_resort(call), found

    def annotated(self, record: OperatorRecord, site: Site) -> tuple[Expr, tuple[Found, ...]]:
        """What a record's rules say of a site; Unprovable where they cannot know."""
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
        return call, tuple(Found(t, e) for t, e in zip(types, padded))


def _settled(type: Tensor, env: ShapeEnv) -> Tensor:
    """The annotation with numbers for the dims that bounds leave one value."""
    if type.shape is None or all(isinstance(d, int) for d in type.shape):
        return type
    bounds = [(d, env.bounds(d)) for d in type.shape]
    return replace(type, shape=tuple(low if low == high else d for d, (low, high) in bounds))


def _readers(bindings: Iterable[Binding]) -> dict[str, list[OpCall]]:
    """The operators that read each value."""
    found: dict[str, list[OpCall]] = {}
    for binding in bindings:
        if isinstance(binding.expr, OpCall):
            for var in binding.reads:
                found.setdefault(var.name, []).append(binding.expr)
    return found


def _relies_on(call: OpCall, rank: int) -> bool:
    """Return True if an attribute of an operator names an axis that fewer dims do not have."""
    axis, perm = call.attr("axis"), call.attr("perm")
    if isinstance(perm, tuple):
        return len(perm) >= rank
    return isinstance(axis, int) and not 1 - rank <= axis < rank - 1


def _only_matched(function: Function) -> frozenset[str]:
    """The values that the program itself gives to match_casts, and to nothing else."""
    found = {b.expr.arg.name for b in function.body if isinstance(b.expr, MatchCast)}
    if found:
        others = (b for b in function.body if not isinstance(b.expr, MatchCast))
        found -= {v.name for b in others for v in b.reads}
        found -= {v.name for v in function.outputs}
    return frozenset(found)


def _check_extents(site: Site, type: Annotation) -> None:
    """ShapeError unless a result's dims can be extents: neither too many, nor too large for any
    machine, nor negative.
    """
    dims = type.shape if isinstance(type, Tensor) else None
    if dims is None:
        return
    whole = [d for d in dims if isinstance(d, int)]
    if len(dims) > MOST_DIMS:
        site.fail(f"gives a tensor of rank {len(dims)}; at most {MOST_DIMS} have kernels")
    if any(d < 0 for d in whole) or prod(d for d in whole if d) >= MOST_ELEMENTS:
        site.fail(f"gives a tensor of the impossible shape {_text(type)}")


def _is_small(types: tuple[Tensor, ...]) -> bool:
    whole = all(isinstance(t.elements, int) and t.elements <= 64 for t in types)
    return whole and all(d <= 64 for t in types for d in t.dims if isinstance(d, int))


def _text(type: Annotation) -> str:
    if isinstance(type, Tensor) and type.is_known:
        return f"{type.dtype}[{', '.join(map(str, type.dims))}]"
    return "unknown"
