"""Forward deduction: every value gets an annotation; arithmetic on shapes leaves the program.

n = Shape(x); m = Concat(n, [-1]); y = Reshape(x, m)
->  y: float32[batch, 64] = Reshape(x, shape=(batch, 64))
"""

from __future__ import annotations

from dataclasses import replace

import onnx

from explorer.errors import BoundError, DtypeError, ShapeError, UnsupportedOperator
from explorer.ir.calls import (
    Branch,
    Expr,
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
from explorer.ir.dims import ShapeEnv
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.types import Annotation, Tensor
from explorer.ops import RECORDS
from explorer.ops.broadcast import ImpliedBound, Unprovable
from explorer.ops.dtypes import check_dtypes
from explorer.ops.record import OperatorRecord, Site, Values, arguments_by_value
from explorer.passes.registry import compiler_pass
from explorer.relax.known import Knowledge, is_known
from explorer.relax.library import library_types
from explorer.relax.materialize import materialize

Known = tuple[Var, "Values | None"]


@compiler_pass("deduce", paper="Relax, ASPLOS 2025, section 3.2: shape annotation deduction")
def deduce(program: Program) -> Program:
    """Annotate every value, forward only; what nothing needs is dropped, with its reason."""
    while True:
        try:
            return _Deduction(program).program()
        except ImpliedBound as bound:  # each makes a bound tighter, so this ends
            program = replace(program, env=_tightened(program.env, bound))


def _tightened(env: ShapeEnv, bound: ImpliedBound) -> ShapeEnv:
    """The environment in which the model has a meaning; BoundError if there is none."""
    known = env.of(bound.name)
    if known.low > bound.high:
        raise BoundError(
            f"the model takes {bound.name} up to {bound.high}; it was bounded from {known.low} on",
            where=bound.name,
        )
    tight = replace(known, high=bound.high, hint=min(known.hint, bound.high))
    return ShapeEnv(tuple(tight if s.name == bound.name else s for s in env.symbols))


class _Deduction:
    """One program being annotated: functions done, new constants, and what was dropped."""

    def __init__(self, program: Program) -> None:
        self.source = program
        self.constants: dict[str, Constant] = dict(program.constants)
        self.functions: dict[str, Function] = {}
        self.dropped: list[tuple[str, str]] = list(program.dropped)

    def program(self) -> Program:
        main = self.source.main
        done = self.function(main, [(p, None) for p in main.params])
        others = tuple(
            self.functions[f.name] for f in self.source.functions[1:] if f.name in self.functions
        )
        dropped = tuple(dict(self.dropped).items())
        return replace(
            self.source,
            functions=(done, *others),
            constants=self.constants,
            dropped=dropped,
            stage=max(self.source.stage, Stage.TYPED),
        )

    def function(self, function: Function, args: list[Known]) -> Function:
        """A function annotated for these arguments."""
        known = Knowledge(self.constants)
        params = tuple(
            known.learn(Var(p.name, a.type), v)
            for p, (a, v) in zip(function.params, args, strict=True)
        )
        body: list[Binding] = []
        for binding in function.body:
            body.append(self.binding(binding, known))
        outputs = tuple(known.var(v) for v in function.outputs)
        done = replace(function, params=params, body=tuple(body), outputs=outputs)
        done = materialize(done, known, self.constants, self.dropped)
        self.functions[function.name] = done
        return done

    def binding(self, binding: Binding, known: Knowledge) -> Binding:
        """One binding annotated, and what it teaches."""
        where = min(binding.origin, default=binding.vars[0].name)
        expr, types, elements = self.expr(binding, known, where)
        types = types + (Tensor(),) * (len(binding.vars) - len(types))
        found = tuple(
            known.learn(Var(v.name, t), e)
            for v, t, e in zip(binding.vars, types, elements + (None,) * len(types), strict=False)
        )
        return Binding(found, expr, binding.origin)

    def expr(
        self, binding: Binding, known: Knowledge, where: str
    ) -> tuple[Expr, tuple[Annotation, ...], tuple[Values | None, ...]]:
        stated = tuple(v.type for v in binding.vars)
        match binding.expr:
            case OpCall() as call:
                return self.operator(call, binding, known, where)
            case Branch(cond, then, orelse, args):
                branch = Branch(known.var(cond), then, orelse, tuple(known.var(a) for a in args))
                return branch, self.branch(branch, known, where), ()
            case Loop(body, trip, cond, state, args):
                loop = Loop(
                    body,
                    trip and known.var(trip),
                    cond and known.var(cond),
                    tuple(known.var(s) for s in state),
                    tuple(known.var(a) for a in args),
                )
                return loop, self.loop(loop, known, where), ()
            case FunctionCall(name, args):
                call_args = tuple(known.var(a) for a in args)
                done = self.function(
                    self.source.function(name), [(a, known.values(a)) for a in call_args]
                )
                return FunctionCall(name, call_args), tuple(v.type for v in done.outputs), ()
            case View(arg, offset):
                return View(known.var(arg), offset), stated, ()
            case MatchCast(arg):
                return MatchCast(known.var(arg)), stated, ()
            case KernelCall() | LibraryCall() | ShapeOf() as expr:
                return expr, stated, ()

    def operator(
        self, call: OpCall, binding: Binding, known: Knowledge, where: str
    ) -> tuple[Expr, tuple[Annotation, ...], tuple[Values | None, ...]]:
        args = tuple(None if a is None else known.var(a) for a in call.args)
        values = tuple(known.values(a) for a in args)
        count, record = len(binding.vars), RECORDS.get(call.op)
        if not all(is_known(a) for a in args):
            return OpCall(call.op, args, call.attrs), (Tensor(),) * count, ()
        if record is None:
            typed = OpCall(call.op, args, call.attrs)
            return typed, library_types(typed, count, self.constants, where), ()
        site = Site(call.op, where, args, dict(call.attrs), self.source.env, values, count)
        check_dtypes(site)
        try:
            return _annotated(record, arguments_by_value(record, site))
        except UnsupportedOperator as refused:
            return self.library(OpCall(call.op, args, call.attrs), count, refused)

    def library(
        self, call: OpCall, results: int, refused: UnsupportedOperator
    ) -> tuple[Expr, tuple[Annotation, ...], tuple[Values | None, ...]]:
        """The form that a record refuses as a library call, if ONNX knows its annotations."""
        version = ("opset", onnx.defs.onnx_opset_version())
        plain = OpCall(call.op, call.args, (*call.attrs, version))
        try:
            types = library_types(plain, results, self.constants, refused.where)
        except UnsupportedOperator:
            raise refused from None
        return LibraryCall("onnx", call.op, call.args, plain.attrs), types, ()

    def branch(self, branch: Branch, known: Knowledge, where: str) -> tuple[Annotation, ...]:
        """Both sides must agree on what they give."""
        _check_flag(branch.cond, "If", where)
        given = [(a, known.values(a)) for a in branch.args]
        then, orelse = (
            self.function(self.source.function(n), given) for n in (branch.then, branch.orelse)
        )
        for a, b in zip(then.outputs, orelse.outputs, strict=True):
            if a.type != b.type:
                raise UnsupportedOperator(
                    f"If at {where!r}: one branch gives {_text(a.type)} and the other "
                    f"{_text(b.type)}",
                    where=where,
                )
        return tuple(v.type for v in then.outputs)

    def loop(self, loop: Loop, known: Knowledge, where: str) -> tuple[Annotation, ...]:
        """The state keeps its annotations from one iteration to the next."""
        if loop.cond is not None:
            _check_flag(loop.cond, "Loop", where)
        counters = [
            (Var("iteration", Tensor((), "int64")), None),
            (Var("condition", Tensor((), "bool")), None),
        ]
        given: list[Known] = [
            *counters,
            *((s, None) for s in loop.state),
            *((a, known.values(a)) for a in loop.args),
        ]
        done = self.function(self.source.function(loop.body), given)
        for before, after in zip(loop.state, done.outputs[1:], strict=True):
            if before.type != after.type:
                raise UnsupportedOperator(
                    f"Loop at {where!r}: {before.name!r} is {_text(before.type)} before a step "
                    f"and {_text(after.type)} after it",
                    where=where,
                )
        return tuple(s.type for s in loop.state)


def _check_flag(cond: Var, op: str, where: str) -> None:
    """A condition is one bool."""
    known = cond.type if is_known(cond) else None
    if isinstance(known, Tensor) and (known.element != "bool" or known.elements != 1):
        raise DtypeError(
            f"{op} at {where!r}: the condition must be one bool and is {_text(known)}", where=where
        )


def _annotated(
    record: OperatorRecord, site: Site
) -> tuple[Expr, tuple[Annotation, ...], tuple[Values | None, ...]]:
    """What a record's rules say of a site; a coarser annotation where they cannot know."""
    call = OpCall(site.op, site.args, tuple(site.attrs.items()))
    if any(site.has(p) for p in record.by_value):  # depends on values of the run
        return call, (Tensor(None, site.dtype()),) * site.results, ()
    try:
        types = record.deduce(site)
    except Unprovable:
        return call, (Tensor(None, site.dtype()),) * site.results, ()
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        given = ", ".join(_text(a.type) for a in site.given)
        raise ShapeError(
            f"{site.op} at {site.where!r} does not take arguments of {given}", where=site.where
        ) from error
    small = all(t.dtype in ("int64", "int32", "bool") for t in types)
    folds = record.fold is not None and small and _is_small(types)
    return call, types, record.fold(site) if folds and record.fold else ()


def _is_small(types: tuple[Tensor, ...]) -> bool:
    return all(isinstance(t.elements, int) and t.elements <= 64 for t in types)


def _text(type: Annotation) -> str:
    if isinstance(type, Tensor) and type.is_known:
        return f"{type.dtype}[{', '.join(map(str, type.dims))}]"
    return "unknown"
