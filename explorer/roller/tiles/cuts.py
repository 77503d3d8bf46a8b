"""Cuts of a kernel's output into the tiles of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from explorer.devices.model import Device
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import stores
from explorer.ir.patterns.contraction import Contraction
from explorer.ir.patterns.regions import propagate, tile_variable
from explorer.ir.shapes.dims import Dim, Sizes, evaluate_dim
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
