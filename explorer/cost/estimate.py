"""The time of a kernel and of its tasks, term by term: the micro performance model (Roller, section
3.3), in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from math import prod
from typing import TypeAlias

from explorer.cost.counts import (
    IN_COMPUTE,
    IN_EDGE,
    IN_PACK,
    START,
    Counts,
    Sides,
    count_contraction,
    count_halo,
    count_loops,
    step_cycles,
)
from explorer.cost.gathers import gathered
from explorer.cost.levels import levels_of
from explorer.cost.parts import Numbers, Part, Short, Side, place, side
from explorer.cost.patches import narrowed
from explorer.cost.structure import Facts, Structure, Tensors, as_loops, structure
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Axis, Kernel, reads
from explorer.ir.patterns.regions import Interval, Region, Regions, box, propagate, tile_variable
from explorer.ir.shapes.compiled_dims import Evaluator, compile_dims
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_dim
from explorer.tile.contraction_form import ContractionForm, contraction_form

Terms: TypeAlias = tuple[tuple[str, float], ...]

ALWAYS = ("compute", "task")  # the other terms stand where there is something of them


def tasks(kernel: Kernel, tiling: Tiling, sizes: Sizes) -> int:
    """How many tasks a kernel is cut into."""
    last = next(c for c in reversed(kernel.computes) if c.out in kernel.outputs)
    total = 1
    for a in last.axes:
        size = tiling.size(a.name)
        if size is not None:
            total *= max(1, -(-evaluate_dim(a.extent, sizes) // size))
    return total


def task_terms(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions | None = None
) -> Terms:
    """Microseconds of one task of a kernel in normal form, on average, by cause.

    `regions` may be passed where they are known: those that `propagate` gives for the tiling.
    """
    return Estimate(kernel, tiling, device, regions, once=True).terms(sizes)


def kernel_terms(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions | None = None
) -> Terms:
    """Microseconds of a whole kernel in normal form on all units of a device, by cause.

    To the causes of `task_terms` comes "load imbalance": some units have a task more than others.
    """
    estimate = Estimate(kernel, tiling, device, regions, once=True)
    return estimate.kernel_terms(sizes)


class Estimate:
    """The time of a task for any binding: all that no size changes is worked out beforehand."""

    def __init__(
        self,
        kernel: Kernel,
        tiling: Tiling,
        device: Device,
        regions: Regions | None = None,
        once: bool = False,
    ) -> None:
        self.tiling, self.device, self.levels = tiling, device, levels_of(device)
        known = narrowed(kernel, regions or propagate(kernel, dict(tiling.tile)))
        parts = structure(kernel, device)
        dims: list[Dim] = []
        self.cuts = tuple(_cuts(parts.axes, tiling, dims))
        formed = chain.from_iterable(_formed(kernel, f, tiling, device) for f in parts.facts)
        self.works = tuple(_work(f, form, known.axes[f.number], dims) for f, form in formed)
        self.halos = tuple(
            _part(parts.tensors, h.tensor, box(h.index, ranges, parts.tensors[h.tensor][0]), dims)
            for h in parts.halos
            for ranges in (known.axes[h.number],)
        )
        selected = _selected(kernel, parts, known, dims)
        rows = gathered(kernel, known)
        self.boxes = tuple(
            _part(parts.tensors, name, region, dims)._replace(
                constant=name in kernel.constants, selected=selected.get(name, ())
            )
            for name, joined in known.tensors.items()
            for region in _apart(parts, known, name, rows.get(name, joined))
        )
        self.streams = all(f.loops and f.loops.order != "blocks" for f in parts.facts)
        self.numbers = _interpreted(dims) if once else compile_dims(dims)

    def terms(self, sizes: Sizes) -> Terms:
        """As `task_terms` tells them."""
        total, count, _, _ = self._total(sizes)
        return tuple((name, us / count) for name, us in total)

    def kept_us(self, sizes: Sizes) -> float:
        """The time of a task whose part of the constants its unit has read just before."""
        total, count, _, _ = self._total(sizes, kept=True)
        return sum(us for _, us in total) / count

    def kernel_terms(self, sizes: Sizes) -> Terms:
        """As the function of this name tells them."""
        total, count, early, early_us = self._total(sizes)
        units = self.levels.units
        whole = sum(us for _, us in total)
        share = -(-count // units)  # of the first unit
        late_us = (whole - early_us) / max(1, count - early)
        first = min(share, early) * early_us / max(1, early) + max(0, share - early) * late_us
        spread = tuple((name, us / units) for name, us in total)
        return (*spread, ("load imbalance", max(0.0, first - whole / units)))

    def counts(self, sizes: Sizes) -> Counts:
        """What all tasks together do, but for memory: what the constants are fitted to."""
        numbers = self.numbers(sizes)
        out = Counts()
        for short, times in self._tiles(numbers):
            one = self._task(numbers, short)
            out.multiply += one.multiply * times
            out.waits += one.waits * times
            out.each = [a + b * times for a, b in zip(out.each, one.each)]
        return out

    def _total(self, sizes: Sizes, kept: bool = False) -> tuple[Terms, int, int, float]:
        """The terms of all tasks together, how many those are, how many of them are not at the end
        of the outermost axis, and the time of these.

        Units take tasks in a row, so the smaller ones at that end are all the last unit's.
        """
        numbers = self.numbers(sizes)
        names = ("compute", "pack", "edge", *(m.name for m in self.levels.levels), "task")
        total = dict.fromkeys(names, 0.0)
        count = early = 0
        early_us = 0.0
        outermost = self.cuts[0][0] if self.cuts else ""
        tiles = list(self._tiles(numbers))
        running = min(self.levels.units, max(1, sum(times for _, times in tiles)))
        rates = [level.per_us(self.levels.units / running) for level in self.levels.levels]
        for short, times in tiles:
            terms = self._terms(numbers, short, rates, kept)
            if outermost not in short:
                early += times
                early_us += sum(us for _, us in terms) * times
            count += times
            for name, us in terms:
                total[name] += us * times
        shown = ((name, us) for name, us in total.items() if us or name in ALWAYS)
        return tuple(shown), max(1, count), early, early_us

    def _tiles(self, numbers: Numbers) -> Iterator[tuple[Short, int]]:
        """Tasks of equal size: whole ones, and those at the ends of the axes."""
        kinds = []
        for variable, extent, tile in self.cuts:
            count, rest = divmod(numbers[extent], tile)
            both = ((variable, 0, count), (variable, tile - rest, 1 if rest else 0))
            kinds.append([k for k in both if k[2]] or [(variable, 0, 1)])
        for chosen in product(*kinds):
            yield {v: s for v, s, _ in chosen if s}, prod(n for _, _, n in chosen)

    def _task(self, numbers: Numbers, short: Short) -> Counts:
        out = Counts()
        out.each[START] = 1.0
        for f, form, axes in self.works:
            size = {name: axis.of(numbers, short) for name, axis in axes.items()}
            if form is not None:
                count_contraction(out, f, form, size, self.tiling, self.device)
                continue
            full = {name: axis.of(numbers, {}) for name, axis in axes.items()} if short else size
            sides = Sides(size, full, {name: numbers[a.extent] for name, a in axes.items()})
            count_loops(out, f, sides, self.device)
        for part in self.halos:
            count_halo(out, part.shape_of(numbers, short), self.device.lanes)
        return out

    def _terms(
        self, numbers: Numbers, short: Short, rates: Sequence[float], kept: bool = False
    ) -> Terms:
        """`rates`: bytes a microsecond of each level, for as many units as have tasks."""
        known, out = self.levels, self._task(numbers, short)
        costs, us = known.costs, known.cycle_us
        compute = (out.multiply + out.cycles(costs, IN_COMPUTE)) * us
        pack = (out.waits + out.cycles(costs, IN_PACK)) * us
        edge = out.cycles(costs, IN_EDGE) * us
        longest = compute + pack + edge
        terms = [("compute", compute), ("pack", pack), ("edge", edge)]
        for level, rate, moved in zip(
            known.levels, rates, self._moved(numbers, short, rates, kept)
        ):
            if moved:
                time_us = moved / rate
                shown = self.device.costs.unhidden * min(time_us, longest) if level.shared else 0.0
                terms.append((level.name, max(shown, time_us - longest)))
                longest = max(longest, time_us)
        terms.append(("task", costs[START] * us))
        return tuple(terms)

    def _moved(
        self, numbers: Numbers, short: Short, rates: Sequence[float], kept: bool
    ) -> list[float]:
        """Bytes that one task moves from each level that its operands lie in, nearest first.

        `kept`: its part of the constants lies in a level of its unit's own.
        """
        known = self.levels
        moved = [0.0] * len(known.levels)
        for part in self.boxes:
            count, jumps = part.moved(numbers, short)
            if kept and part.constant:
                home = known.kept(part.whole_bytes(numbers) / known.units)
            else:
                home = known.home(count if part.inside else part.whole_bytes(numbers), part.inside)
            weight = 2.0 if part.inside else known.levels[home].store if part.written else 1.0
            moved[home] += count * weight
            if jumps and self.streams and known.levels[home].shared:
                moved[home] += jumps * self.device.costs.jump * known.cycle_us * rates[home]
        for f, form, axes in self.works:
            if form is not None:
                self._count_passes(moved, f, axes, numbers, short)
        return moved

    def _count_passes(
        self,
        moved: list[float],
        f: Facts,
        axes: Mapping[str, Side],
        numbers: Numbers,
        short: Short,
    ) -> None:
        """Register tiles iterate over a panel for each block of rows, and all rows for each panel:
        from where those fit.
        """
        found = f.found
        assert found is not None
        micro = self.tiling.micro.over(found.column.extent)

        def of(over: Sequence[Axis]) -> int:
            return prod(axes[a.name].of(numbers, short) for a in over)

        rows, depth, batch = of(found.rows), of(found.depth), of(found.batch)
        columns = axes[found.column.name].of(numbers, short)
        depth = min(depth, self.tiling.depth_block or depth)
        blocks, panels = -(-rows // micro.rows), -(-columns // micro.columns)
        panel, left = 4.0 * depth * micro.columns, 4.0 * depth * micro.rows
        times = batch * (of(found.depth) / max(1, depth))
        near = self.levels.home(panel + left, True)
        if near:
            moved[near] += times * (blocks - 1) * panels * panel
        far = self.levels.home(rows * depth * 4.0 + panel, True)
        if far:
            moved[far] += times * (panels - 1) * blocks * left


def _interpreted(dims: Sequence[Dim]) -> Evaluator:
    return lambda sizes: tuple(evaluate_dim(d, sizes) for d in dims)


def _cuts(axes: Sequence[Axis], tiling: Tiling, dims: list[Dim]) -> Iterator[tuple[str, int, int]]:
    """The tile variables, where the extents of their axes are, and the sizes of their tiles."""
    for a in axes:
        size = tiling.size(a.name)
        if size is not None and not (isinstance(a.extent, int) and size >= a.extent):
            yield tile_variable(a.name), place(dims, a.extent), size


def _formed(
    kernel: Kernel, f: Facts, tiling: Tiling, device: Device
) -> Iterator[tuple[Facts, ContractionForm | None]]:
    """A compute with its form, if it is a contraction that gets one in these tiles; else it and its
    epilogue are loops.
    """
    form = None if f.found is None else contraction_form(kernel, f.number, tiling)
    if f.found is None or form is not None:
        yield f, form
    else:
        yield from ((made, None) for made in as_loops(kernel, f, device))


def _work(
    f: Facts, form: ContractionForm | None, ranges: Mapping[str, Interval], dims: list[Dim]
) -> tuple[Facts, ContractionForm | None, dict[str, Side]]:
    c = f.compute
    return f, form, {a.name: side(a.extent, ranges.get(a.name), dims) for a in (*c.axes, *c.reduce)}


def _apart(parts: Structure, known: Regions, name: str, joined: Region) -> Sequence[Region]:
    """The boxes of a tensor that a task needs: several where it is read in blocks apart."""
    if name not in parts.blocks:
        return (joined,)
    shape, places = parts.tensors[name][0], parts.blocks[name]
    found = list(dict.fromkeys(box(index, known.axes[n], shape) for n, index in places))
    pairs = combinations(found, 2)
    return found if all(any(map(_disjoint, a, b)) for a, b in pairs) else (joined,)


def _disjoint(x: Interval, y: Interval) -> bool:
    """Whether two ranges have nothing in common, in every task."""
    gap, sizes = y.lo - x.lo, (x.size, y.size)
    if gap.terms or not all(isinstance(n, int) for n in (gap.const, *sizes)):
        return False
    return bool(gap.const >= x.size or -gap.const >= y.size)


def _selected(
    kernel: Kernel, parts: Structure, known: Regions, dims: list[Dim]
) -> dict[str, tuple[Side, ...]]:
    """The axes that data selects along, by the tensors that scatters alone read, and only where a
    place is in the tile.
    """
    found: dict[str, tuple[Side, ...]] = {}
    scatters = {f.number: f.loops.to for f in parts.facts if f.loops and f.loops.to}
    others = {
        r.tensor
        for n, c in enumerate(kernel.computes)
        if scatters and n not in scatters
        for r in reads(c.expr)
    }
    for n, to in scatters.items():
        others |= {r.tensor for _, place in to.places for r in reads(place)}
        axes = tuple(side(a.extent, known.axes[n].get(a.name), dims) for a, _ in to.places)
        found |= {r.tensor: axes for r in reads(to.update)}
    return {name: axes for name, axes in found.items() if name not in others}


def _part(tensors: Tensors, name: str, region: Region, dims: list[Dim]) -> Part:
    shape, item_bytes, inside, written = tensors[name]
    sides = tuple([side(n, r, dims) for n, r in zip(shape, region, strict=True)])
    return Part(item_bytes, sides, inside, written)


def contract_cycles(rows: int, columns: int, depth: int, micro: Micro, device: Device) -> float:
    """Cycles of a product of `rows` by `depth` with packed columns: every register tile runs whole,
    also at the edges.
    """
    costs, tall, vectors = device.costs, micro.rows, micro.vectors
    wide = vectors * micro.lanes
    blocks, part = divmod(rows, tall)
    panels, rest = divmod(columns, wide)
    tiles = (blocks + (part > 0)) * (panels + (rest > 0))
    body = step_cycles(tall, vectors, device) * depth + costs.tile + costs.sum * tall * vectors
    through = part * panels + (rows if rest else 0)
    return (
        tiles * body + rows * costs.row + through * (costs.edge_row + costs.edge_vector * vectors)
    )
