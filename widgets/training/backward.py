"""The training graph, backward under forward: which values are kept from one for the other, or
computed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from explorer.ir.calls import Gradient, KernelCall, OpCall, Var
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import evaluate_dim, symbols_of
from explorer.ir.types import Tensor
from widgets.model.compiled import Compiled

STEP, RECOMPUTING = "differentiate", "rematerialise"
AGAIN = re.compile(r"(\.again)?(\.\d+)?$")  # what the name of a value gets, computed again
Phase = Literal["forward", "backward", "recomputed", "update"]


@dataclass(frozen=True, slots=True)
class Node:
    """A binding; `band` is the forward one that it belongs to by its source operators."""

    name: str
    label: str
    phase: Phase
    bytes: int
    ops: tuple[str, ...]
    band: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A value that the backward part reads. `made` is the node that makes it, None of an input."""

    name: str
    bytes: int
    made: int | None
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BackwardRows:
    """Nodes in program order, after the last `step` that said what is computed; `saved` values of
    the forward part, and `inputs` that are read again, which are there anyway.
    """

    step: str
    nodes: tuple[Node, ...]
    saved: tuple[Saved, ...]
    inputs: tuple[Saved, ...]

    @property
    def saved_bytes(self) -> int:
        """Of the values of the forward part."""
        return sum(s.bytes for s in self.saved)


def data(c: Compiled, sizes: Mapping[str, int]) -> BackwardRows:
    """The two graphs as differentiation leaves them, or what computes values again, if it does."""
    steps = {s.name: s for s in c.snapshots if s.name in (STEP, RECOMPUTING)}
    step = steps.get(STEP)
    last = steps.get(RECOMPUTING, step)
    if step is None or last is None:
        body = c.snapshots[0].after.main.body if c.snapshots else c.program.main.body
        phases: list[Phase] = ["forward"] * len(body)
    else:
        body, phases = last.after.main.body, _phases(step.before, last.after)
    nodes = tuple(_nodes(body, phases, sizes))
    saved, inputs = _saved(body, phases, sizes)
    return BackwardRows(last.name if last else "", nodes, saved, inputs)


def _phases(before: Program, after: Program) -> list[Phase]:
    """Forward is what the differentiated functions compute, up to the last of it; behind that a
    value of theirs under another name is computed again, and one of `main` comes after gradients.
    """
    gradients = [b for b in before.main.body if isinstance(b.expr, Gradient)]
    body = after.main.body
    if not gradients:
        return ["forward"] * len(body)
    inner = {v.name for f in before.functions[1:] for b in f.body for v in b.vars}
    inner |= {b.vars[0].name for b in gradients}
    results = {v.name for b in gradients for v in b.vars[1:]}
    outer = {v.name for b in before.main.body for v in b.vars} - results
    names = [{v.name for v in b.vars} for b in body]
    last = max((n for n, found in enumerate(names) if found & inner), default=-1)
    found: list[Phase] = ["forward"] * (last + 1)
    for mine in names[last + 1 :]:
        if mine & outer:
            found.append("update")
        elif not mine & results and {AGAIN.sub("", n) for n in mine} & inner:
            found.append("recomputed")
        else:
            found.append("backward")
    return found


def _nodes(
    body: Iterable[Binding], phases: Iterable[Phase], sizes: Mapping[str, int]
) -> Iterable[Node]:
    bands: dict[str, int] = {}
    last = 0
    for n, (b, phase) in enumerate(zip(body, phases, strict=True)):
        if phase == "forward":
            bands.update(dict.fromkeys(b.origin, n))
        known = [bands[o] for o in b.origin if o in bands]
        last = n if phase == "forward" else min(known, default=last)
        size = sum(_bytes(v, sizes) for v in b.vars)
        yield Node(b.vars[0].name, _label(b), phase, size, tuple(sorted(b.origin)), last)


def _label(b: Binding) -> str:
    match b.expr:
        case OpCall() as call:
            return call.op
        case KernelCall():
            return b.vars[0].name
    return type(b.expr).__name__.lower()


def _saved(
    body: tuple[Binding, ...], phases: list[Phase], sizes: Mapping[str, int]
) -> tuple[tuple[Saved, ...], tuple[Saved, ...]]:
    makers = {v.name: n for n, b in enumerate(body) for v in b.vars}
    readers: dict[Var, list[int]] = {}
    for n, (b, phase) in enumerate(zip(body, phases, strict=True)):
        if phase in ("backward", "recomputed"):
            for v in dict.fromkeys(b.reads):
                readers.setdefault(v, []).append(n)
    found = [
        Saved(v.name, _bytes(v, sizes), makers.get(v.name), tuple(at)) for v, at in readers.items()
    ]
    values = (s for s in found if s.made is not None and phases[s.made] == "forward")
    return tuple(values), tuple(s for s in found if s.made is None and not s.name.startswith("@"))


def _bytes(v: Var, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a value; 0 where only a run knows them."""
    if not isinstance(v.type, Tensor) or not v.type.is_known:
        return 0
    count = v.type.bytes
    return int(evaluate_dim(count, sizes)) if symbols_of(count) <= sizes.keys() else 0
