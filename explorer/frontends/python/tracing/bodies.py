"""Bodies of branches and loops, traced to functions of the program, and the aliases they create.

Whether a result aliases an argument is decided at run time, so a change of either invalidates the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.errors import TraceError
from explorer.frontends.python.tracing.array import Change, PossibleAlias, TracedArray
from explorer.frontends.python.tracing.emit import traced
from explorer.frontends.python.tracing.frames import (
    FunctionFrame,
    attributed_to,
    calling_line,
    current_frame,
    current_source,
    tracing_into,
)
from explorer.frontends.python.tracing.structure import Structure, flatten
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
    _alias_parameters(values[len(lead) :], params)
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


# Possible aliases.


Arrays = Sequence[TracedArray]
Pairs = set[tuple[int, int]]  # of results, by their indices


def _alias_parameters(values: Arrays, arguments: Arrays) -> None:
    """Mark the parameters of a body as aliases of its arguments, and of each other."""
    for n, (value, before) in enumerate(zip(values, arguments, strict=True)):
        others = [v for m, v in enumerate(values) if m != n and _may_alias(arguments[m], before)]
        value.aliases = tuple(PossibleAlias(a, len(a.changes)) for a in (*_roots(before), *others))


def propagate_changes(inner: FunctionFrame) -> None:
    """Propagate the changes of a traced body to the aliases of the arrays that it changed."""
    frame = current_frame()
    for array, text in {id(array): (array, text) for array, text in inner.changed}.values():
        array.record_change(Change(frame, text))


def check_trips(inner: FunctionFrame) -> None:
    """Raise TraceError if a loop reads an outer array and changes it under another name.

    The next trip would not see the change.
    """
    for array, text in inner.changed:
        if array.is_read_in(inner):
            line = calling_line()
            raise TraceError(
                f"{line}: this loop reads an array from outside of it and changes its elements "
                f"under another name ({text}); NumPy's next iteration would see the change, a "
                "traced one does not; take .copy() of it before the loop",
                where=line,
                try_=".copy()",
            )


def alias_branch_results(results: Arrays, arms: Sequence[Arrays]) -> None:
    """Mark each result as a possible alias of the results of both arms.

    Two results may alias each other if they do in an arm.
    """
    aliased: Pairs = set()
    for arm in arms:
        aliased |= _pairs(arm)
    _record_aliases(results, [[arm[n] for arm in arms] for n in range(len(results))], aliased)


def alias_loop_results(results: Arrays, begin: Arrays, before: Arrays, after: Arrays) -> None:
    """Mark a loop's results as possible aliases.

    The loop starts with the arrays `begin`. A trip takes the arrays `before` and returns `after`.
    """
    after = after[: len(results)]
    places = {id(value): n for n, value in enumerate(before)}
    source_places = [places.get(id(value)) for value in after]
    origins = [{id(a): a} for a in begin]
    for candidates, value, source in zip(origins, after, source_places, strict=True):
        if source is None:
            candidates[id(value)] = value
    for _ in results:  # as many trips as a value needs to reach any position
        for candidates, source in zip(origins, source_places, strict=True):
            candidates |= {} if source is None else origins[source]
    aliased = _pairs(begin) | _pairs(after)
    if any(s is None and _is_in_scope(v) for s, v in zip(source_places, after, strict=True)):
        several = [(n, m) for n in range(len(origins)) for m in range(len(origins)) if n != m]
        aliased |= {(n, m) for n, m in several if origins[n].keys() & origins[m].keys()}
    _record_aliases(results, [tuple(candidates.values()) for candidates in origins], aliased)


def _record_aliases(
    results: Arrays, candidates: Sequence[Iterable[TracedArray]], aliased: Pairs
) -> None:
    statement = object()
    for n, value in enumerate(results):
        arrays = {
            id(a): a for candidate in candidates[n] for a in _roots(candidate) if _is_in_scope(a)
        }
        siblings = [other for m, other in enumerate(results) if (n, m) in aliased]
        value.statement = statement
        value.aliases = (
            *(PossibleAlias(a, len(a.changes), statement) for a in arrays.values()),
            *(PossibleAlias(a, len(a.changes)) for a in siblings),
        )


def _pairs(arrays: Arrays) -> Pairs:
    """Return the pairs of arrays that may alias."""
    several = [(n, m) for n in range(len(arrays)) for m in range(len(arrays)) if n != m]
    return {(n, m) for n, m in several if _may_alias(arrays[n], arrays[m])}


def _may_alias(a: TracedArray, b: TracedArray) -> bool:
    """Return True if two arrays may alias; for results of one statement it is known."""
    first, *first_aliases = map(id, _roots(a))
    second, *second_aliases = map(id, _roots(b))
    if a.statement is not None and a.statement is b.statement:
        return first == second or first in second_aliases or second in first_aliases
    return bool({first, *first_aliases} & {second, *second_aliases})


def _roots(value: TracedArray) -> tuple[TracedArray, ...]:
    """Return the array or its base, and their possible aliases."""
    base = value if value.base is None else value.base
    return base, *(other.array for other in base.aliases)


def _is_in_scope(value: TracedArray) -> bool:
    """Return True if an array belongs to the current function or an enclosing one."""
    return value.home.encloses(current_frame())
