"""Contractions as register tiles over packed columns: `Panels` of `Contract`, then the epilogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from explorer.ir.affine import Affine, var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, ceil_div, concrete_dim, floor_div, product, simplify
from explorer.ir.kernel import Apply, Axis, Compute, Const, Expr, Kernel, Read, substitute
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.forms import Form, form_of
from explorer.ir.kernels.normal import writers
from explorer.ir.tile_program import (
    Buffer,
    Contract,
    Do,
    Fetch,
    For,
    Map,
    Pack,
    Packing,
    Panels,
    Span,
    Statement,
    TileExpr,
)
from explorer.ir.tile_traversal import with_loads
from explorer.tile.lowering.groups import in_groups, padded_extents
from explorer.tile.lowering.places import BufferPlaces, TensorPlace, applied, row_major
from explorer.tile.lowering.tile_epilogue import axes_of_reader, transposed_tile

MOST_STEPS = 4096  # of a table: a bound on memory, chosen
SHORT_RUN_ELEMENTS = 8  # chosen, no measurement kept

Walk: TypeAlias = tuple[
    tuple[int, ...], Dim, int
]  # starts of segments, steps of each, their stride


def depth_order(axes: tuple[Axis, ...], a: Fetch) -> tuple[Axis, ...]:
    """Return the summed axes from the longest stride in the left operand to the shortest.

    This order has the fewest segments.
    """
    steps = [a.offset.factor(x.name) for x in axes]
    if not all(isinstance(s, int) for s in steps):
        return axes
    return tuple(x for x, _ in sorted(zip(axes, steps, strict=True), key=lambda p: -abs(int(p[1]))))


def segments(steps: tuple[Dim, ...], extents: tuple[Dim, ...]) -> Walk | None:
    """Return the start offsets of the longest runs of equal step in a sum, their length and step.

    None if they depend on symbols, so that no table can be made.
    """
    length, step, outer_axes = extents[-1], steps[-1], len(extents) - 1
    while outer_axes and simplify(steps[outer_axes - 1] - length * step) == 0:
        length, outer_axes = product((length, extents[outer_axes - 1])), outer_axes - 1
    outer = (*steps[:outer_axes], *extents[:outer_axes], step)
    if not all(isinstance(x, int) for x in outer) or (outer_axes and not isinstance(length, int)):
        return None
    starts = [0]
    for stride, extent in zip(steps[:outer_axes], extents[:outer_axes], strict=True):
        starts = [s + int(stride) * i for s in starts for i in range(int(extent))]
    return tuple(starts), length, int(step)


def expand_short_runs(
    starts: tuple[int, ...], length: Dim, step: int
) -> tuple[tuple[int, ...], Dim]:
    """Expand short runs into a table of every step.

    A loop of three steps costs more than a load in each.
    """
    if len(starts) == 1 or not isinstance(length, int) or not 1 < length < SHORT_RUN_ELEMENTS:
        return starts, length
    return tuple(s + i * step for s in starts for i in range(length)), 1


def walk_of(a: Fetch, depth: tuple[Axis, ...], group: int) -> Walk | None:
    """Return how the sum visits the left operand; None if its segments fit no table."""
    extents = padded_extents(depth, group)
    walk = segments(tuple(a.offset.factor(x.name) for x in depth), extents)
    if walk is None or len(walk[0]) > MOST_STEPS:
        return None
    starts, length, step = walk
    length, step = (length, step) if group == 1 else (floor_div(length, group), group)
    return (*expand_short_runs(starts, length, step), step)


def rows_of(spans: Mapping[str, Span], contraction: Contraction) -> tuple[Span, ...]:
    """Return the loops over the rows; one point if there is no row axis."""
    return tuple(spans[x.name] for x in contraction.rows) or (Span("_one", Affine(), 1, 1),)


def contract(
    p: BufferPlaces,
    n: int,
    c: Compute,
    form: Contraction,
    epilogue: Compute | None,
    halo: Mapping[Read, TensorPlace],
) -> list[Statement] | None:
    """Return the statements of one contraction within the tile, or None.

    None if no table can describe its depth, or if its columns have a halo on the left.
    """
    spans, micro = p.spans(n, c), p.tiling.micro.over(form.column.extent)
    name = (
        c.out if len(writers(p.kernel, c.out)) == 1 else f"{c.out}_{n}"
    )  # unique among parts of a tensor
    column = spans[form.column.name]
    if column.clip_low:
        return None  # panels count from where the tile starts, which can be before the first column
    left = left_operand(p, n, c, form, halo)
    if left is None:
        return None
    a, depth, grouped, group = left
    part = packed_part(p.kernel, p.tiling, form, depth, column, p.element(form.b, {}))
    if part is not None:
        depth = tuple(part if x.name == part.name else x for x in depth)
    names = frozenset(x.name for x in depth)
    walk = walk_of(a, depth, group)
    if walk is None:
        return None
    starts, length, step = walk
    total = product(padded_extents(depth, group))
    p.tables[f"{name}_seg"] = starts
    in_parts = epilogue is not None and bool(epilogue.reduce)
    columns = _right_panels(p, form, depth, column, total, in_parts)
    if columns is None:
        return None
    b, b_step, prepare = columns
    dtype = p.kernel.dtype(c.out)
    acc = p.buffer(f"{name}_acc", "scratch", micro.rows * micro.columns, dtype, "L1")
    rows = rows_of(spans, form)
    count = ceil_div(product(tuple(s.size for s in rows)), micro.rows)
    table = p.buffer(f"{name}_rows", "scratch", product((count, micro.rows)), "int64", "L1")
    seg = p.buffer(f"{name}_seg", "table", len(starts), "int64")
    inner = Contract(
        acc, Fetch(a.buffer, a.offset.without(names)), seg, starts, length, step, b, b_step
    )
    sums = Fetch(acc, var("_r") * micro.columns + var(column.axis) - var("_j"))
    finish = epilogue_map(p, c, epilogue, sums, column)
    if in_parts:
        finish = _with_packed_rows(p, finish, spans[form.batch[0].name])
    finish, copies = transposed_tile(p, name, rows, column, finish)
    panels = Panels(rows, column, micro, inner, table, finish)
    if in_parts:
        assert epilogue is not None
        several = depth_parts(p.tiling.depth_block, starts, length) > 1
        if part is not None or prepare or copies or several:
            return None
        return [*grouped, *_sum_batch(p, c, epilogue, panels, spans[form.batch[0].name])]
    if part is None:
        parts = [*prepare, *_split_depth(p, panels, c, sums)]
    else:
        parts = _pack_in_parts(p, form, c, part, a, prepare, panels, sums)
    body: tuple[Statement, ...] = (*parts, *copies)
    for axis in reversed(form.batch):
        body = (For(spans[axis.name], body),)
    return [*grouped, *body]


def left_operand(
    p: BufferPlaces, n: int, c: Compute, contraction: Contraction, halo: Mapping[Read, TensorPlace]
) -> tuple[Fetch, tuple[Axis, ...], list[Statement], int] | None:
    """Return the left operand, the summed axes in its order, the copies before, and the group size.

    The group size is the number of neighbours that are multiplied together.
    """
    form = form_of(p.kernel, c, contraction)
    assert form is not None
    if form.group > 1:
        grouped = in_groups(p, n, contraction, halo, form)
        if grouped is None:
            return None
        a, last, copies = grouped
        order = depth_order(tuple(x for x in contraction.depth if x != last), a)
        return a, (*order, last), copies, form.group
    plain = p.element(contraction.a, halo)
    return plain, depth_order(contraction.depth, plain), [], 1


def epilogue_map(
    p: BufferPlaces, c: Compute, epilogue: Compute | None, sums: Fetch, column: Span
) -> Map:
    """Return the map on a register tile: a store, or an element-wise epilogue."""
    if epilogue is None:
        return Map(p.place(c.out).at(c.target), (column,), sums)
    if epilogue.reduce:
        return _batch_map(p, c, epilogue, sums, column)
    names = {e.name: var(x.name) for e, x in zip(epilogue.axes, c.axes, strict=True)}
    target = p.place(epilogue.out).at(tuple(i.substitute(names) for i in epilogue.target))
    expr = _with_sum(p, substitute(epilogue.expr, names), c.out, sums)
    return Map(target, (column,), expr)


def _batch_map(p: BufferPlaces, c: Compute, epilogue: Compute, sums: Fetch, column: Span) -> Map:
    """Return the map that adds an element of each register tile to the sum over the batch."""
    names = {e: var(x) for e, x in axes_of_reader(c, epilogue).items()}
    index = tuple(i.substitute(names) for i in epilogue.target)
    place, region = p.place(epilogue.out), p.regions.tensors[epilogue.out]
    if place.buffer.kind != "scratch":
        place = p.scratch(f"{epilogue.out}_total", region, p.kernel.dtype(epilogue.out))
    total = place.at(index)
    element = _with_sum(p, substitute(epilogue.expr, names), c.out, sums)
    return Map(total, (column,), Do("add", (total, element)))


def _with_packed_rows(p: BufferPlaces, finish: Map, block: Span) -> Map:
    """Return the map with constants that it reads along the columns in panels packed ahead.

    A scale for each block and column then lies beside those of the blocks before and after, as the
    weights do: a row of the constant is far from the next one.
    """
    (column,) = finish.spans
    lanes = p.tiling.micro.over(column.extent).columns
    tensors = {p.place(t).buffer: t for t in p.kernel.constants}
    begin, count = _first_packed(column.base, lanes), block.extent

    def packed(f: Fetch) -> TileExpr:
        step = f.offset.factor(block.axis)
        rows = f.offset.variables <= {block.axis, column.axis} and f.offset.factor(column.axis) == 1
        sizes = (step, f.offset.const, begin, column.extent, count)
        if f.buffer not in tensors or f.dynamic or not rows or step == 0:
            return f
        if not all(isinstance(n, int) for n in sizes):
            return f
        step, first, start, columns, blocks = map(int, sizes)
        own = Packing(
            f"{tensors[f.buffer]}_packed",
            tensors[f.buffer],
            (columns - start, blocks),
            (1, step),
            first + start,
            0,
            lanes,
            f.buffer.dtype,
        )
        size = -(-(columns - start) // lanes) * lanes * blocks
        offset = (var("_j") - start) * blocks + var(block.axis) * lanes
        return Fetch(_packed_buffer(p, own, size), offset + var(column.axis) - var("_j"))

    return replace(finish, expr=with_loads(finish.expr, packed))


def _packed_buffer(p: BufferPlaces, packing: Packing, size: int) -> Buffer:
    """Return the buffer of a constant in a layout, under a name of its own."""
    while any(q.name == packing.name and q != packing for q in p.packings):
        packing = replace(packing, name=f"{packing.name}_")
    if packing not in p.packings:
        p.packings.append(packing)
    return p.buffer(packing.name, "packed", size, packing.dtype)


def _sum_batch(
    p: BufferPlaces, c: Compute, epilogue: Compute, panels: Panels, block: Span
) -> list[Statement]:
    """Return the sums over a batch: cleared, added to for each of it, and copied to their place."""
    total, every = panels.epilogue.target, (*panels.rows, panels.columns)
    names = {e: var(x) for e, x in axes_of_reader(c, epilogue).items()}
    target = p.place(epilogue.out).at(tuple(i.substitute(names) for i in epilogue.target))
    copy = [] if target.buffer == total.buffer else [Map(target, every, total)]
    sums: Statement = For(block, (panels,))
    columns, width = panels.columns, panels.micro.columns
    if isinstance(columns.size, int):
        first, count = columns.base + var("_strip") * width, -(-columns.size // width)
        clipped = columns.clip_high or columns.size % width != 0  # a tile ends at a panel, or last
        strip = replace(columns, base=first, size=width, clip_high=clipped)
        each = For(block, (replace(panels, columns=strip),))
        sums = For(Span("_strip", Affine(), count, count), (each,))
    return [Map(total, every, Const(0.0)), sums, *copy]


def _with_sum(p: BufferPlaces, expr: Expr, tensor: str, sums: Fetch) -> TileExpr:
    match expr:
        case Read(name, _, _) if name == tensor:
            return sums
        case Apply(op, args):
            return applied(op, tuple(_with_sum(p, a, tensor, sums) for a in args))
        case _:
            return p.resolve(expr, {})


def packed_part(
    kernel: Kernel,
    tiling: Tiling,
    contraction: Contraction,
    depth: tuple[Axis, ...],
    column: Span,
    source: Fetch,
) -> Axis | None:
    """Return the outermost summed axis of the right operand with the extent of one part, or None.

    A part is as long as fits one block of the depth: so much is packed and multiplied at a time,
    and only the panels of that part are in memory. None if nothing is packed in the tile, or if no
    equal parts are as long as a block.
    """
    extents = [x.extent for x in depth]
    block, ahead = tiling.depth_block, contraction.b.tensor in kernel.constants
    grouped = _form(kernel, contraction).group > 1
    if not block or ahead or grouped or not all(isinstance(n, int) for n in extents):
        return None
    steps = [source.offset.factor(x.name) for x in depth]
    total = prod(int(n) for n in extents)
    if not all(isinstance(s, int) for s in steps) or total <= block:
        return None
    if panels_of(kernel, tiling, contraction, depth, column, source)[0] != "tile":
        return None
    _, around = max(zip(steps, depth, strict=True), key=lambda pair: abs(int(pair[0])))
    extent = int(around.extent)
    inner_points = total // extent
    lengths = range(block // (4 * inner_points) + 1, min(extent, block // inner_points + 1))
    parts = [n for n in lengths if extent % n == 0]  # at least a quarter of a block each
    return replace(around, extent=max(parts)) if parts else None


def part_count(part: Axis, contraction: Contraction) -> int:
    """Return the number of parts of a depth that is packed in parts of one axis."""
    return next(int(x.extent) for x in contraction.depth if x.name == part.name) // int(part.extent)


def _pack_in_parts(
    p: BufferPlaces,
    contraction: Contraction,
    c: Compute,
    part: Axis,
    a: Fetch,
    prepare: list[Pack],
    panels: Panels,
    sums: Fetch,
) -> list[Statement]:
    """Return each part of the depth packed, then multiplied."""
    size, k = int(part.extent), panels.contract
    left = a.offset.factor(part.name) * size
    right = p.element(contraction.b, {}).offset.factor(part.name) * size

    def from_part(fetch: Fetch, number: Affine, step: Dim) -> Fetch:
        return replace(fetch, offset=fetch.offset + number * step)

    def of(number: Affine, _: int, epilogue: Map) -> list[Statement]:
        packs = [replace(s, source=from_part(s.source, number, right)) for s in prepare]
        b = k.b if packs else from_part(k.b, number, right)
        inner = replace(k, a=from_part(k.a, number, left), b=b)
        return [*packs, replace(panels, contract=inner, epilogue=epilogue)]

    return _sum_parts(
        of, summed_in_parts(p, c, panels.epilogue, sums), part_count(part, contraction), 0, 0
    )


def depth_parts(block: int, starts: tuple[int, ...], depth: Dim) -> int:
    """Return in how many parts a depth is summed.

    It is one unless the depth is a single run longer than a block.
    """
    if not block or not isinstance(depth, int) or len(starts) > 1:
        return 1
    return max(1, -(-depth // block))


def _split_depth(p: BufferPlaces, panels: Panels, c: Compute, sums: Fetch) -> list[Statement]:
    """Split the depth into blocks, so that a panel of both operands stays in cache."""
    block, k = p.tiling.depth_block, panels.contract
    count = depth_parts(block, k.segment_values, k.depth)
    if count == 1 or not isinstance(k.depth, int):
        return [panels]

    def of(number: Affine, depth: int, epilogue: Map) -> list[Statement]:
        a = replace(k.a, offset=k.a.offset + number * (block * k.a_step))
        b = replace(k.b, offset=k.b.offset + number * (block * k.b_step))
        return [replace(panels, contract=replace(k, a=a, b=b, depth=depth), epilogue=epilogue)]

    last_depth = k.depth - (count - 1) * block
    return _sum_parts(of, summed_in_parts(p, c, panels.epilogue, sums), count, block, last_depth)


def _sum_parts(
    part: Callable[[Affine, int, Map], list[Statement]],
    epilogues: tuple[Map, Map, Map],
    count: int,
    depth: int,
    last_depth: int,
) -> list[Statement]:
    """Return the parts of a depth one after another.

    `part` makes one from its number, its steps, of which the last has `last_depth`, and the map on
    its sums.
    """
    first, between, last = epilogues
    out = part(Affine(), depth, first)
    if count > 2:
        span = Span("_block", Affine((), 1), count - 2, count)
        out.append(For(span, tuple(part(var("_block"), depth, between))))
    return [*out, *part(Affine((), count - 1), last_depth, last)]


def summed_in_parts(
    p: BufferPlaces, c: Compute, epilogue: Map, sums: Fetch
) -> tuple[Map, Map, Map]:
    """Return the maps on the sums of the first part of a depth, of one between, and of the last.

    Partial sums lie in scratch. `sums` is a register tile's sum in the epilogue.
    """
    ranges = p.regions.tensors[c.out]
    partial = p.scratch(f"{c.out}_partial", ranges, p.kernel.dtype(c.out)).at(c.target)
    so_far = Do("add", (sums, partial))
    return (
        replace(epilogue, target=partial, expr=sums),
        replace(epilogue, target=partial, expr=so_far),
        replace(epilogue, expr=with_loads(epilogue.expr, lambda f: so_far if f == sums else f)),
    )


def _right_panels(
    p: BufferPlaces,
    contraction: Contraction,
    depth: tuple[Axis, ...],
    column: Span,
    total: Dim,
    in_parts: bool,
) -> tuple[Fetch, int, list[Pack]] | None:
    """Return the right operand as panels: its place, its step, and what is packed before.

    `in_parts`: the batch axis is the outer part of the depth, and lies so in panels packed ahead.
    """
    lanes = p.tiling.micro.over(contraction.column.extent).columns
    names = frozenset(x.name for x in depth)
    source = p.element(contraction.b, {})
    form = _form(p.kernel, contraction)
    group = form.group
    where, step = panels_of(p.kernel, p.tiling, contraction, depth, column, source)
    if where == "ahead":
        first = _first_packed(column.base, lanes)
        size = concrete_dim(total)
        packed = _pack_ahead(p, contraction, depth, source, size, form, first, in_parts)
        return None if packed is None else (packed, lanes * form.cells, [])
    if where == "in place":
        offset = source.offset.without(names).substitute({column.axis: var("_j")})
        return Fetch(source.buffer, offset), step, []
    size = product((ceil_div(column.size, lanes), lanes, total))
    name = f"{contraction.b.tensor}_panels{len(p.buffers)}"
    panels = p.buffer(name, "scratch", size, source.buffer.dtype, "L2")
    over = tuple(Span(x.name, Affine(), x.extent, x.extent) for x in depth)
    return (
        Fetch(panels, (var("_j") - column.base) * total),
        lanes * group,
        [Pack(panels, source, column, over, lanes, group)],
    )


def _form(kernel: Kernel, contraction: Contraction) -> Form:
    """Return the types of the operands, whatever that of the sums is."""
    left, right = (kernel.dtype(r.tensor) for r in contraction.operands)
    return Form(left, right, "")


def panels_of(
    kernel: Kernel,
    tiling: Tiling,
    contraction: Contraction,
    depth: tuple[Axis, ...],
    column: Span,
    source: Fetch,
) -> tuple[str, int]:
    """Return the place of the right operand's panels, and its step if it is "in place".

    Rows of it are panels then. Otherwise they are packed "ahead" if it is constant, or in the
    "tile".
    """
    walked = {x.name for x in (*contraction.batch, contraction.column, *depth)}
    own = source.offset.variables <= walked  # independent of other axes' blocks
    if (
        contraction.b.tensor in kernel.constants
        and own
        and all(isinstance(x.extent, int) for x in depth)
    ):
        return "ahead", 0
    lanes = tiling.micro.over(contraction.column.extent).columns
    even = isinstance(column.size, int) and column.size % lanes == 0 and not column.clip_high
    group = _form(kernel, contraction).group
    if tiling.pack or group > 1 or not even or source.offset.factor(column.axis) != 1:
        return "tile", 0
    steps = tuple(source.offset.factor(x.name) for x in depth)
    walk = segments(steps, tuple(x.extent for x in depth))
    return ("tile", 0) if walk is None or len(walk[0]) > 1 else ("in place", walk[2])


def _first_packed(base: Affine, lanes: int) -> Dim:
    """Return the first column of panels packed ahead, so that every tile begins at a panel."""
    if not base.terms:
        return base.const
    return base.const % lanes if isinstance(base.const, int) else base.const


def _pack_ahead(
    p: BufferPlaces,
    contraction: Contraction,
    depth: tuple[Axis, ...],
    source: Fetch,
    total: int,
    form: Form,
    first: Dim,
    in_parts: bool,
) -> Fetch | None:
    """Return the right operand's panels in a constant packed ahead; None if sizes are symbolic."""
    lanes = p.tiling.micro.over(contraction.column.extent).columns
    around = () if in_parts else contraction.batch
    inside = contraction.batch if in_parts else ()
    order = (*around, contraction.column, *inside, *depth)
    extents, steps = [x.extent for x in order], [source.offset.factor(x.name) for x in order]
    if not all(isinstance(x, int) for x in (*extents, *steps, source.offset.const, first)):
        return None
    ext, begin, batch = [int(e) for e in extents], int(first), len(around)
    ext[batch] = columns = ext[batch] - begin
    packing = Packing(
        f"{contraction.b.tensor}_packed",
        contraction.b.tensor,
        tuple(ext),
        tuple(int(s) for s in steps),
        int(source.offset.const) + begin * int(steps[batch]),
        batch,
        lanes,
        source.buffer.dtype,
        form.group,
    )
    part = total * form.cells // form.group  # of a column, for one point of the batch
    cells = part * prod(int(x.extent) for x in inside)
    batch_size = -(-columns // lanes) * lanes * cells
    offset = (var("_j") - begin) * cells
    for x in inside:
        offset = offset + var(x.name) * (part * lanes)
    for x, stride in zip(around, row_major(tuple(ext[:batch])), strict=True):
        offset = offset + var(x.name) * product((stride, batch_size))
    return Fetch(_packed_buffer(p, packing, prod(ext[:batch]) * batch_size), offset)
