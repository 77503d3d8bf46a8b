"""Kernel and tiling -> tile program.

Contractions are recognised by their structure; no operator is known by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.affine import Affine, var
from explorer.ir.by_identity import by_identity
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, product
from explorer.ir.kernel import Compute, Kernel, Read, reads, substitute
from explorer.ir.kernels.contraction import Contraction, contraction, few_columns, is_rows_by_vector
from explorer.ir.kernels.forms import form_of
from explorer.ir.kernels.normal import stores, writers
from explorer.ir.kernels.regions import Interval, propagate, tile_variable
from explorer.ir.kernels.running import Running, running, slides
from explorer.ir.kernels.scatter import patch, scatter
from explorer.ir.tile_program import Fill, For, Grid, Map, Reduce, Scan, Statement, TileProgram
from explorer.ir.tile_traversal import without_unused
from explorer.tile.lowering.block_by_block import block_by_block
from explorer.tile.lowering.contract import contract
from explorer.tile.lowering.groups import can_group
from explorer.tile.lowering.places import BufferPlaces, TensorPlace
from explorer.tile.lowering.scatter import patch_loops, scatter_loops
from explorer.tile.lowering.tile_epilogue import tile_epilogue

KINDS = {"input": 0, "constant": 1, "packed": 2, "output": 3, "table": 4, "scratch": 5}


def tensor_contraction(kernel: Kernel, c: Compute) -> Contraction | None:
    """Return the compute as a contraction that the micro-kernels can do, else None.

    They need a form that they have, enough columns to fill a vector, and more than one row of what
    would be packed into panels.
    """
    product_form = contraction(c)
    form = None if product_form is None else form_of(kernel, c, product_form)
    if (
        product_form is None
        or form is None
        or (form.group > 1 and not can_group(product_form, form))
    ):
        return None
    if any(a.extent == 0 for a in (*c.axes, *c.reduce)):  # the micro-kernel does at least one step
        return None
    return (
        None
        if few_columns(product_form) or is_rows_by_vector(kernel, c, product_form)
        else product_form
    )


def with_sum_lanes(kernel: Kernel, device: Device) -> Device:
    """Return the device with the vector lanes of the sums of the kernel's first contraction."""
    for c in kernel.computes:
        product_form = tensor_contraction(kernel, c)
        form = None if product_form is None else form_of(kernel, c, product_form)
        if form is not None:
            return replace(device, lanes=form.lanes(device.lanes))
    return device


def grid_of(kernel: Kernel, tiling: Tiling) -> tuple[Grid, ...]:
    """Return the tile variables: the axes of the output that are tiled, outermost first."""
    last = stores(kernel)[-1]
    cut = []
    for a in last.axes:
        size = tiling.size(a.name)
        if size is not None and not (isinstance(a.extent, int) and size >= a.extent):
            cut.append(Grid(tile_variable(a.name), a.name, size, a.extent))
    return tuple(cut)


def lower(
    kernel: Kernel, tiling: Tiling, env: ShapeEnv = ShapeEnv(), device: Device | None = None
) -> TileProgram:
    """Return the plain program of one task of a kernel in normal form.

    A task computes its output tile, with all intermediates in scratch. Without a device no tensor
    is too large for the caches.

    Raises BadOption if the tile's columns do not begin at a panel of packed weights, or if an
    intermediate is read past its border as different values.
    """
    grid = grid_of(kernel, tiling)
    regions = propagate(kernel, dict(tiling.tile))
    blocks = block_by_block(kernel, regions)
    if blocks is not None:
        kernel, regions = blocks.kernel, blocks.regions
    places = BufferPlaces(kernel, env, grid, tiling, regions, device, reduced=reduced_alone(kernel))
    places.fills = {t: v for t, v in _fill_values(kernel).items() if t not in places.reduced}
    _check_fills(kernel, places.fills)
    body: list[Statement] = []
    before: list[Statement] = []
    done: set[int] = set()
    for n, c in enumerate(kernel.computes):
        if blocks is not None and n == blocks.first:
            before, body = body, []
        if blocks is not None and n == blocks.last:
            body = [*before, For(blocks.span, tuple(body))]
        if n in done:
            continue
        run, shared = _loop_group(
            kernel, n, places, () if blocks is None else (blocks.first, blocks.last)
        )
        if len(run) > 1:
            body += _lower_rows(places, n, run, shared)
            done |= set(range(n, n + len(run)))
        else:
            statements, epilogue = _lower_compute(places, n, c)
            body += statements
            if epilogue is not None:
                done.add(kernel.computes.index(epilogue))
    return without_unused(
        TileProgram(
            grid,
            tuple(body),
            tuple(sorted(places.buffers.values(), key=lambda b: KINDS[b.kind])),
            tuple(places.packings),
            tuple(places.tables.items()),
            bool(kernel.updates),
        )
    )


def untiled_loops(kernel: Kernel) -> Callable[[int], Statement]:
    """Return a function from the number of a compute to its loops over all points.

    The kernel is in normal form. No tile cuts the loops, and an index past a border is an address
    like another.
    """
    places = BufferPlaces(kernel, ShapeEnv(), (), Tiling(), propagate(kernel, {}))

    def of(n: int) -> Statement:
        c = kernel.computes[n]
        to = scatter(kernel, c)
        if to is not None:
            return scatter_loops(places, n, c, to, lambda e: places.resolve(e, {}))[0][-1]
        part = patch(kernel, c)
        if part is not None:
            return patch_loops(places, n, c, part, lambda e: places.resolve(e, {}))
        along = running(kernel, c)
        return _lower_loop(places, n, c, {}) if along is None else _lower_scan(places, n, c, along)

    return of


def _lower_compute(p: BufferPlaces, n: int, c: Compute) -> tuple[list[Statement], Compute | None]:
    """Lower one compute, with its epilogue if it is a contraction that has one."""
    along = running(p.kernel, c)
    if along is not None:
        if p.regions.axes[n][along.axis.name] != Interval(Affine(), along.axis.extent):
            raise BadOption(
                f"a tile cuts {along.axis.name} of {c.out}, which is scanned along it: leave it "
                "whole"
            )
        return [*_fill_statements(p, n, c.out), _lower_scan(p, n, c, along)], None
    halo, body = p.halos(n, c)
    to = scatter(p.kernel, c)
    if to is not None:
        loops, after = scatter_loops(p, n, c, to, lambda e: p.resolve(e, halo))
        return [*_fill_statements(p, n, c.out), *body, *loops], after
    part = patch(p.kernel, c)
    if part is not None:
        return [*body, patch_loops(p, n, c, part, lambda e: p.resolve(e, halo))], None
    product_form = tensor_contraction(p.kernel, c)
    if product_form is not None:
        epilogue = tile_epilogue(p.kernel, c)
        column = p.regions.axes[n][product_form.column.name]
        if product_form.b.tensor in p.kernel.constants and column.lo.terms:
            _check_columns(p, c, column, p.tiling.micro.over(product_form.column.extent))
        epilogues = [epilogue, None] if epilogue is not None and epilogue.reduce else [epilogue]
        for joined in epilogues:
            before = (dict(p.places), dict(p.buffers), list(p.packings), dict(p.tables))
            statements = contract(p, n, c, product_form, joined, halo)
            if statements is not None:
                return [*_fill_statements(p, n, (joined or c).out), *body, *statements], joined
            p.places, p.buffers, p.packings, p.tables = before
    return [*_fill_statements(p, n, c.out), *body, _lower_loop(p, n, c, halo)], None


def _check_columns(p: BufferPlaces, c: Compute, column: Interval, micro: Micro) -> None:
    """Check that every tile begins a whole number of panels after the first one."""
    lanes = micro.columns
    tiles = {g.variable: g.tile for g in p.grid}
    steps = [factor * tiles.get(name, 1) for name, factor in column.lo.terms]
    even = all(isinstance(n, int) and n % lanes == 0 for n in steps)
    if not even or not isinstance(column.size, int) or column.size % lanes:
        raise BadOption(
            f"execution unit: a tile of {column.size} columns of {c.out} does not begin at a "
            f"packed panel: take a multiple of {lanes}"
        )


def _check_fills(kernel: Kernel, fills: Mapping[str, set[float]]) -> None:
    """Raise BadOption for an intermediate that is read past its border as different values."""
    for name, values in fills.items():
        if len(values) > 1 and name not in kernel.inputs:
            fill_values = " and ".join(map(str, sorted(values)))
            raise BadOption(
                f"{name} is read past its border as {fill_values}: a tile holds one border; leave "
                "one of its readers to another kernel",
                where=name,
                expected="one value",
                actual=fill_values,
            )


def _fill_statements(p: BufferPlaces, n: int, tensor: str) -> list[Statement]:
    """Return the fill of an intermediate that is read past its border, before its first write."""
    if tensor in p.kernel.inputs or tensor in p.kernel.outputs:
        return []
    if any(c.out == tensor for c in p.kernel.computes[:n]):
        return []
    return [Fill(p.place(tensor).buffer, f) for f in p.fills.get(tensor, ())]


def _lower_loop(
    p: BufferPlaces, n: int, c: Compute, halo: Mapping[Read, TensorPlace]
) -> Map | Reduce:
    target = p.place(c.out).at(c.target)
    spans = tuple(p.spans(n, c).values())
    expr = p.resolve(c.expr, halo)
    if c.reduce:
        dtype = p.kernel.dtype(c.out)
        return Reduce(target, spans, p.over(c), c.combiner or "sum", expr, dtype)
    return Map(target, spans, expr)


def _lower_scan(p: BufferPlaces, n: int, c: Compute, along: Running) -> Scan:
    """Return a scan over its part of the tile."""
    spans = p.spans(n, c)
    over = spans.pop(along.axis.name)
    return Scan(
        p.place(c.out).at(c.target),
        tuple(spans.values()),
        over,
        c.combiner or "sum",
        p.resolve(along.element, {}),
        p.kernel.dtype(c.out),
        along.exclusive,
        along.backwards,
    )


def _loop_group(
    kernel: Kernel, start: int, p: BufferPlaces, borders: tuple[int, ...]
) -> tuple[list[Compute], int]:
    """Return the computes from here on that iterate over the same leading axes, and their number.

    None of them is a contraction or crosses a border.
    """
    run: list[Compute] = []
    results: set[str] = set()
    first = kernel.computes[start]
    shared = len(first.axes)
    filled = p.fills
    for n, c in enumerate(kernel.computes[start:], start):
        if tensor_contraction(kernel, c) or len(writers(kernel, c.out)) > 1:
            break
        if (run and n in borders) or scatter(kernel, c) is not None or patch(kernel, c) is not None:
            break
        if c.out in filled or any(r.fill is not None or slides(c, r) for r in reads(c.expr)):
            break
        if c.out not in kernel.outputs and not c.is_plain:
            break
        more = min(
            shared, len(c.axes) - (0 if c.reduce and not _is_across(c) else 1), _outer_axis_count(c)
        )
        while more and _axis_ranges(p, n, more) != _axis_ranges(p, start, more):
            more -= 1
        prefix = tuple(var(a.name) for a in c.axes[:more])
        same = all(r.index[:more] == prefix for r in reads(c.expr) if r.tensor in results)
        if not more or not same:
            break
        run.append(c)
        results.add(c.out)
        shared = more
    if all(c.out in kernel.outputs for c in run):
        return run[:1], shared  # one vectorised loop computes them together
    return run, shared


def _outer_axis_count(c: Compute) -> int:
    """Return how many leading axes come before the one along which a mapped result is dense.

    All of that axis is iterated over at once, like the last one, to store it in vectors.
    """
    dense = c.target[-1].variables if c.target and not c.reduce else frozenset()
    return next((n for n, a in enumerate(c.axes) if a.name in dense), len(c.axes))


def _is_across(c: Compute) -> bool:
    """Return True if every dense load is dense along the last axis, none along the reduced one."""
    last = [r.index[-1] for r in reads(c.expr) if r.index]
    dense = [i for i in last if isinstance(i, Affine)]
    inner = [any(i.factor(a.name) == 1 for a in c.reduce) for i in dense]
    return bool(c.axes) and not any(inner) and any(i.factor(c.axes[-1].name) == 1 for i in dense)


def _axis_ranges(p: BufferPlaces, n: int, count: int) -> list[object]:
    c = p.kernel.computes[n]
    return [(p.regions.axes[n][a.name], a.extent) for a in c.axes[:count]]


def _fill_values(kernel: Kernel) -> dict[str, set[float]]:
    """Return the tensors that are read past their border, with the values there."""
    fills: dict[str, set[float]] = {}
    for c in kernel.computes:
        for r in reads(c.expr):
            if r.fill is not None:
                fills.setdefault(r.tensor, set()).add(r.fill)
    return fills


@by_identity
def reduced_alone(kernel: Kernel) -> frozenset[str]:
    """Return the intermediates that only reductions read past their border.

    Contractions do not: their addresses are affine from one row to the next.
    """
    intermediates = {c.out for c in kernel.computes} - {*kernel.outputs}
    past = {r.tensor for c in kernel.computes for r in reads(c.expr) if r.fill is not None}
    other = {
        r.tensor
        for c in kernel.computes
        if not c.reduce or tensor_contraction(kernel, c) is not None
        for r in reads(c.expr)
        if r.fill is not None
    }
    return frozenset((past & intermediates) - other)


def _lower_rows(p: BufferPlaces, start: int, run: list[Compute], shared: int) -> list[Statement]:
    """Lower several computes to one loop over their common leading axes.

    Intermediates that only they use are one row, in L1.
    """
    rows = tuple(Interval(var(f"_row{d}"), 1) for d in range(shared))
    kernel = p.kernel
    body: list[Statement] = []
    others = (*kernel.computes[:start], *kernel.computes[start + len(run) :])
    outside = {r.tensor for k in others for r in reads(k.expr)}
    for n, c in enumerate(run, start):
        if c.out not in outside and c.out not in kernel.outputs:
            inner_region = p.regions.tensors[c.out][shared:]
            size = product(tuple(r.size for r in inner_region))
            row = p.buffer(c.out, "scratch", size, kernel.dtype(c.out), "L1")
            p.places[c.out] = replace(p.scratch(f"{c.out}", rows + inner_region), buffer=row)
        names = {a.name: r.lo for a, r in zip(c.axes, rows, strict=False)}
        target = p.place(c.out).at(tuple(i.substitute(names) for i in c.target))
        every = p.spans(n, c)
        spans = tuple(every[a.name] for a in c.axes[shared:])
        expr = p.resolve(substitute(c.expr, names), {})
        if c.reduce:
            dtype = kernel.dtype(c.out)
            body.append(Reduce(target, spans, p.over(c), c.combiner or "sum", expr, dtype))
        else:
            body.append(Map(target, spans, expr))
    inner = tuple(body)
    first = p.spans(start, run[0])
    for d in reversed(range(shared)):
        span = first[run[0].axes[d].name]
        inner = (For(replace(span, axis=f"_row{d}"), inner),)
    return list(inner)
