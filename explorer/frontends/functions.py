"""Functions called by a traced program; they see only their own parameters and may be recursive."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, overload

from explorer.errors import DtypeError, IronworksError, ShapeError, TraceError
from explorer.frontends.syntax.stage_function import stage_function
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.complex_array import PART
from explorer.frontends.tracing.control.bodies import own_results
from explorer.frontends.tracing.declared import declared_inputs
from explorer.frontends.tracing.emit import bind, emit_match_cast
from explorer.frontends.tracing.frames import (
    FunctionFrame,
    attributed_to,
    attributed_to_call,
    current_frame,
    current_source,
    tracing_into,
)
from explorer.frontends.tracing.lines import calling_line
from explorer.frontends.tracing.promote import converted, is_traced, traced
from explorer.frontends.tracing.recorder import Recorder
from explorer.frontends.tracing.structure import Structure, flatten, rebuild
from explorer.ir import types
from explorer.ir.annotations import derive_call
from explorer.ir.calls import FunctionCall
from explorer.ir.lattice import Match, erase, instantiate, match, symbols_in
from explorer.ir.program import Function
from explorer.ir.shapes.dims import Dim
from explorer.ir.types import Annotation, Tensor, TupleType

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
