"""Alignment of operators: each task reads only what the producer's task of the same number wrote.

If both tasks are on one unit, neither waits.
"""

from __future__ import annotations

from explorer.grinder import OperatorTask
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Compute, Kernel, reads
from explorer.ir.kernels.normal import writers
from explorer.ir.shapes.dims import Dim

Cuts = list[tuple[str, int, Dim]]  # axes that are cut, outermost first: size of a tile, extent


def is_aligned(reader: OperatorTask, producer: OperatorTask) -> bool:
    """Return True if task n of `reader` reads from `producer`'s result only what its task n wrote.

    Both write each element in one compute, cut alike; the result is loaded there alone, at the very
    place where it was stored.
    """
    producing, reading = producer.call.kernel, reader.call.kernel
    if len(producing.outputs) > 1 or len(reading.outputs) > 1:
        return False
    wrote, writes = _writer(producing), _writer(reading)
    names = [t for t, a in zip(reading.inputs, reader.args, strict=True) if a in producer.results]
    over = producing.updates or reading.updated(reading.output) in names
    if wrote is None or writes is None or not names or over:
        return False
    before, after = _cuts(wrote, producer.call.tiling), _cuts(writes, reader.call.tiling)
    if not before or [c[1:] for c in before] != [c[1:] for c in after]:
        return False
    mine = {a: b for (a, _, _), (b, _, _) in zip(before, after, strict=True)}
    loads = [(c, r) for c in reading.computes for r in reads(c.expr) if r.tensor in names]
    return all(
        c is writes and r.fill is None and _same_place(wrote.target, r.index, mine)
        for c, r in loads
    )


def _writer(kernel: Kernel) -> Compute | None:
    computes = writers(kernel, kernel.output)
    return computes[0] if len(computes) == 1 else None


def _cuts(c: Compute, tiling: Tiling | None) -> Cuts:
    if tiling is None:
        return []  # nothing is cut before Roller
    cuts = []
    for a in c.axes:
        size = tiling.size(a.name)
        if size is not None and not (isinstance(a.extent, int) and size >= a.extent):
            cuts.append((a.name, size, a.extent))
    return cuts


def _same_place(
    stored: tuple[Affine, ...], loaded: tuple[object, ...], names: dict[str, str]
) -> bool:
    """Return True if each cut axis iterates over one dim alone, the same in stores and in loads."""
    dims = {i.bare: d for d, i in enumerate(stored) if i.bare in names}
    if set(dims) != set(names):
        return False
    there = {d: names[str(axis)] for axis, d in dims.items()}
    return all(
        isinstance(i, Affine) and i.bare == there[d] for d, i in enumerate(loaded) if d in there
    )
