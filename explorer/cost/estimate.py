"""Time of kernels and tasks, term by term: the micro performance model (Roller, section 3.3).

All times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from math import prod
from typing import NamedTuple, TypeAlias

from explorer.cost.counts import (
    IN_COMPUTE,
    IN_EDGE,
    IN_PACK,
    START,
    Counts,
    TaskExtents,
    count_contraction,
    count_halo,
    count_loops,
    step_cycles,
)
from explorer.cost.levels import levels_of
from explorer.cost.parts import (
    Numbers,
    Short,
    TaskAxis,
    TensorPart,
    add_dim,
    gathered_regions,
    narrow_to_patches,
    task_axis,
)
from explorer.cost.structure import CostedCompute, Structure, Tensors, as_loops, structure
from explorer.devices.model import Device
from explorer.ir.compiled_dims import Evaluator, compile_dims
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import Dim, Sizes, evaluate_dim
from explorer.ir.kernel import Axis, Kernel, reads
from explorer.ir.kernels.regions import Interval, Region, Regions, box, propagate, tile_variable
from explorer.tile.contraction_form import ContractionForm, contraction_form

Terms: TypeAlias = tuple[tuple[str, float], ...]

ALWAYS = ("compute", "task")  # terms that are listed even if 0
Work: TypeAlias = tuple[CostedCompute, ContractionForm | None, Mapping[str, TaskAxis]]


class Phase(NamedTuple):
    """Computes of a task, with the parts that they use first.

    Computing and moving bytes overlap within a phase, and not across phases: a contraction of
    another one's results waits for all of them.
    """

    works: tuple[Work, ...]
    halos: tuple[TensorPart, ...]
    boxes: tuple[TensorPart, ...]


def tasks(kernel: Kernel, tiling: Tiling, sizes: Sizes) -> int:
    """Return the number of tasks of a kernel."""
    last = next(c for c in reversed(kernel.computes) if c.out in kernel.outputs)
    total = 1
    for a in last.axes:
        size = tiling.size(a.name)
        if size is not None:
            total *= max(1, -(-evaluate_dim(a.extent, sizes) // size))
    return total


def kernel_terms(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions | None = None
) -> Terms:
    """Return the microseconds of a kernel in normal form on all units of a device, by cause.

    `regions` are those of `propagate` for the tiling, if known. The causes are those of
    `Estimate.terms` and "load imbalance": some units run a task more than
    others.
    """
    estimate = Estimate(kernel, tiling, device, regions, once=True)
    return estimate.kernel_terms(sizes)


class Estimate:
    """The time of a task for any binding; everything independent of sizes is computed once."""

    def __init__(
        self,
        kernel: Kernel,
        tiling: Tiling,
        device: Device,
        regions: Regions | None = None,
        once: bool = False,
    ) -> None:
        """Prepare the estimate; `once`: it is evaluated for a single binding."""
        self.tiling, self.device, self.levels = tiling, device, levels_of(device)
        narrowed_regions = narrow_to_patches(
            kernel, regions or propagate(kernel, dict(tiling.tile))
        )
        parts = structure(kernel, device)
        dims: list[Dim] = []
        self.cuts = tuple(_cuts(parts.axes, tiling, dims))
        formed = chain.from_iterable(_with_form(kernel, f, tiling, device) for f in parts.facts)
        works = [_work(f, form, narrowed_regions.axes[f.number], dims) for f, form in formed]
        phase_of = _phases(kernel, works)
        halos = [
            (
                phase_of[h.number],
                _tensor_part(
                    parts.tensors, h.tensor, box(h.index, ranges, parts.tensors[h.tensor][0]), dims
                ),
            )
            for h in parts.halos
            for ranges in (narrowed_regions.axes[h.number],)
        ]
        selected = _selected_axes(kernel, parts, narrowed_regions, dims)
        rows = gathered_regions(kernel, narrowed_regions)
        boxes = [
            (
                phase_of[parts.first_uses.get(name, 0)],
                _tensor_part(parts.tensors, name, region, dims)._replace(
                    constant=name in kernel.constants, selected=selected.get(name, ())
                ),
            )
            for name, joined in narrowed_regions.tensors.items()
            for region in _disjoint_boxes(parts, narrowed_regions, name, rows.get(name, joined))
        ]
        self.phases = tuple(
            Phase(
                tuple(w for w in works if phase_of[w[0].number] == n),
                tuple(part for phase, part in halos if phase == n),
                tuple(part for phase, part in boxes if phase == n),
            )
            for n in range(max(phase_of, default=0) + 1)
        )
        self.streams = all(f.loops and f.loops.order != "blocks" for f in parts.facts)
        self.numbers = _interpret(dims) if once else compile_dims(dims)

    def terms(self, sizes: Sizes) -> Terms:
        """Return the average microseconds of one task, by cause."""
        total, count, _, _ = self._total(sizes)
        return tuple((name, us / count) for name, us in total)

    def cached_constants_us(self, sizes: Sizes) -> float:
        """Return the time of a task whose part of the constants is in its unit's private cache."""
        total, count, _, _ = self._total(sizes, cached_constants=True)
        return sum(us for _, us in total) / count

    def kernel_terms(self, sizes: Sizes) -> Terms:
        """Return the terms of the function of this name."""
        total, count, early, early_us = self._total(sizes)
        units = self.levels.units
        sum_us = sum(us for _, us in total)
        share = -(-count // units)  # tasks of the first unit
        late_us = (sum_us - early_us) / max(1, count - early)
        first = min(share, early) * early_us / max(1, early) + max(0, share - early) * late_us
        spread = tuple((name, us / units) for name, us in total)
        return (*spread, ("load imbalance", max(0.0, first - sum_us / units)))

    def counts(self, sizes: Sizes) -> Counts:
        """Return the counts of all tasks without memory traffic, for the fit of the constants."""
        numbers = self.numbers(sizes)
        out = Counts()
        for short, times in self._tiles(numbers):
            for phase in self.phases:
                counts = self._counts(phase, numbers, short)
                out.multiply += counts.multiply * times
                out.waits += counts.waits * times
                out.each = [a + b * times for a, b in zip(out.each, counts.each)]
            out.each[START] += times
        return out

    def _total(self, sizes: Sizes, cached_constants: bool = False) -> tuple[Terms, int, int, float]:
        """Return the terms of all tasks, their number, and number and time of early ones.

        Early tasks are not at the end of the outermost axis. Units take consecutive tasks, so the
        smaller ones at that end belong to the last unit.
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
            terms = self._terms(numbers, short, rates, cached_constants)
            if outermost not in short:
                early += times
                early_us += sum(us for _, us in terms) * times
            count += times
            for name, us in terms:
                total[name] += us * times
        shown = ((name, us) for name, us in total.items() if us or name in ALWAYS)
        return tuple(shown), max(1, count), early, early_us

    def _tiles(self, numbers: Numbers) -> Iterator[tuple[Short, int]]:
        """Yield tasks of equal size with their number: full ones, and those at ends of axes."""
        kinds = []
        for variable, extent, tile in self.cuts:
            count, remainder = divmod(numbers[extent], tile)
            both = ((variable, 0, count), (variable, tile - remainder, 1 if remainder else 0))
            kinds.append([k for k in both if k[2]] or [(variable, 0, 1)])
        for chosen in product(*kinds):
            yield {v: s for v, s, _ in chosen if s}, prod(n for _, _, n in chosen)

    def _counts(self, phase: Phase, numbers: Numbers, short: Short) -> Counts:
        out = Counts()
        for f, form, axes in phase.works:
            size = {name: axis.of(numbers, short) for name, axis in axes.items()}
            if form is not None:
                count_contraction(out, f, form, size, self.tiling, self.device)
                continue
            full = {name: axis.of(numbers, {}) for name, axis in axes.items()} if short else size
            extents = TaskExtents(size, full, {name: numbers[a.extent] for name, a in axes.items()})
            count_loops(out, f, extents, self.device)
        for part in phase.halos:
            count_halo(out, part.shape_of(numbers, short), self.device.lanes)
        return out

    def _terms(
        self, numbers: Numbers, short: Short, rates: Sequence[float], cached_constants: bool = False
    ) -> Terms:
        """Return the terms of a task; `rates` are each level's bytes per microsecond.

        The rates are those of one unit, for as many units as have tasks.
        """
        levels = self.levels
        names = ("compute", "pack", "edge", *(level.name for level in levels.levels))
        sums = dict.fromkeys(names, 0.0)
        for phase in self.phases:
            out = self._counts(phase, numbers, short)
            moved = self._moved(phase, numbers, short, rates, cached_constants)
            for name, us in self._phase_terms(out, moved, rates):
                sums[name] += us
        return (*sums.items(), ("task", levels.costs[START] * levels.cycle_us))

    def _phase_terms(self, out: Counts, moved: Sequence[float], rates: Sequence[float]) -> Terms:
        """Return the terms of a phase: a level's are what the nearer ones do not hide."""
        costs, us = self.levels.costs, self.levels.cycle_us
        compute = (out.multiply + out.cycles(costs, IN_COMPUTE)) * us
        pack = (out.waits + out.cycles(costs, IN_PACK)) * us
        edge = out.cycles(costs, IN_EDGE) * us
        longest = compute + pack + edge
        terms = [("compute", compute), ("pack", pack), ("edge", edge)]
        for level, rate, count in zip(self.levels.levels, rates, moved):
            if count:
                time_us = count / rate
                shown = self.device.costs.unhidden * min(time_us, longest) if level.shared else 0.0
                terms.append((level.name, max(shown, time_us - longest)))
                longest = max(longest, time_us)
        return tuple(terms)

    def _moved(
        self,
        phase: Phase,
        numbers: Numbers,
        short: Short,
        rates: Sequence[float],
        cached_constants: bool,
    ) -> list[float]:
        """Return the bytes that a phase of a task moves from each level that holds operands.

        The nearest level is first. `cached_constants`: its part of the constants is in a private
        level of its unit.
        """
        levels = self.levels
        moved = [0.0] * len(levels.levels)
        for part in phase.boxes:
            count, jumps = part.moved(numbers, short)
            if cached_constants and part.constant:
                home = levels.private_home(part.whole_bytes(numbers) / levels.units)
            else:
                home = levels.home(count if part.inside else part.whole_bytes(numbers), part.inside)
            weight = 2.0 if part.inside else levels.levels[home].store if part.written else 1.0
            moved[home] += count * weight
            if jumps and self.streams and levels.levels[home].shared:
                moved[home] += jumps * self.device.costs.jump * levels.cycle_us * rates[home]
        for f, form, axes in phase.works:
            if form is not None:
                self._count_passes(moved, f, axes, numbers, short)
        return moved

    def _count_passes(
        self,
        moved: list[float],
        f: CostedCompute,
        axes: Mapping[str, TaskAxis],
        numbers: Numbers,
        short: Short,
    ) -> None:
        """Add the repeated passes of register tiles over panels and rows.

        A panel is iterated over for each block of rows, and all rows for each panel, from the level
        that holds them.
        """
        contraction = f.contraction
        assert contraction is not None
        micro = self.tiling.micro.over(contraction.column.extent)

        def of(over: Sequence[Axis]) -> int:
            return prod(axes[a.name].of(numbers, short) for a in over)

        rows, depth, batch = of(contraction.rows), of(contraction.depth), of(contraction.batch)
        columns = axes[contraction.column.name].of(numbers, short)
        depth = min(depth, self.tiling.depth_block or depth)
        blocks, panels = -(-rows // micro.rows), -(-columns // micro.columns)
        panel, left = 4.0 * depth * micro.columns, 4.0 * depth * micro.rows
        times = batch * (of(contraction.depth) / max(1, depth))
        near = self.levels.home(panel + left, True)
        if near:
            moved[near] += times * (blocks - 1) * panels * panel
        far = self.levels.home(rows * depth * 4.0 + panel, True)
        if far:
            moved[far] += times * (panels - 1) * blocks * left


def _interpret(dims: Sequence[Dim]) -> Evaluator:
    return lambda sizes: tuple(evaluate_dim(d, sizes) for d in dims)


def _cuts(axes: Sequence[Axis], tiling: Tiling, dims: list[Dim]) -> Iterator[tuple[str, int, int]]:
    """Yield tile variables, the slots of their axes' extents, and the tile sizes."""
    for a in axes:
        size = tiling.size(a.name)
        if size is not None and not (isinstance(a.extent, int) and size >= a.extent):
            yield tile_variable(a.name), add_dim(dims, a.extent), size


def _with_form(
    kernel: Kernel, f: CostedCompute, tiling: Tiling, device: Device
) -> Iterator[tuple[CostedCompute, ContractionForm | None]]:
    """Yield a compute with its contraction form.

    A contraction without a form in these tiles is yielded as loops, with its epilogue.
    """
    form = None if f.contraction is None else contraction_form(kernel, f.number, tiling)
    if f.contraction is None or form is not None:
        yield f, form
    else:
        yield from ((loops, None) for loops in as_loops(kernel, f, device))


def _work(
    f: CostedCompute, form: ContractionForm | None, ranges: Mapping[str, Interval], dims: list[Dim]
) -> tuple[CostedCompute, ContractionForm | None, dict[str, TaskAxis]]:
    c = f.compute
    return (
        f,
        form,
        {a.name: task_axis(a.extent, ranges.get(a.name), dims) for a in (*c.axes, *c.reduce)},
    )


def _phases(kernel: Kernel, works: Sequence[Work]) -> list[int]:
    """Return the phase of each compute: a contraction of another one's results is in the next."""
    contractions = {f.number for f, form, _ in works if form is not None}
    phases: list[int] = []
    contracted: dict[str, int] = {}  # by tensor: the contractions on the longest path to it
    for n, c in enumerate(kernel.computes):
        before = max((contracted.get(r.tensor, 0) for r in reads(c.expr)), default=0)
        through = before + (n in contractions)
        phases.append(max(0, through - 1))
        contracted[c.out] = max(contracted.get(c.out, 0), through)
    return phases


def _disjoint_boxes(
    parts: Structure, regions: Regions, name: str, joined: Region
) -> Sequence[Region]:
    """Return the boxes of a tensor that a task needs: several if it is read in disjoint blocks."""
    if name not in parts.blocks:
        return (joined,)
    shape, places = parts.tensors[name][0], parts.blocks[name]
    boxes = list(dict.fromkeys(box(index, regions.axes[n], shape) for n, index in places))
    pairs = combinations(boxes, 2)
    return boxes if all(any(map(_disjoint, a, b)) for a, b in pairs) else (joined,)


def _disjoint(x: Interval, y: Interval) -> bool:
    """Return True if two ranges are disjoint in every task."""
    gap, sizes = y.lo - x.lo, (x.size, y.size)
    if gap.terms or not all(isinstance(n, int) for n in (gap.const, *sizes)):
        return False
    return bool(gap.const >= x.size or -gap.const >= y.size)


def _selected_axes(
    kernel: Kernel, parts: Structure, regions: Regions, dims: list[Dim]
) -> dict[str, tuple[TaskAxis, ...]]:
    """Return the axes along which data selects, by the tensors that only scatters read.

    They are read only where a position is in the tile.
    """
    axes_by_tensor: dict[str, tuple[TaskAxis, ...]] = {}
    scatters = {f.number: f.loops.to for f in parts.facts if f.loops and f.loops.to}
    others = {
        r.tensor
        for n, c in enumerate(kernel.computes)
        if scatters and n not in scatters
        for r in reads(c.expr)
    }
    for n, to in scatters.items():
        others |= {r.tensor for _, place in to.places for r in reads(place)}
        axes = tuple(task_axis(a.extent, regions.axes[n].get(a.name), dims) for a, _ in to.places)
        axes_by_tensor |= {r.tensor: axes for r in reads(to.update)}
    return {name: axes for name, axes in axes_by_tensor.items() if name not in others}


def _tensor_part(tensors: Tensors, name: str, region: Region, dims: list[Dim]) -> TensorPart:
    shape, item_bytes, inside, written = tensors[name]
    axes = tuple([task_axis(n, r, dims) for n, r in zip(shape, region, strict=True)])
    return TensorPart(item_bytes, axes, inside, written)


def contract_cycles(rows: int, columns: int, depth: int, micro: Micro, device: Device) -> float:
    """Return the cycles of a product of `rows` by `depth` with packed columns.

    Every register tile runs in full, also at the edges.
    """
    costs, tall, vectors = device.costs, micro.rows, micro.vectors
    wide = vectors * micro.lanes
    blocks, part = divmod(rows, tall)
    panels, remainder = divmod(columns, wide)
    tiles = (blocks + (part > 0)) * (panels + (remainder > 0))
    body = step_cycles(tall, vectors, device) * depth + costs.tile + costs.sum * tall * vectors
    through = part * panels + (rows if remainder else 0)
    return (
        tiles * body + rows * costs.row + through * (costs.edge_row + costs.edge_vector * vectors)
    )
