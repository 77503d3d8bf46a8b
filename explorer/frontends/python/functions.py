"""Functions called by a traced program, and imported programs called as functions.

A function sees only its own parameters and may be recursive.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import Any, overload

from explorer.errors import DtypeError, IronworksError, ShapeError, TraceError
from explorer.frontends.python.syntax.stage_function import stage_function
from explorer.frontends.python.tracing.annotations import declared_inputs
from explorer.frontends.python.tracing.array import TracedArray
from explorer.frontends.python.tracing.bodies import own_results
from explorer.frontends.python.tracing.emit import (
    KnownDims,
    bind,
    converted,
    emit_match_cast,
    is_traced,
    traced,
)
from explorer.frontends.python.tracing.frames import (
    FunctionFrame,
    Recorder,
    attributed_to,
    attributed_to_call,
    calling_line,
    current_frame,
    current_source,
    tracing_into,
)
from explorer.frontends.python.tracing.operators import PART
from explorer.frontends.python.tracing.structure import Structure, flatten, rebuild
from explorer.ir import types
from explorer.ir.annotations import Match, derive_call, erase, instantiate, match, symbols_in
from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, Loop, Var
from explorer.ir.dims import Dim, symbol
from explorer.ir.kernels.canonical import with_symbols
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Annotation, Tensor, TupleType
from explorer.transforms.simplify.substitution import with_reads

ADVICE = {  # for an argument that does not fit its declaration
    ShapeError: 'a name for an extent that changes from call to call: tensor("float32", "n")',
    DtypeError: "x.astype(...) in the call",
}


@dataclass
class Signature:
    """A function's name in the program, its parameters, and its results as far as known."""

    name: str
    names: tuple[str, ...]
    params: tuple[Annotation, ...]
    symbols: dict[str, Dim]
    results: tuple[Tensor, ...] | None = None
    structure: Structure | None = None


class IsolatedFunction:
    """A function over arrays with a declared signature; on arrays it runs eagerly."""

    def __init__(
        self, run: Callable[..., Any], inputs: Mapping[str, Any], result: Any = None
    ) -> None:
        """Wrap a function; `inputs` and `result` annotate what its signature does not."""
        self.run, self.inputs, self.result = run, inputs, result
        update_wrapper(self, run)

    def __repr__(self) -> str:
        """Return the function's name."""
        return f"<explorer.function {self.run.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on arrays, or emit a call of it in a trace."""
        if not (is_traced(args) or is_traced(kwargs)):
            return self.run(*args, **kwargs)
        bound = inspect.signature(self.run).bind(*args, **kwargs)
        bound.apply_defaults()
        with attributed_to_call(self.run.__name__):
            return self._call(list(bound.arguments.values()))

    def _call(self, args: list[Any]) -> Any:
        frame = current_frame()
        signature = self._signature(frame.recorder)
        if signature.results is None or signature.structure is None:
            raise TraceError(
                f"{calling_line()}: {self.run.__name__!r} calls itself, so its result must be "
                "declared",
                where=calling_line(),
                try_='@explorer.function(result=explorer.tensor("float32", "n"))',
            )
        arguments = [_fit_to(a, p) for a, p in zip(args, signature.params, strict=True)]
        result = TupleType(tuple(signature.results))
        callee = types.Callable(signature.params, result)
        try:
            derived = derive_call(
                callee,
                tuple(g.type for g in arguments),
                frame.recorder.env,
                callee=self.run.__name__,
                names=signature.names,
            )
        except IronworksError as error:
            raise type(error)(
                f"{calling_line()}: {error.sentence}",
                where=error.where,
                expected=error.expected,
                actual=error.actual,
                try_=error.try_ or ADVICE.get(type(error), ""),
            ) from None
        assert isinstance(derived.result, TupleType)
        call = FunctionCall(signature.name, tuple(frame.own(g.value, g.home) for g in arguments))
        results = bind(frame, call, derived.result.items, self.run.__name__)
        return rebuild(signature.structure, results)

    def _signature(self, recorder: Recorder) -> Signature:
        cached = recorder.called.get(id(self))
        if isinstance(cached, Signature):
            return cached
        name = self.run.__name__
        declared = declared_inputs(self.run, self.inputs)
        for parameter, annotation in declared.items():
            if isinstance(annotation, Tensor) and annotation.dtype in PART:
                raise DtypeError(
                    f"the parameter {parameter!r} of {name} is {annotation}, and explorer.function "
                    "takes real arrays",
                    where=parameter,
                    try_=f"its real and imaginary parts, both {PART[annotation.dtype]}",
                )
        symbols = {
            s: recorder.symbol(s)
            for s in dict.fromkeys(s for t in declared.values() for s in sorted(symbols_in(t)))
        }
        params = tuple(instantiate(t, symbols) for t in declared.values())
        signature = Signature(recorder.fresh(name), tuple(declared), params, symbols)
        if self.result is not None:
            leaves, signature.structure = flatten(self.result)
            signature.results = tuple(_declared_type(r, symbols, name) for r in leaves)
        recorder.called[id(self)] = signature
        self._write(recorder, signature)
        return signature

    def _write(self, recorder: Recorder, signature: Signature) -> None:
        """Trace the body as a function of the program."""
        frame, source = FunctionFrame(recorder, signature.name), current_source()
        frame.symbols.update(signature.symbols)
        params = tuple(
            recorder.value(f"{signature.name}.{n}", t)
            for n, t in zip(signature.names, signature.params, strict=True)
        )
        with tracing_into(frame):
            leaves, structure = flatten(
                stage_function(self.run)(*(TracedArray(p, frame) for p in params))
            )
            with attributed_to(source):
                results = self._checked(frame, leaves, structure, signature)
                outputs = own_results(frame, results)
        frame.closed = True
        if signature.results is None:
            defined = [str(s) for s in signature.symbols.values()]
            signature.results = tuple(_tensor(erase(r.type, defined)) for r in results)
            signature.structure = structure
        recorder.functions.append(Function(signature.name, params, tuple(frame.body), outputs))

    def _checked(
        self, frame: FunctionFrame, leaves: list[Any], structure: Structure, signature: Signature
    ) -> list[TracedArray]:
        """Return the results as declared; what is not proved is checked at run time."""
        if signature.results is None:
            return [traced(leaf) for leaf in leaves]
        name = self.run.__name__
        if structure != signature.structure:
            raise TraceError(
                f"{name} was declared to return {signature.structure} and returns {structure}"
            )
        results: list[TracedArray] = []
        for leaf, declared in zip(leaves, signature.results, strict=True):
            value = _fit_to(leaf, declared)
            level, why = match(declared, value.type, frame.recorder.env)
            if level <= Match.COARSE:
                raise TraceError(
                    f"{name} was declared to return {declared} and returns {value.type}: {why}",
                    where=name,
                    expected=declared,
                    actual=value.type,
                )
            if level == Match.CHECKED and declared.shape is not None:
                value = TracedArray(
                    emit_match_cast(frame, frame.own(value.value, value.home), declared, "result"),
                    frame,
                )
            results.append(value)
        return results


def _declared_type(result: Any, symbols: Mapping[str, Dim], name: str) -> Tensor:
    """Return a result's declared type; dims that no parameter defines stay free in each call."""
    if not isinstance(result, Tensor) or result.dtype is None:
        raise TraceError(
            f"the result of {name} is declared as {result!r}; it must be an explorer.tensor",
            where=name,
        )
    return _tensor(instantiate(result, symbols))


def _tensor(annotation: Annotation) -> Tensor:
    match annotation:
        case Tensor():
            return annotation
    raise TypeError(f"{type(annotation).__name__} is not a tensor")


def _fit_to(value: Any, declared: Annotation) -> TracedArray:
    """Return the value; a weakly typed number takes the declared dtype."""
    array = traced(value)
    if array.weak and isinstance(declared, Tensor) and declared.dtype is not None:
        return converted(array, declared.dtype)
    return array


@overload
def function(run: Callable[..., Any], /) -> IsolatedFunction: ...
@overload
def function(
    *, inputs: Mapping[str, Any] | None = None, result: Any = None
) -> Callable[[Callable[..., Any]], IsolatedFunction]: ...
def function(
    run: Callable[..., Any] | None = None,
    /,
    *,
    inputs: Mapping[str, Any] | None = None,
    result: Any = None,
) -> Any:
    """Decorate a function that a traced program calls.

    It sees its parameters only, which annotations or `inputs` declare. With a declared `result` it
    may call itself.

        @explorer.function(result=explorer.tensor("float32"))
        def total(x: explorer.tensor("float32", "n")): ...
    """
    if run is not None:
        return IsolatedFunction(run, {})
    return lambda run: IsolatedFunction(run, inputs or {}, result)


# Imported programs.


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


def inline_program(program: Program, args: Sequence[TracedArray]) -> list[TracedArray]:
    """Repeat the bindings of a program of one function here, and return its results.

    Args and parameters have the same types, of the same symbols, which the results keep:
    `y = f(x)` → `y = body of f`.
    """
    frame, main = current_frame(), program.main
    recorder = frame.recorder
    assert program.functions == (main,), "it calls no functions"
    values: dict[str, Var] = {}
    for constant, value in program.constants.items():
        values[constant] = Var(recorder.fresh(constant), value.type)
        recorder.constants[values[constant].name] = value
    for parameter, arg in zip(main.params, args, strict=True):
        assert parameter.type == arg.value.type, f"{parameter} is not {arg.value}"
        values[parameter.name] = frame.own(arg.value, arg.home)
    present = {s.name for s in recorder.sources}
    recorder.sources += [s for s in program.sources if s.name not in present]
    for b in main.body:
        vars_ = tuple(recorder.value(v.name, v.type) for v in b.vars)
        frame.body.append(Binding(vars_, with_reads(b.expr, values), b.origin))
        values |= {v.name: new for v, new in zip(b.vars, vars_, strict=True)}
    return [TracedArray(values[v.name], frame) for v in main.outputs]


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
