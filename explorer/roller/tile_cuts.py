"""Cuts of a kernel's output into the tiles of tasks, and the cuts that repeat no reduction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from explorer.devices.model import Device
from explorer.ir.dims import Dim, ShapeEnv, Sizes, evaluate_dim
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.contraction import Contraction
from explorer.ir.kernels.normal import stores
from explorer.ir.kernels.regions import Regions, propagate, tile_variable
from explorer.roller.construct.axis_fusion import Fused
from explorer.roller.construct.rtile import TiledProgram
from explorer.tile.lowering.lower import tensor_contraction

STEPS = (1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 64, 128, 256, 512, 1024, 4096, 16384, 65536)
PANELS = (1, 2, 4, 8, 16)
Cut = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CutShape:
    """The axes that may be cut, and the main contraction if there is one.

    Axes are outermost first, with their extents as dims and under a binding.
    """

    names: tuple[str, ...]
    dims: dict[str, Dim]
    extents: dict[str, int]
    symbolic: frozenset[str]
    inner: str
    main: tuple[int, Contraction] | None


def shape_of(kernel: Kernel, sizes: Sizes) -> CutShape:
    """Return the shape of a kernel in normal form under a binding."""
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
    return CutShape(
        tuple(a.name for a in shared),
        {a.name: a.extent for a in shared},
        {a.name: evaluate_dim(a.extent, sizes) for a in shared},
        frozenset(a.name for a in shared if not isinstance(a.extent, int)),
        last.axes[-1].name if last.axes else "",
        main,
    )


def cuts(kernel: Kernel, shape: CutShape, device: Device) -> Iterator[Cut]:
    """Yield cuts of the output: leading axes to 1, the next to an aligned size, and panels."""
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
    """Return True if tiles along an axis of the output cut every compute: none repeats work."""
    variable = tile_variable(axis)
    ranges = (r.values() for r in propagate(kernel, {axis: 1}).axes)
    return all(any(variable in r.lo.variables for r in values) for values in ranges)


def _sizes(extent: int, units: int, before: int) -> list[int]:
    """Return aligned sizes, and even shares of the units, unless there are very many tasks."""
    if extent <= 0:  # no tasks; a negative extent never runs
        return [1]
    even = {-(-extent // (units * k)) for k in (1, 2, 3, 4, 8)}
    sizes = {s for s in STEPS if s <= extent} | even
    return sorted((s for s in sizes if before * -(-extent // s) <= 2048), reverse=True)


def _count(lead: Cut, shape: CutShape) -> int:
    return prod(-(-shape.extents[name] // size) for name, size in lead)


def _with_columns(cut: Cut, columns: list[int], inner: str) -> Iterator[Cut]:
    yield cut
    for c in columns:
        yield (*cut, (inner, c))


def cut_by(
    kernel: Kernel, number: int, product: Contraction | None
) -> Mapping[str, tuple[str, int]]:
    """Map axes of a compute to the axis of the output that cuts each, and the step ratio.

    Only axes that every writer of the output has can be cut. Columns can only if nothing before the
    contraction is repeated for each of their tiles.
    """
    shared, inner = shared_axes(kernel), stores(kernel)[-1].axes[-1:]
    many = product is not None and len(kernel.computes) > 2 and len(shared) > 1
    if many and not cuts_all(kernel, inner[0].name):
        shared = [a for a in shared if a != inner[0].name]
    ranges: Regions = propagate(kernel, dict.fromkeys(shared, 1))
    output_axes = {tile_variable(a): a for a in shared}
    cut: dict[str, tuple[str, int]] = {}
    for axis, r in ranges.axes[number].items():
        match r.lo.terms:
            case ((name, int(step)),) if name in output_axes and step > 0:
                cut[axis] = (output_axes[name], step)
    return cut


def shared_axes(kernel: Kernel) -> list[str]:
    """Return the axes that all writers of the output have, outermost first."""
    parts = stores(kernel)
    return [a.name for a in parts[-1].axes if all(a in p.axes for p in parts)]


def tile_of(fused: Fused, program: TiledProgram, extents: Mapping[str, int]) -> dict[str, int]:
    """Return the task's size along every axis; of fused axes the inner ones are filled first."""
    tile: dict[str, int] = {}
    sizes = program.tile(0).spatial
    for group, size in zip(fused.groups, sizes, strict=False):
        left = size
        for axis in reversed(group):
            tile[axis] = max(1, min(left, extents[axis]))
            left = -(-left // extents[axis])
    return tile


MOST_TIMES_PRICED = 4  # tiles of any binding per tile under the hints, for a valid price


def unrepeated(kernel: Kernel, shape: CutShape, device: Device) -> Iterator[Cut]:
    """Yield cuts of only those axes of the output that every reduction follows.

    There are none if all axes are.
    """
    followed = tuple(a for a in shape.names if a not in _repeating(kernel, shape.names))
    if followed and followed != shape.names:
        yield from cuts(kernel, replace(shape, names=followed), device)


def repeated(kernel: Kernel, cut: Cut, env: ShapeEnv) -> str:
    """Return why a cut is refused whatever its cost, or "".

    Under some binding a reduction is repeated in many more tiles than under the hints.
    """
    shape = shape_of(kernel, env.hints)
    loose = {name: size for name, size in cut if _is_loose(shape, name, size, env)}
    repeating = sorted(_repeating(kernel, tuple(loose))) if loose else ()
    if not repeating:
        return ""
    name = repeating[0]
    most = env.at_most(shape.dims[name])
    bound = "no bound" if most is None else f"{most} at most"
    return (
        f"repeats: each of the tiles of {name}, whose extent has {bound}, would repeat the full sum"
    )


def _is_loose(shape: CutShape, name: str, size: int, env: ShapeEnv) -> bool:
    """Return True if an axis can have many more tiles than under the hints."""
    if name not in shape.symbolic:
        return False
    most = env.at_most(shape.dims[name])
    priced = max(1, -(-shape.extents[name] // size))
    return most is None or -(-most // size) > MOST_TIMES_PRICED * priced


def _repeating(kernel: Kernel, names: tuple[str, ...]) -> set[str]:
    """Return the axes whose every tile repeats some full reduction."""
    ranges = propagate(kernel, dict.fromkeys(names, 1))
    repeating: set[str] = set()
    for c, axes in zip(kernel.computes, ranges.axes, strict=True):
        if c.reduce:
            used = {v for r in axes.values() for v in r.lo.variables}
            repeating |= {a for a in names if tile_variable(a) not in used}
    return repeating
