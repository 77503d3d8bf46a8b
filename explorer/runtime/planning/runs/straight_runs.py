"""Straight runs: kernel calls without control flow between them, as inputs of Rammer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.grinder import OperatorTask, Straight, UProgram
from explorer.runtime.planning.runs.aligned_reads import is_aligned
from explorer.runtime.planning.timeline import key_of


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
