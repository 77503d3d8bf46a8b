"""The training graph, backward under forward, with the values saved or recomputed in between."""

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
RECOMPUTED_SUFFIX = re.compile(r"(\.again)?(\.\d+)?$")  # suffix of a recomputed value's name
Phase = Literal["forward", "backward", "recomputed", "update"]


@dataclass(frozen=True, slots=True)
class BackwardNode:
    """A binding; `band` is the forward node that it belongs to by its source operators."""

    name: str
    label: str
    phase: Phase
    bytes: int
    ops: tuple[str, ...]
    band: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A value that the backward part reads; `producer` is its node, None for an input."""

    name: str
    bytes: int
    producer: int | None
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BackwardRows:
    """Nodes in program order, after the last `step` that determined the computations.

    `saved` are values of the forward part; `inputs` are read again, and exist in any case.
    """

    step: str
    nodes: tuple[BackwardNode, ...]
    saved: tuple[Saved, ...]
    inputs: tuple[Saved, ...]

    @property
    def saved_bytes(self) -> int:
        """The bytes of the saved values of the forward part."""
        return sum(s.bytes for s in self.saved)


def data(c: Compiled, sizes: Mapping[str, int]) -> BackwardRows:
    """Return the two graphs after differentiation, or after rematerialisation if it ran."""
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
    """Return the phase of each binding.

    Forward are the values of the differentiated functions, up to the last of them. Behind that, one
    of their values under another name is recomputed, and a value of `main` belongs to the update.
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
    last = max((n for n, defined in enumerate(names) if defined & inner), default=-1)
    phases: list[Phase] = ["forward"] * (last + 1)
    for mine in names[last + 1 :]:
        if mine & outer:
            phases.append("update")
        elif not mine & results and {RECOMPUTED_SUFFIX.sub("", n) for n in mine} & inner:
            phases.append("recomputed")
        else:
            phases.append("backward")
    return phases


def _nodes(
    body: Iterable[Binding], phases: Iterable[Phase], sizes: Mapping[str, int]
) -> Iterable[BackwardNode]:
    bands: dict[str, int] = {}
    last = 0
    for n, (b, phase) in enumerate(zip(body, phases, strict=True)):
        if phase == "forward":
            bands.update(dict.fromkeys(b.origin, n))
        bands_of_origin = [bands[o] for o in b.origin if o in bands]
        last = n if phase == "forward" else min(bands_of_origin, default=last)
        size = sum(_bytes(v, sizes) for v in b.vars)
        yield BackwardNode(b.vars[0].name, _label(b), phase, size, tuple(sorted(b.origin)), last)


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
    values_read = [
        Saved(v.name, _bytes(v, sizes), makers.get(v.name), tuple(at)) for v, at in readers.items()
    ]
    values = (s for s in values_read if s.producer is not None and phases[s.producer] == "forward")
    return tuple(values), tuple(
        s for s in values_read if s.producer is None and not s.name.startswith("@")
    )


def _bytes(v: Var, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a value, 0 if only a run can tell."""
    if not isinstance(v.type, Tensor) or not v.type.is_known:
        return 0
    count = v.type.bytes
    return int(evaluate_dim(count, sizes)) if symbols_of(count) <= sizes.keys() else 0
