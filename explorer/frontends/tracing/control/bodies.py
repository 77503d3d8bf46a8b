"""Bodies of branches and loops, traced to functions of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.aliases import alias_parameters
from explorer.frontends.tracing.frames import (
    FunctionFrame,
    attributed_to,
    current_frame,
    current_source,
    tracing_into,
)
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.structure import Structure, flatten
from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Function
from explorer.ir.types import Annotation

Convert = Callable[[int, TracedArray], TracedArray]


@dataclass
class Body:
    """A traced body: its frame, parameters, their initial arrays, results, and their nesting."""

    frame: FunctionFrame
    params: tuple[Var, ...]
    values: list[TracedArray]
    results: list[TracedArray]
    structure: Structure


def run_body(
    function: Callable[..., Any],
    name: str,
    params: Sequence[TracedArray],
    lead: Sequence[tuple[str, Annotation]] = (),
) -> Body:
    """Trace a function on parameters like `params`, preceded by a loop's own parameters `lead`."""
    recorder, outer = current_frame().recorder, current_frame()
    frame = FunctionFrame(recorder, recorder.fresh(name), outer)
    signature = [(n, t, False) for n, t in lead] + [(p.value.name, p.type, p.weak) for p in params]
    own = tuple(recorder.value(f"{frame.name}.{n}", t) for n, t, _ in signature)
    values = [
        TracedArray(var, frame, weak=weak) for var, (_, _, weak) in zip(own, signature, strict=True)
    ]
    source = current_source()
    alias_parameters(values[len(lead) :], params)
    with tracing_into(frame):
        leaves, structure = flatten(function(*values))
        with attributed_to(source):
            results = [traced(leaf) for leaf in leaves]
    return Body(frame, own, values, results, structure)


def finish(body: Body, captures: Mapping[str, Var], convert: Convert | None = None) -> None:
    """Add the body's function to the program, closed over the captures of all bodies of the call.

    `convert` converts each result, by its index, to the type of the call's result.
    """
    frame, source = body.frame, current_source()
    with tracing_into(frame), attributed_to(source):
        results = [r if convert is None else convert(i, r) for i, r in enumerate(body.results)]
        outputs = own_results(frame, results)
    captured_params = tuple(
        frame.captured.get(name) or frame.recorder.value(f"{frame.name}.{name}", var.type)
        for name, var in captures.items()
    )
    frame.closed = True
    function = Function(frame.name, (*body.params, *captured_params), tuple(frame.body), outputs)
    frame.recorder.functions.append(function)


def captures_of(bodies: Iterable[Body]) -> dict[str, Var]:
    """Return the values that the bodies of one call capture from the enclosing function."""
    captures: dict[str, Var] = {}
    for body in bodies:
        for result in body.results:
            body.frame.own(result.value, result.home)
        captures.update(body.frame.read)
    return captures


def own_results(frame: FunctionFrame, results: Sequence[TracedArray]) -> tuple[Var, ...]:
    """Return the result variables, each bound by the function itself and all distinct."""
    bound = {v.name for b in frame.body for v in b.vars}
    outputs: list[Var] = []
    for result in results:
        var = frame.own(result.value, result.home)
        if var.name not in bound:
            (var,) = frame.bind(["result"], [var.type], OpCall("Identity", (var,)))
        bound.discard(var.name)
        outputs.append(var)
    return tuple(outputs)
