"""What the threads of a printed thread block ask shared memory for: each access with the banks that
a warp meets there, and which outputs each thread makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.codegen.cuda.banks.accesses import Access, BlockAccesses, accesses
from explorer.codegen.cuda.build import printed
from explorer.errors import BadOption, CheckFailed
from explorer.ir.shapes.dims import evaluate_shape
from explorer.roller.blocks.thread_block import PREDICTED
from explorer.tile.gpu.banks.requests import WARP, served
from widgets.roller.rewrites import steps_of
from widgets.roller.rolled import Rolled

Bank: TypeAlias = tuple[
    int, tuple[tuple[int, tuple[int, ...]], ...]
]  # words, each with its threads


@dataclass(frozen=True, slots=True)
class Ask:
    """An access of a phase, or several whose threads ask alike: `places` in the source, done so
    many `times` in all. `cycles` and `least` are those of one warp, which waits longest; `parts`
    are the threads that are served together, the first of each with its banks.
    """

    phase: int
    array: str
    store: bool
    bits: int
    places: int
    times: int
    warp: int
    cycles: int
    least: int
    parts: tuple[tuple[int, tuple[Bank, ...]], ...]

    @property
    def conflict(self) -> bool:
        """Whether words of one bank wait for each other."""
        return self.cycles > self.least


@dataclass(frozen=True, eq=False)
class Owned:
    """The part of an output that a block makes, as rows of its last axis: which thread makes each
    element, -1 none.
    """

    tensor: str
    owner: NDArray[np.int64]

    def points(self, thread: int) -> int:
        """How many elements a thread makes."""
        return int(np.count_nonzero(self.owner == thread))


@dataclass(frozen=True, eq=False)
class BankRows:
    """The accesses in their order; `said` is why there are none."""

    kernel: str
    device: str
    ops: tuple[str, ...]
    threads: int = 0
    asks: tuple[Ask, ...] = ()
    owned: tuple[Owned, ...] = ()
    exact: bool = True
    unknown: int = 0
    said: str = ""
    predicted: str = ""


def data(rolled: Rolled) -> BankRows:
    """Of the thread block on show."""
    device = rolled.device
    about = (rolled.title, device.name, rolled.ops)
    if device.kind == "cpu":
        said = f"{device.name} has no shared memory with banks: choose a GPU above"
        return BankRows(*about, said=said)
    try:
        code = printed(steps_of(rolled)[-1][1])
    except (BadOption, CheckFailed) as problem:
        return BankRows(*about, said=problem.sentence)
    found = accesses(code)
    return BankRows(
        *about,
        found.threads,
        tuple(_asks(found)),
        tuple(_owned(rolled, found)),
        found.exact,
        len(found.unknown),
        predicted=PREDICTED.format(device.name),
    )


def _asks(found: BlockAccesses) -> list[Ask]:
    """Accesses of one phase and array that differ only in where they begin are one."""
    alike: dict[tuple[object, ...], list[Access]] = {}
    for a in found.accesses:
        there = a.words[a.words >= 0]
        moved = np.where(a.words >= 0, a.words - (there.min() if len(there) else 0), -1)
        key = (a.phase, a.array, a.store, a.lane_bytes, a.cycles, moved.tobytes())
        alike.setdefault(key, []).append(a)
    return [_ask(group) for group in alike.values()]


def _ask(group: list[Access]) -> Ask:
    a = group[0]
    warp = a.worst
    mine = np.full_like(a.words, -1)
    mine[warp * WARP : (warp + 1) * WARP] = a.words[warp * WARP : (warp + 1) * WARP]
    parts = tuple(
        (
            first,
            tuple(
                (bank, tuple((word, tuple(lanes)) for word, lanes in sorted(words.items())))
                for bank, words in sorted(banks.items())
            ),
        )
        for first, banks in served(mine, a.lane_bytes)
    )
    times = sum(x.times for x in group)
    return Ask(
        a.phase, a.array, a.store, 8 * a.lane_bytes, len(group), times, warp, a.cycles[warp],
        a.least[warp], parts,
    )  # fmt: skip


def _owned(rolled: Rolled, found: BlockAccesses) -> list[Owned]:
    """Each output's part; rows and columns of which the block makes nothing are left out."""
    made = []
    for name, (index, owner) in found.owners.items():
        columns = _columns(rolled, name)
        (rows, row), (across, column) = (
            np.unique(n, return_inverse=True) for n in (index // columns, index % columns)
        )
        grid = np.full((len(rows), len(across)), -1, np.int64)
        grid[row, column] = owner
        made.append(Owned(name, grid))
    return made


def _columns(rolled: Rolled, output: str) -> int:
    """How many elements lie behind each other along the last axis of an output."""
    kernel = rolled.kernel
    name = output if output in kernel.outputs else kernel.output
    shape = evaluate_shape(kernel.shape(name), rolled.sizes)
    return max(1, shape[-1]) if shape else 1
