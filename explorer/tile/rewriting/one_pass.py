"""Maps and reductions over the same points become one loop: what one makes and the next reads stays
in registers.

e[r] = exp(x[r] - m); s = sum[r] e[r]   ->   one pass: e[r] = exp(x[r] - m), s = sum of it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.tile_programs.elements import Fetch, fetches
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Map, OnePass, Reduce, Span, Statement
from explorer.ir.tile_programs.traversal import Part, moved, substitute


def one_pass(p: TileProgram, device: Device) -> TileProgram:
    """After: neighbours over the same points are one `OnePass`, where one of them reduces."""
    return p if p.updates else replace(p, body=in_one_pass(p.body))


def in_one_pass(body: Iterable[Statement]) -> tuple[Statement, ...]:
    """After: neighbours that iterate over the same points are one `OnePass`, where one of them
    reduces.
    """
    out: list[Statement] = []
    group: list[Part] = []
    for s in body:
        match s:
            case Map() | Reduce():
                joined = _joined(group, s)
                if joined is None:
                    out += _closed(group)
                    group = [s]
                else:
                    group.append(joined)
            case _:
                out += _closed(group)
                group = []
                out.append(replace(s, body=in_one_pass(s.body)) if isinstance(s, For) else s)
    return (*out, *_closed(group))


def _closed(group: list[Part]) -> list[Statement]:
    if len(group) > 1 and any(isinstance(p, Reduce) for p in group):
        return [OnePass(tuple(group))]
    return list(group)


def _joined(group: list[Part], new: Part) -> Part | None:
    """The statement under the group's axes; None where it cannot be done in the same loop."""
    names = _names(group, new)
    if names is None:
        return None
    own = _renamed(new, names)
    if isinstance(own, Reduce) and not own.over:
        return None
    made = {p.target.buffer for p in group}
    reduced = {p.target.buffer for p in group if isinstance(p, Reduce)}
    points = {p.target for p in group if isinstance(p, Map)}
    read = fetches(own.expr)
    if any(f.buffer in reduced or (f.buffer in made and f not in points) for f in read):
        return None
    if own.target.buffer in made or any(
        f.buffer == own.target.buffer for p in group for f in fetches(p.expr)
    ):
        return None
    return own if _is_one_loop(group, own) else None


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes of a loop: all, and those that are reduced (None: nothing is)."""

    every: frozenset[Span]
    reduced: frozenset[Span] | None


def _axes(p: Part) -> _Axes:
    if isinstance(p, Map):
        return _Axes(frozenset(p.spans), None)
    return _Axes(frozenset((*p.spans, *p.over)), frozenset(p.over))


def _is_one_loop(group: list[Part], new: Part) -> bool:
    mine = _axes(new)
    for p in group:
        other = _axes(p)
        if other.every != mine.every:
            return False
        if None not in (other.reduced, mine.reduced) and other.reduced != mine.reduced:
            return False
    return True


def _names(group: list[Part], new: Part) -> dict[str, Affine] | None:
    """The new statement's axes in terms of the group's; None where nothing connects them."""
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


def _by_steps(made: Map, new: Part, read: Fetch) -> dict[str, Affine] | None:
    """Axes that go the same steps through what is read are the same."""
    spans = (*new.spans, *(new.over if isinstance(new, Reduce) else ()))
    names: dict[str, Affine] = {}
    taken: set[str] = set()
    for a in spans:
        step = read.offset.factor(a.axis)
        found = [
            b
            for b in made.spans
            if b.axis not in taken
            and made.target.offset.factor(b.axis) == step
            and replace(b, axis=a.axis) == a
        ]
        if len(found) == 1:
            names[a.axis] = var(found[0].axis)
            taken.add(found[0].axis)
        elif a.size == 1 and a.base == Affine():
            names[a.axis] = Affine()
        else:
            return None
    return names


def _renamed(p: Part, names: Mapping[str, Affine]) -> Part:
    def spans(old: tuple[Span, ...]) -> tuple[Span, ...]:
        kept = ((s, names[s.axis].bare) for s in old)
        return tuple(replace(s, axis=name) for s, name in kept if name is not None)

    target, expr = moved(p.target, names), substitute(p.expr, names)
    if isinstance(p, Map):
        return Map(target, spans(p.spans), expr)
    return replace(p, target=target, spans=spans(p.spans), over=spans(p.over), expr=expr)
