"""Maps over the same points that become one loop: what they share is loaded and computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.codegen.vector_loops import has_vector_loop
from explorer.ir.kernel import Affine, IndexValue, var
from explorer.ir.tile_program import Do, Fetch, Map, OnePass, Statement, TileExpr, fetches

MOST_TOGETHER = 8  # maps of one loop: what they load stays in registers


def map_groups(body: Sequence[Statement]) -> dict[int, OnePass]:
    """Runs of maps that one loop can do side by side, by the position of the first of each."""
    found: dict[int, OnePass] = {}
    position = 0
    for group in together(body):
        maps = tuple(m for m in group if isinstance(m, Map))
        if len(maps) > 1:
            found[position] = OnePass(maps)
        position += len(group)
    return found


def together(body: Sequence[Statement]) -> list[tuple[Statement, ...]]:
    """The statements in order, with runs of maps that share a loop."""
    groups: list[tuple[Statement, ...]] = []
    for s in body:
        joined = _joined(groups[-1], s) if groups and isinstance(s, Map) else None
        if joined is not None:
            groups[-1] = (*groups[-1], joined)
        else:
            groups.append((s,))
    return groups


def _joined(group: tuple[Statement, ...], new: Map) -> Map | None:
    """The map under the axes of the maps before it; None where it does not walk their points, or
    reads what they write, or writes what they read.
    """
    maps = tuple(m for m in group if isinstance(m, Map))
    if len(maps) < len(group) or len(maps) == MOST_TOGETHER:
        return None
    written = {m.target.buffer.name for m in maps}
    read = {f.buffer.name for m in maps for f in fetches(m.expr)}
    if written & {f.buffer.name for f in fetches(new.expr)} or new.target.buffer.name in read:
        return None
    first = maps[0]
    names = {s.axis: f.axis for s, f in zip(new.spans, first.spans, strict=False)}
    if tuple(replace(s, axis=names.get(s.axis, s.axis)) for s in new.spans) != first.spans:
        return None
    values = {old: var(axis) for old, axis in names.items() if old != axis}
    joined = Map(_moved(new.target, values), first.spans, _renamed(new.expr, values))
    return joined if has_vector_loop(OnePass((*maps, joined))) else None


def _moved(f: Fetch, values: Mapping[str, Affine]) -> Fetch:
    return replace(f, offset=f.offset.substitute(values)) if values else f


def _renamed(expr: TileExpr, values: Mapping[str, Affine]) -> TileExpr:
    match expr:
        case Do(op, args):
            return Do(op, tuple(_renamed(a, values) for a in args))
        case Fetch():
            return _moved(expr, values)
        case IndexValue(index):
            return IndexValue(index.substitute(values))
        case _:
            return expr
