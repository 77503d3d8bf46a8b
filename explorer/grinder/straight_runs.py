"""Straight runs: kernel calls without control flow between them, as inputs of Rammer.

An operator is aligned with its producer if each of its tasks reads only what the task of the same
number wrote: if both tasks are on one unit, neither waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.grinder.model import OperatorTask, Straight, UProgram, key_of
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim
from explorer.ir.kernel import Compute, Kernel, reads
from explorer.ir.kernels.normal import writers

Cuts = list[tuple[str, int, Dim]]  # axes that are cut, outermost first: size of a tile, extent


@dataclass(frozen=True, slots=True)
class StraightRun:
    """A straight run with the waits of its operators, without the numbers of a binding.

    `tied` are the operators whose tasks are aligned with those of another one: they keep their
    tiles.
    """

    key: str
    operators: tuple[OperatorTask, ...]
    reads: tuple[tuple[int, ...], ...]
    aligned: tuple[tuple[int, ...], ...]
    tied: frozenset[int]


def straight_run(
    part: Straight, program: UProgram, begin: int, turns: Mapping[int, list[int]]
) -> StraightRun:
    """Return a straight run with the waits of its operators.

    Each operator waits for the writers of its operands, the readers of the memory that it
    overwrites, the previous users in its run of the storage that it writes, and the producer of the
    value that it comes after.
    """
    writers: dict[str, int] = {}
    readers: dict[str, set[int]] = {}  # of the root since its last write
    reads, aligned = [], []
    for n, operator in enumerate(part.operators):
        roots = [program.values[a].root for a in operator.args]
        waits = {writers[r] for r in roots if r in writers}
        written = [program.values[r].root for r in operator.results]
        waits |= {n for r in written for n in readers.pop(r, ())}
        for r in {*roots} - {*written}:
            readers.setdefault(r, set()).add(n)
        here = begin + n
        turn = {p - begin for p in turns.get(here, ()) if begin <= p < here}
        behind = writers.get(program.values[operator.after].root) if operator.after else None
        aligned.append(
            tuple(
                w
                for w in sorted(waits - turn)
                if _reads_result(program, operator, part.operators[w])
                and is_aligned(operator, part.operators[w])
            )
        )
        waits |= turn if behind is None else {*turn, behind}
        reads.append(tuple(sorted(waits)))
        writers |= dict.fromkeys(written, n)
    return StraightRun(key_of(part), part.operators, tuple(reads), tuple(aligned), _tied(aligned))


def _reads_result(program: UProgram, reader: OperatorTask, producer: OperatorTask) -> bool:
    """Return True if it reads another's results themselves, and no views of their memory."""
    roots = {program.values[r].root for r in producer.results}
    return all(a in producer.results for a in reader.args if program.values[a].root in roots)


def _tied(aligned: Sequence[Sequence[int]]) -> frozenset[int]:
    readers = frozenset(n for n, producers in enumerate(aligned) if producers)
    return readers.union(*aligned)


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
    before, after = _cuts(wrote, producer.call.core_tiling), _cuts(writes, reader.call.core_tiling)
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
