"""Loop fusion: maps and reductions over the same points become one loop.

A value that one makes and the next reads stays in registers.
e[r] = exp(x[r] - m); s = sum[r] e[r]   ->   one pass: e[r] = exp(x[r] - m), s = sum of it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.tile_program import (
    Fetch,
    For,
    Map,
    OnePass,
    Reduce,
    Span,
    Statement,
    TileProgram,
    fetches,
)
from explorer.ir.tile_traversal import Part, moved, substitute


def one_pass(p: TileProgram, device: Device) -> TileProgram:
    """Fuse neighbours over the same points into one `OnePass`, if one of them reduces."""
    return p if p.updates else replace(p, body=in_one_pass(p.body))


def in_one_pass(body: Iterable[Statement]) -> tuple[Statement, ...]:
    """Fuse neighbours over the same points into one `OnePass`, if one of them reduces."""
    out: list[Statement] = []
    group: list[Part] = []
    for s in body:
        match s:
            case Map() | Reduce():
                joined = _join(group, s)
                if joined is None:
                    out += _close(group)
                    group = [s]
                else:
                    group.append(joined)
            case _:
                out += _close(group)
                group = []
                out.append(replace(s, body=in_one_pass(s.body)) if isinstance(s, For) else s)
    return (*out, *_close(group))


def _close(group: list[Part]) -> list[Statement]:
    if len(group) > 1 and any(isinstance(p, Reduce) for p in group):
        return [OnePass(tuple(group))]
    return list(group)


def _join(group: list[Part], new: Part) -> Part | None:
    """Return the statement under the group's axes; None if it cannot run in the same loop."""
    names = _axis_names(group, new)
    if names is None:
        return None
    own = _renamed(new, names)
    if isinstance(own, Reduce) and not own.over:
        return None
    written = {p.target.buffer for p in group}
    reduced = {p.target.buffer for p in group if isinstance(p, Reduce)}
    points = {p.target for p in group if isinstance(p, Map)}
    read = fetches(own.expr)
    if any(f.buffer in reduced or (f.buffer in written and f not in points) for f in read):
        return None
    if own.target.buffer in written or any(
        f.buffer == own.target.buffer for p in group for f in fetches(p.expr)
    ):
        return None
    return own if _is_one_loop(group, own) else None


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes of a loop: all, and the reduced ones (None: nothing is reduced)."""

    every: frozenset[Span]
    reduced: frozenset[Span] | None


def _axes(p: Part) -> _Axes:
    if isinstance(p, Map):
        return _Axes(frozenset(p.spans), None)
    return _Axes(frozenset((*p.spans, *p.over)), frozenset(p.over))


def _is_one_loop(group: list[Part], new: Part) -> bool:
    """Return True if all parts iterate over and reduce the same axes."""
    own = _axes(new)
    for p in group:
        other = _axes(p)
        if other.every != own.every:
            return False
        if None not in (other.reduced, own.reduced) and other.reduced != own.reduced:
            return False
    return True


def _axis_names(group: list[Part], new: Part) -> dict[str, Affine] | None:
    """Return the new statement's axes in terms of the group's; None if nothing connects them."""
    if not group:
        return None
    for p in group:
        read = next((f for f in fetches(new.expr) if f.buffer == p.target.buffer), None)
        if isinstance(p, Map) and read is not None:
            return _by_steps(p, new, read)
    first = next((p for p in group if isinstance(p, Reduce)), None)
    if first is None or not isinstance(new, Reduce):
        return None
    pairs = (*zip(new.spans, first.spans), *zip(new.over, first.over))
    if len(new.spans) != len(first.spans) or len(new.over) != len(first.over):
        return None
    return {a.axis: var(b.axis) for a, b in pairs}


def _by_steps(writer: Map, new: Part, read: Fetch) -> dict[str, Affine] | None:
    """Match axes that have equal strides in what is read."""
    spans = (*new.spans, *(new.over if isinstance(new, Reduce) else ()))
    names: dict[str, Affine] = {}
    matched: set[str] = set()
    for a in spans:
        step = read.offset.factor(a.axis)
        matches = [
            b
            for b in writer.spans
            if b.axis not in matched
            and writer.target.offset.factor(b.axis) == step
            and replace(b, axis=a.axis) == a
        ]
        if len(matches) == 1:
            names[a.axis] = var(matches[0].axis)
            matched.add(matches[0].axis)
        elif a.size == 1 and a.base == Affine():
            names[a.axis] = Affine()
        else:
            return None
    return names


def _renamed(p: Part, names: Mapping[str, Affine]) -> Part:
    """Return a part under other axis names; axes without a name are dropped."""

    def spans(old: tuple[Span, ...]) -> tuple[Span, ...]:
        renamed = ((s, names[s.axis].bare) for s in old)
        return tuple(replace(s, axis=name) for s, name in renamed if name is not None)

    target, expr = moved(p.target, names), substitute(p.expr, names)
    if isinstance(p, Map):
        return Map(target, spans(p.spans), expr)
    return replace(p, target=target, spans=spans(p.spans), over=spans(p.over), expr=expr)
