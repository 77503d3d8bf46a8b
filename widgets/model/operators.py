"""The source operators of a model and where each went: what every picture selects by."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from explorer.ir.calls import Branch, FunctionCall, Gradient, KernelCall, LibraryCall, Loop
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.ops import family
from widgets.model.compiled import Compiled


@dataclass(frozen=True, slots=True)
class Operator:
    """A source operator: `calls` are the bindings of the last program that compute it; `dropped`
    says why there is none.
    """

    name: str
    op: str
    label: str
    family: str
    calls: tuple[str, ...] = ()
    dropped: str = ""


def operators(c: Compiled) -> tuple[Operator, ...]:
    """Every source operator in the order of the source."""
    families = _families(_legalized(c))
    calls = calls_by_operator(c.program)
    dropped = dict(c.program.dropped)
    why = "no kernel computes it" if has_kernels(c.program) else "no kernel is made yet"
    return tuple(
        Operator(
            s.name,
            s.op,
            short_label(s.name, s.op),
            families.get(s.name, "layout"),
            calls.get(s.name, ()),
            "" if calls.get(s.name) else dropped.get(s.name, why),
        )
        for s in c.model.program.sources
    )


def has_kernels(program: Program) -> bool:
    """Whether operators have become kernels: before that each of them stands for itself."""
    return program.stage >= Stage.LEGALIZED


def calls_by_operator(program: Program) -> dict[str, tuple[str, ...]]:
    """For each source operator, the names of the calls that compute it; those that only move its
    data stand last.
    """
    found: dict[str, list[tuple[bool, str]]] = {}
    for _, binding in program.bindings():
        if is_call(binding):
            moves = family(binding) == "layout"
            for name in binding.origin:
                found.setdefault(name, []).append((moves, binding.vars[0].name))
    return {
        name: tuple(call for _, call in sorted(calls, key=lambda c: c[0]))
        for name, calls in found.items()
    }


_WEIGHT = ("conv", "matmul", "reduction", "control flow", "library call")


def head(ops: Iterable[Operator]) -> Operator | None:
    """The operator that a call is named after: the first of the heaviest family."""
    return min(
        ops, key=lambda o: _WEIGHT.index(o.family) if o.family in _WEIGHT else 9, default=None
    )


def label_of(known: Iterable[Operator], ops: Collection[str]) -> str:
    """The display name of what computes these source operators: that of the heaviest of them; ""
    where none of them is known.
    """
    found = head(o for o in known if o.name in ops)
    return found.label if found else ""


def call_family(binding: Binding, ops: Iterable[Operator]) -> str:
    """The family of a call: its heaviest operator's, unless it only moves data or leaves us."""
    kind, first = family(binding), head(ops)
    return kind if kind in ("layout", "control flow", "library call") or not first else first.family


def is_call(binding: Binding) -> bool:
    """Whether something runs for this binding: a kernel, a library, a branch or a loop."""
    return isinstance(
        binding.expr, KernelCall | LibraryCall | Branch | Loop | FunctionCall | Gradient
    )


def short_label(name: str, op: str) -> str:
    """A name that fits into a node: the last part of a path, without the exporter's prefix."""
    if name[:1] == "n" and name[1:].isdigit():  # made up by the frontend: the file has no name
        return f"{op.replace('Normalization', 'Norm')} {name[1:]}"
    last = name.rstrip("/").split("/")[-1] or op
    return last.removeprefix("node_") or op


def _legalized(c: Compiled) -> Program:
    """The first program of kernels, before anything was fused: there each operator still has its
    own.
    """
    for snapshot in c.snapshots:
        if snapshot.after.stage >= Stage.LEGALIZED:
            return snapshot.after
    return c.program


def _families(program: Program) -> dict[str, str]:
    """The family of each operator: that of the binding that comes from the fewest others."""
    best: dict[str, tuple[int, str]] = {}
    for _, binding in program.bindings():
        if not is_call(binding) and has_kernels(program):
            continue
        kind = family(binding)
        for name in binding.origin:
            if name not in best or len(binding.origin) < best[name][0]:
                best[name] = (len(binding.origin), kind)
    return {name: kind for name, (_, kind) in best.items()}
