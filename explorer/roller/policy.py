"""Tiles by alignment and reuse, scored by the model alone: no kernel runs (Roller, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from explorer.cost.estimate import contract_cycles, kernel_terms, tasks
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.regions import Regions, propagate, tile_variable
from explorer.ir.shapes.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.types import ITEM_BYTES
from explorer.roller.cache_set_conflicts import LEAST_ROWS, lies_crowded
from explorer.roller.well_formed import malformed
from explorer.tile.lowering.lower import sums_of, tensor_contraction
from explorer.tile.rewrites import placed

STEPS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 64, 128, 256, 512, 1024, 4096, 16384, 65536)
PANELS = (1, 2, 4, 8, 16)
VECTORS = (1, 2, 3, 4, 6, 8)  # column groups of a register tile
MOST_ROWS = 14  # of a register tile: by two vectors they take 31 of 32 registers; chosen
SHOWN_CANDIDATES = 24  # legal ones that are kept, best first; chosen
# The model is not more exact than this; chosen. What it is off by is printed by
# `python -m explorer.tuning.search.prediction`.
AS_GOOD_RATIO = 1.02
FEW_TASKS = 4  # a unit; chosen
LEAST_TASK_US = 5.0  # of what is cut finer: to begin a task takes a part of that; chosen
LOWERED_COMPUTES, FEWEST_CANDIDATES = 90, 4  # that are tried: bounds on search time, chosen
REFUSED_CANDIDATES = 6  # that are kept, the best of them by the model; chosen

Cut = tuple[tuple[str, int], ...]


def register_tiles(device: Device) -> tuple[Micro, ...]:
    """Register tiles that fill the vector registers: rows x vectors of accumulators, a vector a
    column group, one row value.
    """
    found: list[Micro] = []
    for vectors in VECTORS:
        tiles = (Micro(rows, vectors, device.lanes) for rows in range(1, MOST_ROWS + 1))
        found += [m for m in tiles if m.registers <= device.registers]
    return tuple(found)


def candidates(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int = SHOWN_CANDIDATES
) -> Iterator[Candidate[Tiling]]:
    """The tilings of a kernel in normal form, best first, then refused ones with the rule that they
    break.

    `sizes` is the binding that is tiled for; a kernel stays right for any other.
    """
    weighed = weighed_cuts(kernel, device, sizes)
    yield from in_order(weighed, kernel, device, env, sizes, top_k)


def weighed_cuts(kernel: Kernel, device: Device, sizes: Sizes) -> list[Candidate[Tiling]]:
    """Every cut that `candidates` looks at, with its modelled time, legal or not."""
    return [scored(kernel, t, device, sizes, r) for t, r in _tilings(kernel, device, sizes)]


def refined(
    kernel: Kernel,
    cut: Cut,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int = SHOWN_CANDIDATES,
) -> Iterator[Candidate[Tiling]]:
    """The tilings of a kernel in normal form whose tile is given, best first: what is left to
    choose inside of a tile that Welder has chosen.
    """
    weighed = weighed_inside(kernel, cut, device, sizes)
    yield from in_order(weighed, kernel, device, env, sizes, top_k)


def weighed_inside(
    kernel: Kernel, cut: Cut, device: Device, sizes: Sizes
) -> list[Candidate[Tiling]]:
    """The same with their modelled times, legal or not."""
    found = Inside.of(kernel, device, sizes).choice(cut)
    if found is None:
        return []
    regions, pack, block = found
    shape, own = _shape(kernel, sizes), sums_of(kernel, device)
    return [
        scored(kernel, Tiling(cut, micro, pack, block), device, sizes, regions)
        for micro in _micros(shape, cut, regions, own, sizes)
    ]


def in_order(
    weighed: list[Candidate[Tiling]],
    kernel: Kernel,
    device: Device,
    env: ShapeEnv,
    sizes: Sizes,
    top_k: int,
) -> Iterator[Candidate[Tiling]]:
    """Legal ones by modelled time, at most `top_k`, then the best of the refused ones.

    To know whether one is legal it is lowered: of kernels of many computes fewer are looked at.
    """
    refused: list[Candidate[Tiling]] = []
    legal = 0
    most = max(FEWEST_CANDIDATES, LOWERED_COMPUTES // max(1, len(kernel.computes)))
    for candidate in _finer_first(sorted(weighed, key=lambda c: c.cost_us), kernel, device, sizes):
        why = refusal(kernel, candidate.value, device, env, sizes)
        if not why:
            legal += 1
            yield candidate
        elif len(refused) < REFUSED_CANDIDATES:
            refused.append(Candidate(candidate.label, candidate.value, candidate.terms, why))
        if legal == top_k or (legal and legal + len(refused) >= most):
            break
    yield from refused


def _finer_first(
    weighed: list[Candidate[Tiling]], kernel: Kernel, device: Device, sizes: Sizes
) -> list[Candidate[Tiling]]:
    """Among candidates as good as the best one, more tasks come first, up to a few a unit, but
    fewer where they would be very short; then those that compute less.

    A unit that is held up then keeps the others waiting for a small part of its share only.
    """
    bound = weighed[0].cost_us * AS_GOOD_RATIO if weighed else 0.0
    most = FEW_TASKS * max(1, device.units)

    def tasks_of(c: Candidate[Tiling]) -> float:
        count = tasks(kernel, c.value, sizes)
        if c.cost_us * max(1, device.units) < count * LEAST_TASK_US:
            return 1 / count
        return count if count <= most else 0

    equal = [c for c in weighed if c.cost_us <= bound]
    equal.sort(key=lambda c: (-tasks_of(c), _busy_us(c), _panel(c)))
    return [*equal, *weighed[len(equal) :]]


def _panel(c: Candidate[Tiling]) -> int:
    """Columns of a register tile: the fewer, the less of the right operand a step reads from L2."""
    return c.value.micro.columns


def _busy_us(c: Candidate[Tiling]) -> float:
    """What a tiling computes, while it loads or not: the less, the less a slow load delays it."""
    return sum(us for name, us in c.terms if name in ("compute", "pack", "edge"))


def weigh(
    kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes
) -> Candidate[Tiling]:
    """One tiling with the modelled time of the whole kernel on all units, or the rule that it
    breaks.
    """
    why = refusal(kernel, tiling, device, env, sizes)
    if malformed(kernel, tiling, device):
        return Candidate("a tiling that there is not", tiling, (), why)
    found = scored(kernel, tiling, device, sizes, propagate(kernel, dict(tiling.tile)))
    return Candidate(found.label, tiling, found.terms, why)


def label_of(tiling: Tiling) -> str:
    """A tiling in words."""
    tile = " ".join(f"{a}={n}" for a, n in tiling.tile) or "whole"
    return f"{tile}, registers {tiling.micro.rows}x{tiling.micro.columns}"


def scored(
    kernel: Kernel, tiling: Tiling, device: Device, sizes: Sizes, regions: Regions
) -> Candidate[Tiling]:
    """A tiling with the modelled time of all its tasks, legal or not."""
    return Candidate(label_of(tiling), tiling, kernel_terms(kernel, tiling, device, sizes, regions))


def refusal(kernel: Kernel, tiling: Tiling, device: Device, env: ShapeEnv, sizes: Sizes) -> str:
    """The rule that a tiling breaks, with the numbers; empty where it is legal."""
    wrong = malformed(kernel, tiling, device)
    if wrong:
        return wrong
    try:
        program = placed(kernel, tiling, env, device)
    except BadOption as error:
        return str(error)
    scratch = (b for b in program.buffers if b.kind == "scratch")
    total = sum(evaluate_dim(b.size, sizes) * ITEM_BYTES[b.dtype] for b in scratch)
    room = private_bytes(device)
    if total > room:
        have = f"a unit of {device.name} has {room / 1024:.0f} KiB"
        return f"capacity: scratch needs {total / 1024:.0f} KiB, {have}"
    return ""


def private_bytes(device: Device) -> int:
    """The largest memory that one unit has for itself."""
    return max(
        (m.capacity_bytes for m in device.levels if not m.shared and m.capacity_bytes),
        default=1 << 20,
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """The axes that may be cut, outermost first, with their sizes; and the main contraction, if
    there is one.
    """

    names: tuple[str, ...]
    extents: dict[str, int]
    symbolic: frozenset[str]
    inner: str
    main: tuple[int, Contraction] | None


def _shape(kernel: Kernel, sizes: Sizes) -> Shape:
    parts = stores(kernel)
    last = parts[-1]
    shared = [a for a in last.axes if all(any(a.name == b.name for b in p.axes) for p in parts)]
    main = next(
        (
            (n, f)
            for n, c in enumerate(kernel.computes)
            if (f := tensor_contraction(kernel, c)) is not None
        ),
        None,
    )
    return Shape(
        tuple(a.name for a in shared),
        {a.name: evaluate_dim(a.extent, sizes) for a in shared},
        frozenset(a.name for a in shared if not isinstance(a.extent, int)),
        last.axes[-1].name if last.axes else "",
        main,
    )


def _tilings(kernel: Kernel, device: Device, sizes: Sizes) -> Iterator[tuple[Tiling, Regions]]:
    inside, own = Inside.of(kernel, device, sizes), sums_of(kernel, device)
    for cut in cuts(kernel, inside.shape, device):
        found = inside.choice(cut)
        if found is not None:
            regions, pack, block = found
            for micro in _micros(inside.shape, cut, regions, own, sizes):
                yield Tiling(cut, micro, pack, block), regions


@dataclass(frozen=True, slots=True)
class Inside:
    """How the main contraction of a kernel runs inside of tiles: worked out once a kernel."""

    kernel: Kernel
    device: Device
    sizes: Sizes
    shape: Shape
    crowded: bool
    most: int

    @staticmethod
    def of(kernel: Kernel, device: Device, sizes: Sizes) -> Inside:
        """For a kernel in normal form under a binding."""
        shape = _shape(kernel, sizes)
        crowded = shape.main is not None and lies_crowded(kernel, shape.main[1], device, sizes)
        most = _rows(shape, propagate(kernel, {}), sizes)
        return Inside(kernel, device, sizes, shape, crowded, most)

    def choice(self, cut: Cut) -> tuple[Regions, bool, int] | None:
        """What a tile needs, whether the right operand is packed in it, and the depth block; None
        where rows that share cache sets would be read in place for want of rows to pack for.
        """
        regions = propagate(self.kernel, dict(cut))
        rows = _rows(self.shape, regions, self.sizes)
        pack = self.crowded and rows >= LEAST_ROWS
        if self.crowded and not pack and self.most >= LEAST_ROWS:
            return None
        return regions, pack, _depth_block(self.shape, regions, self.device, self.sizes)


def _depth_block(shape: Shape, regions: Regions, device: Device, sizes: Sizes) -> int:
    """Sums in blocks where the rows of a tile are too many bytes to stay for the next panel."""
    if shape.main is None:
        return 0
    depth = prod(evaluate_dim(a.extent, sizes) for a in shape.main[1].depth)
    bytes_ = _rows(shape, regions, sizes) * depth * ITEM_BYTES["float32"]
    block = depth_block(device)
    return block if depth > block and bytes_ > private_bytes(device) / 2 else 0


def depth_block(device: Device) -> int:
    """Products that are summed before the sums rest: so many steps of the depth, of a vector each,
    fill the nearest cache.
    """
    return max(1, (device.levels[0].capacity_bytes or 0) // (device.lanes * ITEM_BYTES["float32"]))


def _rows(shape: Shape, regions: Regions, sizes: Sizes) -> int:
    """Rows of the main contraction in a tile."""
    if shape.main is None:
        return 0
    n, found = shape.main
    sides = ((evaluate_dim(a.extent, sizes), regions.axes[n][a.name].size) for a in found.rows)
    return prod(max(1, min(extent, evaluate_dim(size, sizes))) for extent, size in sides)


def _micros(shape: Shape, cut: Cut, regions: Regions, device: Device, sizes: Sizes) -> list[Micro]:
    """The register tiles that iterate over this tile's main contraction in the fewest cycles."""
    if shape.main is None:
        return [Micro(1, 1, device.lanes)]
    n, found = shape.main
    ranges = regions.axes[n]

    def size(name: str, extent: int) -> int:
        return max(1, min(extent, evaluate_dim(ranges[name].size, sizes)))

    rows = prod(size(a.name, evaluate_dim(a.extent, sizes)) for a in found.rows)
    columns = size(found.column.name, evaluate_dim(found.column.extent, sizes))
    depth = prod(evaluate_dim(a.extent, sizes) for a in found.depth)
    width = dict(cut).get(shape.inner)
    fitting = [m for m in register_tiles(device) if width is None or width % m.columns == 0]
    fitting.sort(key=lambda m: contract_cycles(rows, columns, depth, m, device))
    return fitting[:2] or [Micro(1, 1, device.lanes)]


def cuts(kernel: Kernel, shape: Shape, device: Device) -> Iterator[Cut]:
    """Ways to cut the output: leading axes to 1, the next one to an aligned size, and the columns
    to whole panels.
    """
    inner = shape.inner
    columns: list[int] = []
    few = len(kernel.computes) <= 2
    if shape.main is not None and inner in shape.names and (few or cuts_all(kernel, inner)):
        n = shape.extents[inner]
        columns = sorted(
            {
                s
                for v in (1, 2, 3, 4)
                for k in PANELS
                if (s := device.lanes * v * k) < n and s * 16 >= n
            },
            reverse=True,
        )[:6]
    outer = [n for n in shape.names if n != inner or (shape.main is None and len(shape.names) == 1)]
    lead: Cut = ()
    yield from _with_columns((), columns, inner)
    for name in outer:
        extent, symbolic = shape.extents[name], name in shape.symbolic
        for size in _sizes(extent, device.units, _count(lead, shape)):
            if size < extent or symbolic:
                yield from _with_columns((*lead, (name, size)), columns, inner)
        if extent > 1 or symbolic:
            lead = (*lead, (name, 1))
        if _count(lead, shape) > 1024:
            return


def cuts_all(kernel: Kernel, axis: str) -> bool:
    """Whether tiles along an axis of the output cut every compute: no tile does anything that
    another one does too.
    """
    variable = tile_variable(axis)
    ranges = (r.values() for r in propagate(kernel, {axis: 1}).axes)
    return all(any(variable in r.lo.variables for r in values) for values in ranges)


def _sizes(extent: int, units: int, before: int) -> list[int]:
    """Aligned sizes, and even shares of the units, so long as there are not very many tasks."""
    if extent <= 0:  # no tasks at all, however they would be cut; below 0 no run is
        return [1]
    even = {-(-extent // (units * k)) for k in (1, 2, 3, 4, 8)}
    sizes = {s for s in STEPS if s <= extent} | even
    return sorted((s for s in sizes if before * -(-extent // s) <= 2048), reverse=True)


def _count(lead: Cut, shape: Shape) -> int:
    return prod(-(-shape.extents[name] // size) for name, size in lead)


def _with_columns(cut: Cut, columns: list[int], inner: str) -> Iterator[Cut]:
    yield cut
    for c in columns:
        yield (*cut, (inner, c))
