"""Functions that a traced program calls: they see their own parameters only, and may call
themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, overload

from explorer.errors import DtypeError, IronworksError, ShapeError, TraceError
from explorer.frontends.syntax.staged import staged
from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.complex_array import PART
from explorer.frontends.tracing.control.bodies import own_results
from explorer.frontends.tracing.declared import declared_inputs
from explorer.frontends.tracing.emit import bind, matched
from explorer.frontends.tracing.frames import (
    Frame,
    current_frame,
    current_source,
    source_of,
    under,
    writing,
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

TRY = {  # where what a call is given is not what was declared
    ShapeError: 'a name for an extent that changes from call to call: tensor("float32", "n")',
    DtypeError: "x.astype(...) in the call",
}


@dataclass
class Signature:
    """A function as a program sees it: its name there, parameters, and results as far as known."""

    name: str
    names: tuple[str, ...]
    params: tuple[Annotation, ...]
    symbols: dict[str, Dim]
    results: tuple[Tensor, ...] | None = None
    structure: Structure | None = None


class IsolatedFunction:
    """A function over arrays with a declared signature; on arrays it is called as it is."""

    def __init__(
        self, run: Callable[..., Any], inputs: Mapping[str, Any], result: Any = None
    ) -> None:
        self.run, self.inputs, self.result = run, inputs, result
        update_wrapper(self, run)

    def __repr__(self) -> str:
        return f"<explorer.function {self.run.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (is_traced(args) or is_traced(kwargs)):
            return self.run(*args, **kwargs)
        bound = inspect.signature(self.run).bind(*args, **kwargs)
        bound.apply_defaults()
        with source_of(self.run.__name__):
            return self._call(list(bound.arguments.values()))

    def _call(self, args: list[Any]) -> Any:
        frame = current_frame()
        signature = self._signature(frame.recorder)
        if signature.results is None or signature.structure is None:
            raise TraceError(
                f"{calling_line()}: {self.run.__name__!r} calls itself, and what it gives is not "
                "declared",
                where=calling_line(),
                try_='@explorer.function(result=explorer.tensor("float32", "n"))',
            )
        given = [_fitting(a, p) for a, p in zip(args, signature.params, strict=True)]
        result = TupleType(tuple(signature.results))
        callee = types.Callable(signature.params, result)
        try:
            derived = derive_call(
                callee,
                tuple(g.type for g in given),
                frame.recorder.env,
                callee=self.run.__name__,
                names=signature.names,
            )
        except IronworksError as error:
            raise type(error)(
                f"{calling_line()}: {error.sentence}",
                where=error.where,
                expected=error.expected,
                found=error.found,
                try_=error.try_ or TRY.get(type(error), ""),
            ) from None
        assert isinstance(derived.result, TupleType)
        call = FunctionCall(signature.name, tuple(frame.own(g.value, g.home) for g in given))
        found = bind(frame, call, derived.result.items, self.run.__name__)
        return rebuild(signature.structure, found)

    def _signature(self, recorder: Recorder) -> Signature:
        known = recorder.called.get(id(self))
        if isinstance(known, Signature):
            return known
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
        found = Signature(recorder.fresh(name), tuple(declared), params, symbols)
        if self.result is not None:
            leaves, found.structure = flatten(self.result)
            found.results = tuple(_declared(r, symbols, name) for r in leaves)
        recorder.called[id(self)] = found
        self._write(recorder, found)
        return found

    def _write(self, recorder: Recorder, signature: Signature) -> None:
        """The function's body becomes one of the program's functions."""
        frame, source = Frame(recorder, signature.name), current_source()
        frame.symbols.update(signature.symbols)
        params = tuple(
            recorder.value(f"{signature.name}.{n}", t)
            for n, t in zip(signature.names, signature.params, strict=True)
        )
        with writing(frame):
            leaves, structure = flatten(staged(self.run)(*(TracedArray(p, frame) for p in params)))
            with under(source):
                results = self._checked(frame, leaves, structure, signature)
                outputs = own_results(frame, results)
        frame.closed = True
        if signature.results is None:
            defined = [str(s) for s in signature.symbols.values()]
            signature.results = tuple(_tensor(erase(r.type, defined)) for r in results)
            signature.structure = structure
        recorder.functions.append(Function(signature.name, params, tuple(frame.body), outputs))

    def _checked(
        self, frame: Frame, leaves: list[Any], structure: Structure, signature: Signature
    ) -> list[TracedArray]:
        """The results as they were declared; the run checks what is not proved."""
        if signature.results is None:
            return [traced(leaf) for leaf in leaves]
        name = self.run.__name__
        if structure != signature.structure:
            raise TraceError(
                f"{name} was declared to give {signature.structure} and gives {structure}"
            )
        found: list[TracedArray] = []
        for leaf, wanted in zip(leaves, signature.results, strict=True):
            value = _fitting(leaf, wanted)
            level, why = match(wanted, value.type, frame.recorder.env)
            if level <= Match.COARSE:
                raise TraceError(
                    f"{name} was declared to give {wanted} and gives {value.type}: {why}",
                    where=name,
                    expected=wanted,
                    found=value.type,
                )
            if level == Match.CHECKED and wanted.shape is not None:
                value = TracedArray(
                    matched(frame, frame.own(value.value, value.home), wanted, "result"), frame
                )
            found.append(value)
        return found


def _declared(result: Any, symbols: Mapping[str, Dim], name: str) -> Tensor:
    """What a result was declared to be; dims that no parameter defines are left to each call."""
    if not isinstance(result, Tensor) or result.dtype is None:
        raise TraceError(
            f"the result of {name} is declared as {result!r}; it is an explorer.tensor", where=name
        )
    return _tensor(instantiate(result, symbols))


def _tensor(annotation: Annotation) -> Tensor:
    match annotation:
        case Tensor():
            return annotation
    raise TypeError(f"{type(annotation).__name__} is no tensor")


def _fitting(value: Any, wanted: Annotation) -> TracedArray:
    """A number takes the dtype that is wanted."""
    found = traced(value)
    if found.weak and isinstance(wanted, Tensor) and wanted.dtype is not None:
        return converted(found, wanted.dtype)
    return found


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
    """A function of its own in the traced program: it sees its parameters only, which are declared
    by annotations or by `inputs`, and may call itself where `result` is declared too.

        @explorer.function(result=explorer.tensor("float32"))
        def total(x: explorer.tensor("float32", "n")): ...
    """
    if run is not None:
        return IsolatedFunction(run, {})
    return lambda run: IsolatedFunction(run, inputs or {}, result)
