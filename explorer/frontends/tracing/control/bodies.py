"""Python functions that become functions of the program: the bodies of branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.frontends.tracing.array import TracedArray
from explorer.frontends.tracing.control.shared import given_as
from explorer.frontends.tracing.frames import Frame, current_frame, current_source, under, writing
from explorer.frontends.tracing.promote import traced
from explorer.frontends.tracing.structure import Structure, flatten
from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Function
from explorer.ir.types import Annotation

Convert = Callable[[int, TracedArray], TracedArray]


@dataclass
class Body:
    """A function in the making: its frame, parameters, what these were to begin with, results, and
    how these were nested.
    """

    frame: Frame
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
    """The function, traced on parameters like these values; `lead` are those that a loop gives its
    body before them.
    """
    recorder, outer = current_frame().recorder, current_frame()
    frame = Frame(recorder, recorder.fresh(name), outer)
    given = [(n, t, False) for n, t in lead] + [(p.value.name, p.type, p.weak) for p in params]
    own = tuple(recorder.value(f"{frame.name}.{n}", t) for n, t, _ in given)
    values = [
        TracedArray(var, frame, weak=weak) for var, (_, _, weak) in zip(own, given, strict=True)
    ]
    source = current_source()
    given_as(values[len(lead) :], params)
    with writing(frame):
        leaves, structure = flatten(function(*values))
        with under(source):
            results = [traced(leaf) for leaf in leaves]
    return Body(frame, own, values, results, structure)


def finish(body: Body, captures: Mapping[str, Var], convert: Convert | None = None) -> None:
    """Give the program the function, closed over what it and its twin read of the function around.

    `convert` makes of each result, by its place, what the call is to give.
    """
    frame, source = body.frame, current_source()
    with writing(frame), under(source):
        results = [r if convert is None else convert(i, r) for i, r in enumerate(body.results)]
        outputs = own_results(frame, results)
    taken = tuple(
        frame.captured.get(name) or frame.recorder.value(f"{frame.name}.{name}", var.type)
        for name, var in captures.items()
    )
    frame.closed = True
    function = Function(frame.name, (*body.params, *taken), tuple(frame.body), outputs)
    frame.recorder.functions.append(function)


def captured(bodies: Iterable[Body]) -> dict[str, Var]:
    """What bodies of one call read of the function around them, in one order."""
    found: dict[str, Var] = {}
    for body in bodies:
        for result in body.results:
            body.frame.own(result.value, result.home)
        found.update(body.frame.read)
    return found


def own_results(frame: Frame, results: Sequence[TracedArray]) -> tuple[Var, ...]:
    """Values that the function itself binds, no two the same."""
    bound = {v.name for b in frame.body for v in b.vars}
    found: list[Var] = []
    for result in results:
        var = frame.own(result.value, result.home)
        if var.name not in bound:
            (var,) = frame.bind(["result"], [var.type], OpCall("Identity", (var,)))
        bound.discard(var.name)
        found.append(var)
    return tuple(found)
