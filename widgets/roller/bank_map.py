"""Shared-memory accesses of a thread block: banks hit by a warp, and the thread of each output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.codegen.cuda.banks.accesses import BlockAccesses, SharedAccess, accesses
from explorer.codegen.cuda.build import print_tile_program
from explorer.errors import BadOption, CheckFailed
from explorer.ir.shapes.dims import evaluate_shape
from explorer.roller.blocks.thread_block import PREDICTED
from explorer.tile.gpu.banks.requests import WARP, request_parts
from widgets.roller.rewrites import steps_of
from widgets.roller.tiled_kernel import TiledKernel

Bank: TypeAlias = tuple[
    int, tuple[tuple[int, tuple[int, ...]], ...]
]  # a bank's words, each with its threads


@dataclass(frozen=True, slots=True)
class BankAccess:
    """An access of a phase, or several with the same bank pattern.

    It is at `places` places of the source and executed `times` times in total. `cycles` and `least`
    are those of the warp that waits longest; `parts` are the threads served together: the first
    thread and the banks of each part.
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
        """True if words of one bank wait for each other."""
        return self.cycles > self.least


@dataclass(frozen=True, eq=False)
class OutputOwners:
    """The part of an output that a block computes, as rows of its last axis.

    `owner` is the thread that computes each element, -1 for none.
    """

    tensor: str
    owner: NDArray[np.int64]

    def points(self, thread: int) -> int:
        """Return the number of elements that a thread computes."""
        return int(np.count_nonzero(self.owner == thread))


@dataclass(frozen=True, eq=False)
class BankRows:
    """The accesses in program order; `reason` tells why there are none."""

    kernel: str
    device: str
    ops: tuple[str, ...]
    threads: int = 0
    accesses: tuple[BankAccess, ...] = ()
    outputs: tuple[OutputOwners, ...] = ()
    exact: bool = True
    unknown: int = 0
    reason: str = ""
    predicted: str = ""


def data(rolled: TiledKernel) -> BankRows:
    """Return the accesses of the current thread block."""
    device = rolled.device
    about = (rolled.title, device.name, rolled.ops)
    if device.kind == "cpu":
        reason = f"{device.name} has no shared memory with banks: choose a GPU above"
        return BankRows(*about, reason=reason)
    try:
        code = print_tile_program(steps_of(rolled)[-1][1])
    except (BadOption, CheckFailed) as problem:
        return BankRows(*about, reason=problem.sentence)
    trace = accesses(code)
    return BankRows(
        *about,
        trace.threads,
        tuple(_merge_accesses(trace)),
        tuple(_output_owners(rolled, trace)),
        trace.exact,
        len(trace.unknown),
        predicted=PREDICTED.format(device.name),
    )


def _merge_accesses(trace: BlockAccesses) -> list[BankAccess]:
    """Merge accesses of one phase and array that differ only in their base address."""
    alike: dict[tuple[object, ...], list[SharedAccess]] = {}
    for a in trace.accesses:
        valid = a.words[a.words >= 0]
        moved = np.where(a.words >= 0, a.words - (valid.min() if len(valid) else 0), -1)
        key = (a.phase, a.array, a.store, a.lane_bytes, a.cycles, moved.tobytes())
        alike.setdefault(key, []).append(a)
    return [_merge_group(group) for group in alike.values()]


def _merge_group(group: list[SharedAccess]) -> BankAccess:
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
        for first, banks in request_parts(mine, a.lane_bytes)
    )
    times = sum(x.times for x in group)
    return BankAccess(
        a.phase, a.array, a.store, 8 * a.lane_bytes, len(group), times, warp, a.cycles[warp],
        a.least[warp], parts,
    )  # fmt: skip


def _output_owners(rolled: TiledKernel, trace: BlockAccesses) -> list[OutputOwners]:
    """Return each output's part, without rows and columns that the block does not compute."""
    parts = []
    for name, (index, owner) in trace.owners.items():
        columns = _columns(rolled, name)
        (rows, row), (across, column) = (
            np.unique(n, return_inverse=True) for n in (index // columns, index % columns)
        )
        grid = np.full((len(rows), len(across)), -1, np.int64)
        grid[row, column] = owner
        parts.append(OutputOwners(name, grid))
    return parts


def _columns(rolled: TiledKernel, output: str) -> int:
    """Return the extent of an output's last axis."""
    kernel = rolled.kernel
    name = output if output in kernel.outputs else kernel.output
    shape = evaluate_shape(kernel.shape(name), rolled.sizes)
    return max(1, shape[-1]) if shape else 1
