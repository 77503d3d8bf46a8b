"""Maps and reductions over the same points become one loop: what one makes and the next reads stays
in registers.

e[r] = exp(x[r] - m); s = sum[r] e[r]   ->   one pass: e[r] = exp(x[r] - m), s = sum of it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from explorer.ir.kernel import Affine, Const, IndexValue, var
from explorer.ir.tile_program import (
    Do,
    Fetch,
    For,
    Map,
    OnePass,
    Reduce,
    Span,
    Statement,
    TileExpr,
    fetches,
)

Part = Map | Reduce


def in_one_pass(body: Iterable[Statement]) -> tuple[Statement, ...]:
    """After: neighbours that walk the same points are one `OnePass`, where one of them reduces."""
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
    moved = _renamed(new, names)
    if isinstance(moved, Reduce) and not moved.over:
        return None
    made = {p.target.buffer for p in group}
    folded = {p.target.buffer for p in group if isinstance(p, Reduce)}
    points = {p.target for p in group if isinstance(p, Map)}
    read = fetches(moved.expr)
    if any(f.buffer in folded or (f.buffer in made and f not in points) for f in read):
        return None
    if moved.target.buffer in made or any(
        f.buffer == moved.target.buffer for p in group for f in fetches(p.expr)
    ):
        return None
    return moved if _is_one_loop(group, moved) else None


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

    target, expr = _moved(p.target, names), _moved_expr(p.expr, names)
    if isinstance(p, Map):
        return Map(target, spans(p.spans), expr)
    return replace(p, target=target, spans=spans(p.spans), over=spans(p.over), expr=expr)


def _moved(f: Fetch, names: Mapping[str, Affine]) -> Fetch:
    dynamic = tuple((_moved_expr(i, names), s, n) for i, s, n in f.dynamic)
    return replace(f, offset=f.offset.substitute(names), dynamic=dynamic)


def _moved_expr(e: TileExpr, names: Mapping[str, Affine]) -> TileExpr:
    match e:
        case Do(op, args):
            return Do(op, tuple(_moved_expr(a, names) for a in args))
        case Fetch():
            return _moved(e, names)
        case IndexValue(index):
            return IndexValue(index.substitute(names))
        case Const():
            return e
