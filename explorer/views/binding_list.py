"""A program as a list of bindings, with the source and the readers of each value.

The signature of a binding is a text without names, so equal texts are equal work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from explorer.ir.by_identity import by_identity
from explorer.ir.calls import (
    Branch,
    Expr,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import kernel_text, renamed_tiling
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Annotation

# Where a value comes from: "value", a binding's number and which of its results; "input", a
# function and which of its parameters; "constant" and its number among those of both programs.
Source: TypeAlias = tuple[str, int | str, int]
SAMPLED = 512  # elements by which constants are told apart before all are compared; chosen


@dataclass(frozen=True, slots=True)
class BindingNode:
    """A binding in its function: its signature, and the source of each operand."""

    at: int
    function: Function
    binding: Binding
    does: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """The bindings of all functions in order.

    `readers` lists for each binding the reader, the operand's position and the result's number;
    `outputs` lists for each function the sources of its results; `callers` maps each function with
    a single call site to its binding.
    """

    program: Program
    nodes: tuple[BindingNode, ...]
    readers: tuple[tuple[tuple[int, int, int], ...], ...]
    outputs: Mapping[str, tuple[Source, ...]]
    callers: Mapping[str, int]


def listed(program: Program, constants: Mapping[str, int]) -> Listed:
    """List a program, with constants identified by numbers."""
    nodes: list[BindingNode] = []
    outputs: dict[str, tuple[Source, ...]] = {}
    callers: dict[str, list[int]] = {}
    shared = {name: ("constant", "", number) for name, number in constants.items()}
    for function in program.functions:
        sources_by_name: dict[str, Source] = dict(shared)
        sources_by_name |= {
            p.name: ("input", function.name, k) for k, p in enumerate(function.params)
        }
        for binding in function.body:
            at = len(nodes)
            sources = tuple(
                [sources_by_name.get(v.name, ("unknown", v.name, 0)) for v in binding.reads]
            )
            nodes.append(BindingNode(at, function, binding, signature(binding), sources))
            sources_by_name |= {v.name: ("value", at, k) for k, v in enumerate(binding.vars)}
            for name in binding.calls:
                callers.setdefault(name, []).append(at)
        missing: Source = ("unknown", function.name, 0)
        outputs[function.name] = tuple(
            sources_by_name.get(v.name, missing) for v in function.outputs
        )
    once = {name: at for name, (at, *more) in callers.items() if not more}
    return Listed(program, tuple(nodes), _readers(nodes), outputs, once)


def _readers(nodes: list[BindingNode]) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    """Return the readers of each binding."""
    readers: list[list[tuple[int, int, int]]] = [[] for _ in nodes]
    for node in nodes:
        for place, (kind, at, k) in enumerate(node.sources):
            if kind == "value":
                readers[int(at)].append((node.at, place, k))
    return tuple(map(tuple, readers))


def numbered(before: Program, after: Program) -> tuple[dict[str, int], dict[str, int]]:
    """Assign numbers to the constants of both programs, equal ones to equal constants."""
    numbers_by_id: dict[int, int] = {}
    alike: dict[tuple[object, ...], list[tuple[int, Constant]]] = {}
    count = 0

    def number(constant: Constant) -> int:
        """Return the number of a constant."""
        nonlocal count
        matching = numbers_by_id.get(id(constant))
        if matching is not None:
            return matching
        bucket = alike.setdefault(_sample(constant), [])
        matching = next((n for n, other in bucket if _same(constant, other)), None)
        if matching is None:
            matching, count = count, count + 1
            bucket.append((matching, constant))
        numbers_by_id[id(constant)] = matching
        return matching

    first, second = ({name: number(c) for name, c in p.constants.items()} for p in (before, after))
    return first, second


def _sample(constant: Constant) -> tuple[object, ...]:
    """Return a hashable sample of a constant."""
    flat = constant.array.reshape(-1)
    if flat.dtype == object:
        return (constant.type, constant.digest)
    few = flat[:: max(1, len(flat) // SAMPLED)]
    return (constant.type, few.tobytes())


def _same(first: Constant, second: Constant) -> bool:
    """Return True if two constants are equal bit for bit."""
    a, b = first.array, second.array
    if a.dtype == object or not a.ndim:
        return first == second
    return bool(np.array_equal(a.view(np.uint8), b.view(np.uint8)))


def signature(binding: Binding) -> str:
    """Return a binding's work and result types as text, without its operands."""
    return (
        f"{_expression_text(binding.expr)} : {'; '.join([type_text(v.type) for v in binding.vars])}"
    )


@lru_cache(maxsize=1 << 14)
def type_text(annotation: Annotation) -> str:
    """Return a type as text; cached, because symbols print slowly."""
    return str(annotation)


@by_identity
def _expression_text(expr: Expr) -> str:
    """Return an expression as text."""
    match expr:
        case OpCall(op, args, attrs):
            return f"operator {op}({_operands_text(args)}) {attrs!r}"
        case LibraryCall(library, function, args, attrs):
            return f"library {library}.{function}({_operands_text(args)}) {attrs!r}"
        case KernelCall(kernel, _, tiling, efficient, after):
            tiles = ", ".join(tiling_text(kernel, t) for t in (tiling, efficient))
            return f"kernel {kernel_text(kernel)} {tiles} {'after' if after else ''}"
        case View(_, offset):
            return f"view {offset}"
        case ShapeOf(dims, rank):
            return f"shape {dims} {rank}"
        case MatchCast():
            return "match_cast"
        case FunctionCall(_, args):
            return f"call {len(args)}"
        case Branch(_, _, _, args):
            return f"branch {len(args)}"
        case Gradient(_, args, wrt, seeds):
            return f"gradient {len(args)} {wrt} {len(seeds)}"
        case Loop(_, trip, cond, state, args, scans, rows, padded):
            parts = f"{trip is not None} {cond is not None} {len(state)} {len(args)}"
            return f"loop {parts} {scans} {tuple(map(str, rows))} {padded}"


def _operands_text(args: tuple[Var | None, ...]) -> str:
    """Return which optional operands are present."""
    return "".join("-" if a is None else "x" for a in args)


def tiling_text(kernel: Kernel, tiling: Tiling | None) -> str:
    """Return a tiling with axes by position instead of name."""
    return "" if tiling is None else repr(renamed_tiling(tiling, _places(kernel)))


def _places(kernel: Kernel) -> dict[str, str]:
    """Return the position of each axis of a kernel."""
    places: dict[str, str] = {}
    for c in kernel.computes:
        for axis in (*c.axes, *c.reduce):
            places.setdefault(axis.name, f"i{len(places)}")
    return places
