"""A program that a frontend gave as a part of one that is being traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.coarse import Known
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.recorder import Recorder
from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, Loop, Var
from explorer.ir.kernels.canonical import with_symbols
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import symbol
from explorer.ir.types import Tensor
from explorer.passes.simplify.substitution import with_reads


def embedded(program: Program, args: Sequence[TracedArray], name: str) -> list[TracedArray]:
    """What a program gives for these arguments, as a call of a function of the traced program. Its
    types are deduced, and its parameters have no symbols; its values, functions and the symbols
    that only a run knows get names of their own, its source operators those that begin with `name`.
    """
    frame = current_frame()
    recorder = frame.recorder
    program = _with_own_symbols(program, recorder)
    values: dict[str, Var] = {}
    for constant, held in program.constants.items():
        new = Var(recorder.fresh(constant), held.type)
        recorder.constants[new.name] = held
        values[constant] = new
    names = {f.name: recorder.fresh(f"{name}.{f.name}") for f in program.functions}
    sources = {s.name: f"{name}: {s.name}" for s in program.sources}
    known = {s.name for s in recorder.sources}
    recorder.sources += [
        replace(s, name=sources[s.name]) for s in program.sources if sources[s.name] not in known
    ]
    for f in program.functions:
        recorder.functions.append(_renamed(f, recorder, values, names, sources))
    call = FunctionCall(names[program.main.name], tuple(frame.own(a.value, a.home) for a in args))
    types, dims = zip(*map(_outside, program.main.outputs), strict=True)
    return bind(frame, call, types, name, dims)


def _outside(output: Var) -> tuple[Tensor, Known]:
    """The type of a result where it is called, and its dims: without the symbols of the inside."""
    kind = output.tensor
    dims = tuple(d if isinstance(d, int) else None for d in kind.dims)
    return (kind if None not in dims else Tensor(None, kind.dtype, len(dims))), dims


def _with_own_symbols(program: Program, recorder: Recorder) -> Program:
    """The program with symbols of the traced one, which are known as well as its own were."""
    own = {symbol(s.name): recorder.symbol(s.name, s.low, s.high) for s in program.env.symbols}
    return replace(program, functions=with_symbols(program.functions, own)) if own else program


def _renamed(
    function: Function,
    recorder: Recorder,
    constants: Mapping[str, Var],
    names: Mapping[str, str],
    sources: Mapping[str, str],
) -> Function:
    params = tuple(recorder.value(p.name, p.type) for p in function.params)
    values = dict(constants) | {p.name: new for p, new in zip(function.params, params, strict=True)}
    body: list[Binding] = []
    for b in function.body:
        vars_ = tuple(recorder.value(v.name, v.type) for v in b.vars)
        expr = _calling(with_reads(b.expr, values), names)
        body.append(Binding(vars_, expr, frozenset(sources.get(o, o) for o in b.origin)))
        values |= {v.name: new for v, new in zip(b.vars, vars_, strict=True)}
    outputs = tuple(values[v.name] for v in function.outputs)
    return replace(
        function,
        name=names[function.name],
        params=params,
        body=tuple(body),
        outputs=outputs,
    )


def _calling(expr: Expr, names: Mapping[str, str]) -> Expr:
    """The expression where functions have other names."""
    match expr:
        case FunctionCall() | Gradient():
            return replace(expr, function=names[expr.function])
        case Branch():
            return replace(expr, then=names[expr.then], orelse=names[expr.orelse])
        case Loop():
            return replace(expr, body=names[expr.body])
    return expr
