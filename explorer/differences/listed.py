"""A program as a list of its bindings, with where each value comes from and who reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from explorer.differences.signature import signature
from explorer.ir.program import Binding, Constant, Function, Program

# Where a value comes from: "value", a binding's number and which of its results; "input", a
# function and which of its parameters; "constant" and its number among those of both programs.
Source: TypeAlias = tuple[str, int | str, int]
SAMPLED = 512  # elements by which constants are told apart before all are compared; chosen


@dataclass(frozen=True, slots=True)
class Node:
    """A binding in its function: what it does, and the source of each value that it reads."""

    at: int
    function: Function
    binding: Binding
    does: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """The bindings of all functions in order. `readers` are of each binding those that read it,
    with the place among what they read and which result; `outputs` of each function the sources of
    what it gives; `callers` of each function that one binding alone runs, once, that binding.
    """

    program: Program
    nodes: tuple[Node, ...]
    readers: tuple[tuple[tuple[int, int, int], ...], ...]
    outputs: Mapping[str, tuple[Source, ...]]
    callers: Mapping[str, int]


def listed(program: Program, constants: Mapping[str, int]) -> Listed:
    """A program, its constants known by numbers."""
    nodes: list[Node] = []
    outputs: dict[str, tuple[Source, ...]] = {}
    callers: dict[str, list[int]] = {}
    shared = {name: ("constant", "", number) for name, number in constants.items()}
    for function in program.functions:
        known: dict[str, Source] = dict(shared)
        known |= {p.name: ("input", function.name, k) for k, p in enumerate(function.params)}
        for binding in function.body:
            at = len(nodes)
            sources = tuple([known.get(v.name, ("unknown", v.name, 0)) for v in binding.reads])
            nodes.append(Node(at, function, binding, signature(binding), sources))
            known |= {v.name: ("value", at, k) for k, v in enumerate(binding.vars)}
            for name in binding.calls:
                callers.setdefault(name, []).append(at)
        missing: Source = ("unknown", function.name, 0)
        outputs[function.name] = tuple(known.get(v.name, missing) for v in function.outputs)
    once = {name: at for name, (at, *more) in callers.items() if not more}
    return Listed(program, tuple(nodes), _readers(nodes), outputs, once)


def _readers(nodes: list[Node]) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    found: list[list[tuple[int, int, int]]] = [[] for _ in nodes]
    for node in nodes:
        for place, (kind, at, k) in enumerate(node.sources):
            if kind == "value":
                found[int(at)].append((node.at, place, k))
    return tuple(map(tuple, found))


def numbered(before: Program, after: Program) -> tuple[dict[str, int], dict[str, int]]:
    """The constants of both programs by numbers, equal ones by the same."""
    known: dict[int, int] = {}
    alike: dict[tuple[object, ...], list[tuple[int, Constant]]] = {}
    count = 0

    def number(constant: Constant) -> int:
        nonlocal count
        found = known.get(id(constant))
        if found is not None:
            return found
        bucket = alike.setdefault(_sample(constant), [])
        found = next((n for n, other in bucket if _same(constant, other)), None)
        if found is None:
            found, count = count, count + 1
            bucket.append((found, constant))
        known[id(constant)] = found
        return found

    first, second = ({name: number(c) for name, c in p.constants.items()} for p in (before, after))
    return first, second


def _sample(constant: Constant) -> tuple[object, ...]:
    flat = constant.array.reshape(-1)
    if flat.dtype == object:
        return (constant.type, constant.digest)
    few = flat[:: max(1, len(flat) // SAMPLED)]
    return (constant.type, few.tobytes())


def _same(one: Constant, other: Constant) -> bool:
    a, b = one.array, other.array
    if a.dtype == object or not a.ndim:
        return one == other
    return bool(np.array_equal(a.view(np.uint8), b.view(np.uint8)))
