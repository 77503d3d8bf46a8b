"""A contraction as register tiles over packed columns: `Panels` of `Contract` with the epilogue
behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, Read, substitute
from explorer.ir.kernels.normal import writers
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.forms import form_of, group_of
from explorer.ir.shapes.dims import Dim, ceil_div, floor_div, product, simplify, whole
from explorer.ir.tile_programs.elements import Do, Fetch, TileExpr
from explorer.ir.tile_programs.program import Packing
from explorer.ir.tile_programs.statements import Contract, For, Map, Pack, Panels, Span, Statement
from explorer.ir.tile_programs.traversal import with_loads
from explorer.tile.lowering.applied import applied
from explorer.tile.lowering.groups import in_groups, padded_extents
from explorer.tile.lowering.places import Place, Places, row_major
from explorer.tile.lowering.transposed_tile import turned_tile

MOST_STEPS = 4096  # of a table: a bound on memory, chosen
SHORT_RUN_ELEMENTS = 8  # chosen, no measurement kept

Walk: TypeAlias = tuple[tuple[int, ...], Dim, int]  # segments' starts, steps of each, their size


def depth_order(axes: tuple[Axis, ...], a: Fetch) -> tuple[Axis, ...]:
    """The summed axes from the longest step through the left operand to the shortest: the fewest
    segments.
    """
    steps = [a.offset.factor(x.name) for x in axes]
    if not all(isinstance(s, int) for s in steps):
        return axes
    return tuple(x for x, _ in sorted(zip(axes, steps, strict=True), key=lambda p: -abs(int(p[1]))))


def segments(steps: tuple[Dim, ...], extents: tuple[Dim, ...]) -> Walk | None:
    """Start offsets of the longest runs of equal step that the sum iterates over, the run's length
    and its step.

    None where they depend on symbols, so that no table can be made.
    """
    length, step, rest = extents[-1], steps[-1], len(extents) - 1
    while rest and simplify(steps[rest - 1] - length * step) == 0:
        length, rest = product((length, extents[rest - 1])), rest - 1
    outer = (*steps[:rest], *extents[:rest], step)
    if not all(isinstance(x, int) for x in outer) or (rest and not isinstance(length, int)):
        return None
    starts = [0]
    for stride, extent in zip(steps[:rest], extents[:rest], strict=True):
        starts = [s + int(stride) * i for s in starts for i in range(int(extent))]
    return tuple(starts), length, int(step)


def one_by_one(starts: tuple[int, ...], length: Dim, step: int) -> tuple[tuple[int, ...], Dim]:
    """Short runs as a table of every step: a loop of three steps costs more than a load in each."""
    if len(starts) == 1 or not isinstance(length, int) or not 1 < length < SHORT_RUN_ELEMENTS:
        return starts, length
    return tuple(s + i * step for s in starts for i in range(length)), 1


def walk_of(a: Fetch, depth: tuple[Axis, ...], group: int) -> Walk | None:
    """How the sum goes over the left operand; None where no table can have its segments."""
    extents = padded_extents(depth, group)
    walk = segments(tuple(a.offset.factor(x.name) for x in depth), extents)
    if walk is None or len(walk[0]) > MOST_STEPS:
        return None
    starts, length, step = walk
    length, step = (length, step) if group == 1 else (floor_div(length, group), group)
    return (*one_by_one(starts, length, step), step)


def rows_of(spans: Mapping[str, Span], found: Contraction) -> tuple[Span, ...]:
    """The loops over the rows; one point where there is no row axis."""
    return tuple(spans[x.name] for x in found.rows) or (Span("_one", Affine(), 1, 1),)


def contract(
    p: Places,
    n: int,
    c: Compute,
    found: Contraction,
    epilogue: Compute | None,
    halo: Mapping[Read, Place],
) -> list[Statement] | None:
    """The statements of one contraction within the tile; None where its depth cannot be iterated
    over by a table, or its columns have a halo on the left.
    """
    spans, micro = p.spans(n, c), p.tiling.micro.over(found.column.extent)
    name = c.out if len(writers(p.kernel, c.out)) == 1 else f"{c.out}_{n}"  # of one part
    column = spans[found.column.name]
    if column.clip_low:
        return None  # panels count from where the tile starts, which can be before the first column
    left = left_operand(p, n, c, found, halo)
    if left is None:
        return None
    a, depth, grouped, group = left
    part = packed_part(p.kernel, p.tiling, found, depth, column, p.element(found.b, {}))
    if part is not None:
        depth = tuple(part if x.name == part.name else x for x in depth)
    names = frozenset(x.name for x in depth)
    walk = walk_of(a, depth, group)
    if walk is None:
        return None
    starts, length, step = walk
    total = product(padded_extents(depth, group))
    p.tables[f"{name}_seg"] = starts
    columns = _columns(p, found, depth, column, total)
    if columns is None:
        return None
    b, b_step, prepare = columns
    dtype = p.kernel.dtype(c.out)
    acc = p.buffer(f"{name}_acc", "scratch", micro.rows * micro.columns, dtype, "L1")
    rows = rows_of(spans, found)
    count = ceil_div(product(tuple(s.size for s in rows)), micro.rows)
    table = p.buffer(f"{name}_rows", "scratch", product((count, micro.rows)), "int64", "L1")
    seg = p.buffer(f"{name}_seg", "table", len(starts), "int64")
    inner = Contract(
        acc, Fetch(a.buffer, a.offset.without(names)), seg, starts, length, step, b, b_step
    )
    mine = Fetch(acc, var("_r") * micro.columns + var(column.axis) - var("_j"))
    finish = epilogue_map(p, c, epilogue, mine, column)
    finish, copies = turned_tile(p, name, rows, column, finish)
    panels = Panels(rows, column, micro, inner, table, finish)
    if part is None:
        parts = [*prepare, *_in_blocks(p, panels, c, mine)]
    else:
        parts = _packed_in_parts(p, found, c, part, a, prepare, panels, mine)
    body: tuple[Statement, ...] = (*parts, *copies)
    for axis in reversed(found.batch):
        body = (For(spans[axis.name], body),)
    return [*grouped, *body]


def left_operand(
    p: Places, n: int, c: Compute, found: Contraction, halo: Mapping[Read, Place]
) -> tuple[Fetch, tuple[Axis, ...], list[Statement], int] | None:
    """The left operand, the summed axes as they are iterated over in it, what is copied before, and
    how many neighbours are multiplied in a group.
    """
    form = form_of(p.kernel, c, found)
    assert form is not None
    if form.group > 1:
        made = in_groups(p, n, found, halo, form.group)
        if made is None:
            return None
        a, last, copies = made
        order = depth_order(tuple(x for x in found.depth if x != last), a)
        return a, (*order, last), copies, form.group
    plain = p.element(found.a, halo)
    return plain, depth_order(found.depth, plain), [], 1


def epilogue_map(p: Places, c: Compute, epilogue: Compute | None, mine: Fetch, column: Span) -> Map:
    """What happens to a register tile: it is stored, or an element-wise compute is done on it."""
    if epilogue is None:
        return Map(p.place(c.out).at(c.target), (column,), mine)
    names = {e.name: var(x.name) for e, x in zip(epilogue.axes, c.axes, strict=True)}
    target = p.place(epilogue.out).at(tuple(i.substitute(names) for i in epilogue.target))
    expr = _with_sum(p, substitute(epilogue.expr, names), c.out, mine)
    return Map(target, (column,), expr)


def _with_sum(p: Places, expr: Expr, tensor: str, mine: Fetch) -> TileExpr:
    match expr:
        case Read(name, _, _) if name == tensor:
            return mine
        case Apply(op, args):
            return applied(op, tuple(_with_sum(p, a, tensor, mine) for a in args))
        case _:
            return p.resolve(expr, {})


def packed_part(
    kernel: Kernel,
    tiling: Tiling,
    found: Contraction,
    depth: tuple[Axis, ...],
    column: Span,
    source: Fetch,
) -> Axis | None:
    """The summed axis that goes around all others of the right operand, as long as it is in one
    block of the depth: so much is packed and multiplied at a time, and panels of that block alone
    are held. None where nothing is packed in the tile, or no equal parts are as long as a block.
    """
    extents = [x.extent for x in depth]
    block, ahead = tiling.depth_block, found.b.tensor in kernel.constants
    grouped = group_of(kernel.dtype(found.a.tensor)) > 1
    if not block or ahead or grouped or not all(isinstance(n, int) for n in extents):
        return None
    steps = [source.offset.factor(x.name) for x in depth]
    total = prod(int(n) for n in extents)
    if not all(isinstance(s, int) for s in steps) or total <= block:
        return None
    if panels_of(kernel, tiling, found, depth, column, source)[0] != "tile":
        return None
    _, around = max(zip(steps, depth, strict=True), key=lambda pair: abs(int(pair[0])))
    whole = int(around.extent)
    rest = total // whole
    lengths = range(block // (4 * rest) + 1, min(whole, block // rest + 1))
    parts = [n for n in lengths if whole % n == 0]  # of a quarter of a block at least
    return replace(around, extent=max(parts)) if parts else None


def part_count(part: Axis, found: Contraction) -> int:
    """How many parts a depth has that is packed in those of one axis."""
    return next(int(x.extent) for x in found.depth if x.name == part.name) // int(part.extent)


def _packed_in_parts(
    p: Places,
    found: Contraction,
    c: Compute,
    part: Axis,
    a: Fetch,
    prepare: list[Pack],
    whole: Panels,
    mine: Fetch,
) -> list[Statement]:
    """Each part of the depth packed, then multiplied."""
    size, k = int(part.extent), whole.contract
    left = a.offset.factor(part.name) * size
    right = p.element(found.b, {}).offset.factor(part.name) * size

    def from_part(fetch: Fetch, number: Affine, step: Dim) -> Fetch:
        return replace(fetch, offset=fetch.offset + number * step)

    def of(number: Affine, _: int, epilogue: Map) -> list[Statement]:
        packs = [replace(s, source=from_part(s.source, number, right)) for s in prepare]
        b = k.b if packs else from_part(k.b, number, right)
        inner = replace(k, a=from_part(k.a, number, left), b=b)
        return [*packs, replace(whole, contract=inner, epilogue=epilogue)]

    return _summed(of, summed_in_parts(p, c, whole.epilogue, mine), part_count(part, found), 0, 0)


def depth_parts(block: int, starts: tuple[int, ...], depth: Dim) -> int:
    """In how many parts a depth is summed: one where it is no single run longer than a block."""
    if not block or not isinstance(depth, int) or len(starts) > 1:
        return 1
    return max(1, -(-depth // block))


def _in_blocks(p: Places, panels: Panels, c: Compute, mine: Fetch) -> list[Statement]:
    """The depth in blocks, so that a panel of both operands stays in cache."""
    block, k = p.tiling.depth_block, panels.contract
    count = depth_parts(block, k.segment_values, k.depth)
    if count == 1 or not isinstance(k.depth, int):
        return [panels]

    def of(number: Affine, depth: int, epilogue: Map) -> list[Statement]:
        a = replace(k.a, offset=k.a.offset + number * (block * k.a_step))
        b = replace(k.b, offset=k.b.offset + number * (block * k.b_step))
        return [replace(panels, contract=replace(k, a=a, b=b, depth=depth), epilogue=epilogue)]

    rest = k.depth - (count - 1) * block
    return _summed(of, summed_in_parts(p, c, panels.epilogue, mine), count, block, rest)


def _summed(
    part: Callable[[Affine, int, Map], list[Statement]],
    epilogues: tuple[Map, Map, Map],
    count: int,
    depth: int,
    rest: int,
) -> list[Statement]:
    """The parts of a depth one after another. `part`: one by its number, its steps, of which the
    last has the `rest`, and what happens to its sums.
    """
    first, between, last = epilogues
    out = part(Affine(), depth, first)
    if count > 2:
        span = Span("_block", Affine((), 1), count - 2, count)
        out.append(For(span, tuple(part(var("_block"), depth, between))))
    return [*out, *part(Affine((), count - 1), rest, last)]


def summed_in_parts(p: Places, c: Compute, epilogue: Map, mine: Fetch) -> tuple[Map, Map, Map]:
    """What happens to the sums of the first part of a depth, of one between, and of the last: those
    so far rest in scratch. `mine` is a register tile's in the epilogue.
    """
    ranges = p.regions.tensors[c.out]
    partial = p.scratch(f"{c.out}_partial", ranges, p.kernel.dtype(c.out)).at(c.target)
    so_far = Do("add", (mine, partial))
    return (
        replace(epilogue, target=partial, expr=mine),
        replace(epilogue, target=partial, expr=so_far),
        replace(epilogue, expr=with_loads(epilogue.expr, lambda f: so_far if f == mine else f)),
    )


def _columns(
    p: Places,
    found: Contraction,
    depth: tuple[Axis, ...],
    column: Span,
    total: Dim,
) -> tuple[Fetch, int, list[Pack]] | None:
    """The right operand as panels: where they are, how far apart its steps are, and what is packed
    before.
    """
    lanes = p.tiling.micro.over(found.column.extent).columns
    names = frozenset(x.name for x in depth)
    source = p.element(found.b, {})
    group = group_of(p.kernel.dtype(found.a.tensor))
    where, step = panels_of(p.kernel, p.tiling, found, depth, column, source)
    if where == "ahead":
        first = _first_packed(column.base, lanes)
        packed = _packed_ahead(p, found, depth, source, whole(total), group, first)
        return None if packed is None else (packed, lanes * group, [])
    if where == "in place":
        offset = source.offset.without(names).substitute({column.axis: var("_j")})
        return Fetch(source.buffer, offset), step, []
    size = product((ceil_div(column.size, lanes), lanes, total))
    name = f"{found.b.tensor}_panels{len(p.buffers)}"
    panels = p.buffer(name, "scratch", size, source.buffer.dtype, "L2")
    over = tuple(Span(x.name, Affine(), x.extent, x.extent) for x in depth)
    return (
        Fetch(panels, (var("_j") - column.base) * total),
        lanes * group,
        [Pack(panels, source, column, over, lanes, group)],
    )


def panels_of(
    kernel: Kernel,
    tiling: Tiling,
    found: Contraction,
    depth: tuple[Axis, ...],
    column: Span,
    source: Fetch,
) -> tuple[str, int]:
    """Where the panels of the right operand are, and how far apart its steps lie there where it is
    "in place": rows of it are panels. Else they are packed "ahead" if it is constant, or in the
    "tile".
    """
    walked = {x.name for x in (*found.batch, found.column, *depth)}
    own = source.offset.variables <= walked  # in no block of another
    if found.b.tensor in kernel.constants and own and all(isinstance(x.extent, int) for x in depth):
        return "ahead", 0
    lanes = tiling.micro.over(found.column.extent).columns
    even = isinstance(column.size, int) and column.size % lanes == 0 and not column.clip_high
    group = group_of(kernel.dtype(found.a.tensor))
    if tiling.pack or group > 1 or not even or source.offset.factor(column.axis) != 1:
        return "tile", 0
    steps = tuple(source.offset.factor(x.name) for x in depth)
    walk = segments(steps, tuple(x.extent for x in depth))
    return ("tile", 0) if walk is None or len(walk[0]) > 1 else ("in place", walk[2])


def _first_packed(base: Affine, lanes: int) -> Dim:
    """The column that panels packed ahead begin at, so that every tile begins at one of them."""
    if not base.terms:
        return base.const
    return base.const % lanes if isinstance(base.const, int) else base.const


def _packed_ahead(
    p: Places,
    found: Contraction,
    depth: tuple[Axis, ...],
    source: Fetch,
    total: int,
    group: int,
    first: Dim,
) -> Fetch | None:
    lanes = p.tiling.micro.over(found.column.extent).columns
    order = (*found.batch, found.column, *depth)
    extents, steps = [x.extent for x in order], [source.offset.factor(x.name) for x in order]
    if not all(isinstance(x, int) for x in (*extents, *steps, source.offset.const, first)):
        return None
    ext, begin, batch = [int(e) for e in extents], int(first), len(found.batch)
    ext[batch] = columns = ext[batch] - begin
    name = f"{found.b.tensor}_packed"
    made = Packing(
        name,
        found.b.tensor,
        tuple(ext),
        tuple(int(s) for s in steps),
        int(source.offset.const) + begin * int(steps[batch]),
        batch,
        lanes,
        source.buffer.dtype,
        group,
    )
    while any(q.name == name and q != made for q in p.packings):
        name += "_"
        made = replace(made, name=name)
    if made not in p.packings:
        p.packings.append(made)
    one = -(-columns // lanes) * lanes * total
    offset = (var("_j") - begin) * total
    for x, stride in zip(found.batch, row_major(tuple(ext[:batch])), strict=True):
        offset = offset + var(x.name) * product((stride, one))
    size = prod(ext[:batch]) * one
    return Fetch(p.buffer(name, "packed", size, source.buffer.dtype), offset)
