"""Rules for tiles on a CPU: vectors in registers, lines and sets in the caches of one core."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.cached_property import cached_property
from explorer.devices.model import Device, MemoryLevel
from explorer.ir.decisions.tiling import Micro
from explorer.roller.construct.alignment import (
    EXECUTION_UNIT,
    RuleCheck,
    aligned_base,
    cache_sets,
    execution_unit,
    memory_transaction,
    moved_bytes,
    set_padding,
)
from explorer.roller.construct.expression import Expression, TensorAccess, reads_of
from explorer.roller.construct.levels import Larger, Room, TileLevel
from explorer.roller.construct.rtile import RTile, whole_tile

VECTORS = (1, 2, 3, 4, 6, 8)  # column groups of a register tile
MOST_ROWS = 14  # of a register tile: by two vectors they take 31 of 32 registers; chosen
CACHE_STEPS = tuple(2**n for n in range(16))
ROOM_TILES = 8  # least tiles that a cache has room for; chosen
FEW_TILES = 4  # per core: so many share the work evenly; chosen
PARTS = (1, 2, 3, 4, 6, 8)  # of an axis, for even shares
EPS_STEP = 0.05  # registers take any number of rows, so steps are finer; chosen
CHOICE_EPS = 0.2  # waste allowed for more than one result; chosen
KEPT_TILES = 2  # the register tile and the unit tile of any operator


@dataclass(frozen=True)
class CpuRules:
    """Roller's rules for a core.

    The execution unit is a vector of the innermost axis by one row, a transaction is a line, and
    padded rows do not all begin in one set of L1. `streamed`: the operator reuses too little; whole
    lines and the innermost axis first.
    """

    device: Device
    expression: Expression
    streamed: bool = False
    eps_step: float = EPS_STEP
    choice_eps: float = CHOICE_EPS
    kept_tiles: int = KEPT_TILES

    @cached_property
    def levels(self) -> tuple[TileLevel, ...]:
        """Return the private caches of a core, farthest first, then its vector registers."""
        d = self.device
        own = [m for m in d.levels if not m.shared and m.capacity_bytes]
        feeds = [*own[1:], self._home()]
        caches = [
            TileLevel(
                m.name, f.name, m.capacity_bytes or 0, "bytes", d.each_gb_per_s(f), f.line_bytes
            )
            for m, f in zip(own, feeds, strict=True)
        ]
        near = own[0] if own else self._home()
        registers = TileLevel(
            "registers", near.name, d.registers, "vector registers",
            d.each_gb_per_s(near), d.lanes * 4,
        )  # fmt: skip
        return (*reversed(caches), registers)

    def _home(self) -> MemoryLevel:
        """Return the nearest shared memory that holds all operands, with room for others."""
        total = sum(a.item_bytes * prod(a.shape) for a in reads_of(self.expression))
        shared = [m for m in self.device.levels if m.shared]
        fits = (m for m in shared if m.capacity_bytes is None or total <= m.capacity_bytes // 2)
        return next(fits, MemoryLevel("memory", None, float("inf"), 64, True))

    @cached_property
    def nearest(self) -> int:
        """Return the position of the registers among the levels."""
        return len(self.levels) - 1

    def sizes(self, base: RTile, level: int) -> tuple[tuple[int, ...], ...]:
        """Return the aligned sizes of every axis.

        Registers: rows one by one, columns in vectors. Caches: multiples, and one step of the
        reduced axes.
        """
        e = base.expression
        if level == self.nearest:
            rows = tuple(range(1, MOST_ROWS + 1))
            spatial = [
                rows if self._is_row(d) else (1,) for d in range(len(e.axes[: e.spatial]) - 1)
            ]
            return (
                *spatial,
                *([self._columns(e)] if e.spatial else []),
                *((1,) for _ in base.reduced),
            )
        if level:  # tiles of the last cache are iterated over register tile by register tile
            return (*((s,) for s in base.spatial), *((n,) for n in self._depth(base, level)))
        spatial = [self._multiples(n, base.shape[d]) for d, n in enumerate(e.extents[: e.spatial])]
        return (*spatial, *((n,) for n in self._depth(base, level)))

    def _depth(self, base: RTile, level: int) -> tuple[int, ...]:
        """Return the steps of the reduced axes, in whole lines.

        They are the full extents, or so much of them that the least tile leaves room to grow.
        """
        e, room = base.expression, self.levels[level]
        item = e.inputs[0].item_bytes if e.inputs else 4
        ends = e.extents[e.spatial :]
        line = [
            min(n, aligned_base(r, item, room.transaction_bytes))
            for r, n in zip(base.reduced, ends, strict=True)
        ]
        depth = list(ends)
        while depth != line:
            tile = RTile(e, (*base.spatial, *depth))
            if ROOM_TILES * tile.footprint_bytes <= room.capacity:
                break
            longest = max(range(len(depth)), key=lambda d: depth[d] / line[d])
            depth[longest] = max(line[longest], -(-depth[longest] // 2))
        return tuple(depth)

    def _is_row(self, axis: int) -> bool:
        """Return True if some input does not move with the axis: it is reused for each row."""
        return self._tiled and self._reused(axis)

    @cached_property
    def _tiled(self) -> bool:
        """Return True if registers hold sums of several rows, which share a vector of columns."""
        e = self.expression
        rows = (n for d, n in enumerate(e.extents[: e.spatial - 1]) if self._reused(d))
        return self._sums and prod(rows) > 1

    def _streamed(self, level: int) -> bool:
        """Return True if reuse does not count at a level; it always does for sums in registers."""
        return self.streamed and not (level == self.nearest and self._tiled)

    def _reused(self, axis: int) -> bool:
        return any(
            all(axis != x for walk in a.dims for x, _ in walk) for a in self.expression.inputs
        )

    def _columns(self, e: Expression) -> tuple[int, ...]:
        extent, lanes = e.extents[e.spatial - 1], self.device.lanes
        return tuple(lanes * v for v in VECTORS) if extent >= lanes else (extent,)

    def _multiples(self, extent: int, base: int) -> tuple[int, ...]:
        even = {-(-extent // (part * base)) for part in (*PARTS, self.device.units)}
        factors = sorted({*CACHE_STEPS, *even})
        return tuple(base * k for k in factors if base * (k - 1) < extent)

    def clips(self, level: int) -> bool:
        """Return True for caches: their loops end with the tensor, unlike register tiles."""
        return level != self.nearest

    def stored(self, tiles: tuple[RTile, ...], level: int) -> RTile:
        """Return the tile padded so that rows iterated over together do not share one set of L1."""
        tile = tiles[0]
        if level != self.nearest - 1 or not self.device.levels:
            return tile
        read = tiles[1].input_tiles
        pads = map(self._padding, tile.expression.inputs, tile.input_tiles, read)
        return tile.padded(tuple(pads))

    def _padding(self, access: TensorAccess, box: tuple[int, ...], read: tuple[int, ...]) -> int:
        rows = prod(read[:-1])
        if len(box) < 2 or rows == 1:
            return 0
        near = self.device.levels[0]
        associativity = self.device.ways(near)
        sets = cache_sets(near.capacity_bytes or 0, near.line_bytes, associativity)
        stride = box[-1] * access.item_bytes
        return set_padding(rows, stride, near.line_bytes, sets, associativity) // access.item_bytes

    def rooms(self, tiles: tuple[RTile, ...], level: int) -> tuple[Room, ...]:
        """Return the use of vector registers, or of bytes of a cache.

        Registers hold sums, a vector a column group, and one row value. Caches hold all data tiles,
        sums included.
        """
        tile = tiles[0]
        if level == self.nearest:
            micro = Micro(self._rows(tile), self._vectors(tile), self.device.lanes)
            return (Room("vector registers", micro.registers, self.device.registers),)
        room = self.levels[level]
        out = tile.expression.output.item_bytes * prod(tile.output_tile)
        return (Room(f"bytes of {room.name}", tile.footprint_bytes + out, room.capacity),)

    def _vectors(self, tile: RTile) -> int:
        return -(-tile.spatial[-1] // self.device.lanes) if tile.spatial else 1

    def _rows(self, tile: RTile) -> int:
        return prod(tile.spatial[:-1])

    def aligned(self, tiles: tuple[RTile, ...], level: int) -> RuleCheck:
        """Check that columns are whole vectors, with enough sums to hide the latency of one."""
        tile, e = tiles[-2], self.expression
        if not tile.spatial or tile.spatial[-1] == e.extents[e.spatial - 1]:
            columns = RuleCheck(EXECUTION_UNIT, True, 0, 0, "the full axis")
        else:
            columns = execution_unit(tile.spatial[-1], self.device.lanes, "columns")
        if not columns.holds or not self._sums:
            return columns
        sums, wanted = self._rows(tile) * self._vectors(tile), self._least_sums
        text = f"{sums} independent sums, {wanted} hide the latency"
        return RuleCheck(EXECUTION_UNIT, sums >= wanted, sums, wanted, text)

    @cached_property
    def _least_sums(self) -> int:
        e = self.expression
        rows = prod(n for d, n in enumerate(e.extents[: e.spatial - 1]) if self._is_row(d))
        vectors = -(-e.extents[e.spatial - 1] // self.device.lanes) if e.spatial else 1
        starts = self.device.fma_per_cycle if self._tiled else 1  # per cycle: loads bound a stream
        return min(int(self.device.pipeline_cycles * starts), rows * vectors)

    @cached_property
    def _sums(self) -> bool:
        """Return True if a register tile holds sums: its columns share an operand."""
        e = self.expression
        return e.spatial < len(e.axes) and e.spatial > 0 and self._reused(e.spatial - 1)

    def saturated(self, tiles: tuple[RTile, ...], level: int, larger: Larger) -> bool:
        """Return True if growth may stop.

        Sums fill the registers as far as the axes go: unlike a GPU's threads, unused registers
        serve no other work. A cache's tile takes longer to compute than to load; a stream's has
        whole lines.
        """
        tile = tiles[0]
        if level == self.nearest:
            return not self._tiled or self._full(tile, larger)
        if not self.streamed:
            return self.compute_us(tile, level) > self.memory_us(tile, level)
        return level > 0 or (self.line(tile).holds and self._large(tile))

    def _large(self, tile: RTile) -> bool:
        """Return True if a streamed tile is worth a task: it fills L1, or cores would idle."""
        out = self.expression.output.item_bytes * prod(tile.output_tile)
        near = self.device.levels[0].capacity_bytes if self.device.levels else 0
        grid = whole_tile(self.expression).count(tile)
        few = grid <= FEW_TILES * self.device.units
        return few or tile.footprint_bytes + out >= (near or 0)

    def _full(self, tile: RTile, larger: Larger) -> bool:
        grown = [tile.with_size(d, n) for d, n in enumerate(larger) if n is not None]
        return not any(self.rooms((t,), self.nearest)[0].fits for t in grown)

    def line(self, tile: RTile) -> RuleCheck:
        """Check the transaction rule for the tensor written."""
        out, box = self.expression.output, tile.output_tile
        inner, full = (box[-1], out.shape[-1]) if box else (1, 1)
        line = self.device.levels[0].line_bytes if self.device.levels else 64
        return memory_transaction(inner, full, out.item_bytes, line)

    def compute_us(self, tile: RTile, level: int) -> float:
        """Return the time at the peak of fused multiply-adds on whole vectors."""
        columns = tile.spatial[-1] if tile.spatial else 1
        padding_ratio = self._vectors(tile) * self.device.lanes / columns
        return tile.operations * padding_ratio / (self.device.reached_gflops_per_unit * 1e3)

    def memory_us(self, tile: RTile, level: int) -> float:
        """Return the time to move whole lines, or vectors into registers, from the source."""
        room, e = self.levels[level], self.expression
        line = room.transaction_bytes
        if level == self.nearest:  # one load for each vector and each row value, in every step
            steps = prod(tile.whole_shape[e.spatial :])
            moved = steps * line * self._loads(tile)
        else:
            moved = sum(_moved(a, a.tile(tile.whole_shape), line) for a in e.inputs)
            moved += _moved(e.output, tile.output_tile, line)
        return moved / (room.gb_per_s * 1e3)

    def _loads(self, tile: RTile) -> int:
        """Return the loads of one step.

        They are vectors along the columns, which are contiguous in panels, and values that are
        broadcast to a vector.
        """
        last, vectors = tile.expression.spatial - 1, self._vectors(tile)
        columns = tile.spatial[-1] if tile.spatial else 1
        total = 0
        for access, box in zip(tile.expression.inputs, tile.input_tiles, strict=True):
            by_columns = any(x == last for walk in access.dims for x, _ in walk)
            total += prod(box) // columns * vectors if by_columns else prod(box)
        return total

    def order(self, tile: RTile, scores: tuple[float, ...], level: int) -> tuple[int, ...]:
        """Return the axes by score; for streams from the innermost axis outwards."""
        axes = range(len(scores))
        if self._streamed(level):
            return tuple(reversed(axes))
        return tuple(sorted(axes, key=lambda d: -scores[d]))


def _moved(access: TensorAccess, box: tuple[int, ...], line: int) -> int:
    """Return the bytes of a box in whole transactions."""
    return prod(box[:-1]) * moved_bytes(box[-1] if box else 1, access.item_bytes, line)
