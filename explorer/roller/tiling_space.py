"""The space of all tilings that the generator can lower: Roller avoids it, search draws from it.

A point chooses a tile size for each axis of the output, and how contractions run inside: the
register tile, packing of the right operand, the depth block. Choices that do not change the tile
program are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isqrt, prod
from random import Random

from explorer.cached_property import cached_property
from explorer.devices.model import Device
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Axis, Kernel
from explorer.ir.kernels.normal import stores
from explorer.roller.weigh_tiles import refusal
from explorer.tile.lowering.lower import lower, tensor_contraction, with_sum_lanes

WHOLE = 0  # stands for a size: the axis is not cut
LEAST_BLOCK_PRODUCTS = 32  # summed before the sums are stored; chosen
MOST_VAIN_POINTS = 2000  # consecutive illegal points: a bound on search time, chosen
SMALL_POINTS = 4096  # points that are shuffled as a list: a bound on memory, chosen


@dataclass(frozen=True)
class TilingSpace:
    """The tilings of a kernel in normal form on a device, under a binding of the symbols.

    `axes`: each axis that may be cut, outermost first, with its tile sizes. A point may still break
    a rule that depends on several choices; `is_legal` checks that.
    """

    kernel: Kernel
    device: Device
    env: ShapeEnv
    sizes: Sizes
    axes: tuple[tuple[str, tuple[int, ...]], ...]
    micros: tuple[Micro, ...]
    packs: tuple[bool, ...]
    blocks: tuple[int, ...]

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """Return the number of alternatives for each choice."""
        cuts = (len(sizes) for _, sizes in self.axes)
        return (*cuts, len(self.micros), len(self.packs), len(self.blocks))

    @property
    def count(self) -> int:
        """The number of points, including those that break a rule."""
        return prod(self.radices)

    def tiling(self, number: int) -> Tiling:
        """Return the point of that number, from 0 up to, not including, `count`."""
        if not 0 <= number < self.count:
            raise IndexError(f"the space has {self.count} points, there is no point {number}")
        digits = []
        for radix in reversed(self.radices):
            number, digit = divmod(number, radix)
            digits.append(digit)
        return self._at(tuple(reversed(digits)))

    def number(self, tiling: Tiling) -> int | None:
        """Return the number of a tiling, None if it is not a point."""
        place = self._place(tiling)
        if place is None:
            return None
        number = 0
        for digit, radix in zip(place, self.radices, strict=True):
            number = number * radix + digit
        return number

    def is_legal(self, tiling: Tiling) -> bool:
        """Return True if a tiling breaks no rule of the generator and of the device."""
        return not refusal(self.kernel, tiling, self.device, self.env, self.sizes)

    def drawn(self, seed: int) -> Iterator[Tiling]:
        """Yield random legal tilings, each at most once; the same ones for the same seed."""
        tried = 0
        for number in self._numbers(Random(seed)):
            tiling = self.tiling(number)
            tried += 1
            if self.is_legal(tiling):
                tried = 0
                yield tiling
            elif tried == MOST_VAIN_POINTS:
                return

    def sample(self, n: int, seed: int) -> tuple[Tiling, ...]:
        """Return `n` different random legal tilings, or fewer if no more are found."""
        return tuple(islice(self.drawn(seed), n))

    def neighbours(self, tiling: Tiling) -> Iterator[Tiling]:
        """Yield the legal tilings that differ in one choice, by one step of it."""
        place = self._place(tiling)
        if place is None:
            return
        for n, (digit, radix) in enumerate(zip(place, self.radices, strict=True)):
            for other in (digit - 1, digit + 1):
                if 0 <= other < radix:
                    moved = self._at((*place[:n], other, *place[n + 1 :]))
                    if self.is_legal(moved):
                        yield moved

    def crossed(self, first: Tiling, second: Tiling, random: Random) -> Tiling:
        """Return a tiling with each choice taken at random from two points; it may be illegal."""
        a, b = self._place(first), self._place(second)
        assert a is not None and b is not None
        return self._at(tuple(random.choice(pair) for pair in zip(a, b, strict=True)))

    def changed(self, tiling: Tiling, random: Random) -> Tiling:
        """Return the tiling with one choice replaced at random; it may be illegal."""
        place = self._place(tiling)
        assert place is not None
        open_ = [n for n, radix in enumerate(self.radices) if radix > 1]
        if not open_:
            return tiling
        n = random.choice(open_)
        return self._at((*place[:n], random.randrange(self.radices[n]), *place[n + 1 :]))

    def _numbers(self, random: Random) -> Iterator[int]:
        """Yield points in random order, each once."""
        if self.count <= SMALL_POINTS:
            numbers = list(range(self.count))
            random.shuffle(numbers)
            yield from numbers
            return
        seen: set[int] = set()
        while len(seen) < self.count:
            number = random.randrange(self.count)
            if number not in seen:
                seen.add(number)
                yield number

    def _at(self, place: tuple[int, ...]) -> Tiling:
        cuts = len(self.axes)
        sizes = ((axis, every[n]) for (axis, every), n in zip(self.axes, place))
        micro, pack, block = place[cuts:]
        return Tiling(
            tuple((axis, size) for axis, size in sizes if size != WHOLE),
            self.micros[micro],
            self.packs[pack],
            self.blocks[block],
        )

    def _place(self, tiling: Tiling) -> tuple[int, ...] | None:
        named = dict(tiling.tile)
        wanted = [(every, named.pop(axis, WHOLE)) for axis, every in self.axes]
        if named or not all(size in every for every, size in wanted):
            return None
        inside = ((self.micros, tiling.micro), (self.packs, tiling.pack))
        if (
            not all(choice in every for every, choice in inside)
            or tiling.depth_block not in self.blocks
        ):
            return None
        return (
            *(every.index(size) for every, size in wanted),
            self.micros.index(tiling.micro),
            self.packs.index(tiling.pack),
            self.blocks.index(tiling.depth_block),
        )


def space_of(kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes) -> TilingSpace:
    """Return the space of all tilings of a kernel in normal form."""
    last = stores(kernel)[-1]
    cut = cut_axes(kernel)
    inner = last.axes[-1].name if last.axes else ""
    axes = tuple((a.name, _cuts(a, a.name == inner, device, sizes)) for a in cut)
    micros, packs, blocks = _inside(kernel, device, env, sizes)
    return TilingSpace(kernel, device, env, sizes, axes, micros, packs, blocks)


def cut_axes(kernel: Kernel) -> tuple[Axis, ...]:
    """Return the axes that all computes of the output have, outermost first, which may be cut."""
    parts = stores(kernel)
    named = [{a.name for a in p.axes} for p in parts]
    return tuple(a for a in parts[-1].axes if all(a.name in names for names in named))


def even_shares(extent: int) -> set[int]:
    """Return the tile sizes that cut an extent into some number of equal parts, except the last."""
    if extent == 0:
        return set()
    root = isqrt(extent)
    return {*range(1, root + 1), *(-(-extent // k) for k in range(1, root + 2))}


def aligned_sizes(extent: int, lanes: int, inner: bool) -> set[int]:
    """Return multiples of a vector; along outer axes also any size below two vectors.

    Those align to rows of a register tile.
    """
    multiples = set(range(lanes, extent, lanes))
    return multiples if inner else multiples | set(range(1, min(extent, 2 * lanes)))


def register_tiles(device: Device) -> tuple[Micro, ...]:
    """Return all rows x vectors of accumulators that leave registers for a row and a value."""
    return tuple(
        Micro(rows, vectors, device.lanes)
        for vectors in range(1, device.registers // 2 + 1)
        for rows in range(1, device.registers)
        if Micro(rows, vectors, device.lanes).registers <= device.registers
    )


def _cuts(axis: Axis, inner: bool, device: Device, sizes: Sizes) -> tuple[int, ...]:
    extent = evaluate_dim(axis.extent, sizes)
    tile_sizes = even_shares(extent) | aligned_sizes(extent, device.lanes, inner)
    least = 0 if isinstance(axis.extent, int) else 1  # a symbolic extent may be larger at run time
    return (*sorted(s for s in tile_sizes if 0 < s < extent + least), WHOLE)


def _inside(
    kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes
) -> tuple[tuple[Micro, ...], tuple[bool, ...], tuple[int, ...]]:
    """Return the register tiles, packing and depth blocks that change the tile program."""
    matches = [f for c in kernel.computes if (f := tensor_contraction(kernel, c)) is not None]
    device = with_sum_lanes(kernel, device)
    single = Micro(1, 1, device.lanes)
    plain = lower(kernel, Tiling((), single), env, device)
    if not matches or lower(kernel, Tiling((), Micro(2, 1, device.lanes)), env, device) == plain:
        return (single,), (False,), (0,)
    packed = lower(kernel, Tiling((), single, True), env, device) != plain
    depth = max(prod(evaluate_dim(a.extent, sizes) for a in f.depth) for f in matches)
    blocks = [0]
    block = LEAST_BLOCK_PRODUCTS
    while block < depth:
        if lower(kernel, Tiling((), single, False, block), env, device) != plain:
            blocks.append(block)
        block *= 2
    return register_tiles(device), (False, True) if packed else (False,), tuple(blocks)
