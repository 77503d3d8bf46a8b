"""Embedding of an imported program into one that is being traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.coarse import KnownDims
from explorer.frontends.tracing.emit import bind
from explorer.frontends.tracing.frames import current_frame
from explorer.frontends.tracing.recorder import Recorder
from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, Loop, Var
from explorer.ir.kernels.canonical import with_symbols
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import symbol
from explorer.ir.types import Tensor
from explorer.passes.simplify.substitution import with_reads


def embed_program(program: Program, args: Sequence[TracedArray], name: str) -> list[TracedArray]:
    """Call a program as a function of the traced program and return its results.

    Types are inferred, and parameters have no symbols. Values, functions and runtime symbols get
    fresh names. Source operators get names that begin with `name`.
    """
    frame = current_frame()
    recorder = frame.recorder
    program = _freshen_symbols(program, recorder)
    values: dict[str, Var] = {}
    for constant, value in program.constants.items():
        new = Var(recorder.fresh(constant), value.type)
        recorder.constants[new.name] = value
        values[constant] = new
    names = {f.name: recorder.fresh(f"{name}.{f.name}") for f in program.functions}
    sources = {s.name: f"{name}: {s.name}" for s in program.sources}
    present = {s.name for s in recorder.sources}
    recorder.sources += [
        replace(s, name=sources[s.name]) for s in program.sources if sources[s.name] not in present
    ]
    for f in program.functions:
        recorder.functions.append(_rename_function(f, recorder, values, names, sources))
    call = FunctionCall(names[program.main.name], tuple(frame.own(a.value, a.home) for a in args))
    types, dims = zip(*map(_caller_type, program.main.outputs), strict=True)
    return bind(frame, call, types, name, dims)


def _caller_type(output: Var) -> tuple[Tensor, KnownDims]:
    """Return a result's type and dims in the caller, without the callee's symbols."""
    kind = output.tensor
    dims = tuple(d if isinstance(d, int) else None for d in kind.dims)
    return (kind if None not in dims else Tensor(None, kind.dtype, len(dims))), dims


def _freshen_symbols(program: Program, recorder: Recorder) -> Program:
    """Replace the program's symbols by fresh ones of the traced program, with the same bounds."""
    own = {symbol(s.name): recorder.symbol(s.name, s.low, s.high) for s in program.env.symbols}
    return replace(program, functions=with_symbols(program.functions, own)) if own else program


def _rename_function(
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
        expr = _rename_callees(with_reads(b.expr, values), names)
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


def _rename_callees(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Rename the functions that an expression calls."""
    match expr:
        case FunctionCall() | Gradient():
            return replace(expr, function=names[expr.function])
        case Branch():
            return replace(expr, then=names[expr.then], orelse=names[expr.orelse])
        case Loop():
            return replace(expr, body=names[expr.body])
    return expr
