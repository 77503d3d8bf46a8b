"""Several replicas of a model, each with its part of every batch, that stay the same to the bit: on
threads of one process, or on processes and machines by MPI.

Gradients, the loss, and whether a gradient is not finite are summed together, in the order of the
replicas; no replica asks another one anything else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Barrier, BrokenBarrierError
from typing import Any, Protocol

import numpy as np

from explorer.compiler import compile as compiled
from explorer.errors import BadOption, Cancelled, ShapeError
from explorer.frontends.trace import trace
from explorer.frontends.tracing.structure import flatten, rebuild
from explorer.training.runs.programs import Batch, Beginning, declared
from explorer.training.step import clipped, gradients_of
from explorer.training.tree import each, leaves

PATIENCE = 600.0  # seconds to wait for the others


class Ranks(Protocol):
    """Which replica this is, of how many, and their sum."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def total(self, part: np.ndarray) -> np.ndarray:
        """The sum of all replicas' arrays, in their order: the same to the bit for each of them."""
        ...

    def leave(self) -> None:
        """This one ends early: the others shall not wait for it."""
        ...


class Mpi:
    """The processes that `mpiexec -n 4 python train.py` started (MPI's `COMM_WORLD`). BadOption
    where mpi4py is not installed.
    """

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError:
            raise BadOption(
                "replicas on several processes need mpi4py",
                where="Mpi",
                try_="pip install ironworks[mpi], and an MPI, such as Debian's openmpi-bin",
            ) from None
        self._world = MPI.COMM_WORLD

    @property
    def rank(self) -> int:
        """Which process this is."""
        return int(self._world.Get_rank())

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self._world.Get_size())

    def total(self, part: np.ndarray) -> np.ndarray:
        """Every process gets all parts and sums them itself: an all-reduce that has one order."""
        rows = np.empty((self.size, *part.shape), part.dtype)
        self._world.Allgather(part, rows)
        return _in_order(rows)

    def leave(self) -> None:
        """End all of them."""
        print(f"replica {self.rank} of {self.size} ends early: so do the others", file=sys.stderr)
        self._world.Abort(1)


@dataclass(slots=True)
class _Meeting:
    barrier: Barrier
    parts: list[np.ndarray | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ThreadRank:
    """One of some threads of this process (`on_threads`)."""

    rank: int
    size: int
    _meeting: _Meeting

    def total(self, part: np.ndarray) -> np.ndarray:
        """Waits for the others. Cancelled where one of them ended early."""
        meeting = self._meeting
        try:
            meeting.parts[self.rank] = part
            meeting.barrier.wait(PATIENCE)
            found = _in_order([p for p in meeting.parts if p is not None])
            meeting.barrier.wait(PATIENCE)
        except BrokenBarrierError:
            raise Cancelled(f"replica {self.rank} waited for one that ended early") from None
        return found

    def leave(self) -> None:
        """The others raise Cancelled."""
        self._meeting.barrier.abort()


def on_threads(count: int) -> list[ThreadRank]:
    """So many replicas, one for each thread of this process that is to have one."""
    meeting = _Meeting(Barrier(count), [None] * count)
    return [ThreadRank(n, count, meeting) for n in range(count)]


def _in_order(rows: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    total = np.array(rows[0])
    for row in rows[1:]:
        total += row
    return total


class Replicated:
    """A step of one replica: gradients of its part of the batch are one program, the update by the
    mean of all is another; whether it counts is data of that.
    """

    def __init__(self, at: Beginning, ranks: Ranks) -> None:
        recipe, optimizer, options = at.setting.recipe, at.setting.optimizer, at.setting.options
        own, self.ranks = replace(recipe, clip_norm=None), ranks
        self.scaled = recipe.scale is not None
        self.shapes, self.nesting = [np.shape(p) for p in leaves(at.params)], flatten(at.state)[1]
        factor = np.ones((), np.float32)

        def gradients(params: Any, factor: Any, numbers: Any, batch: Any) -> Any:
            return gradients_of(own, params, factor, numbers, batch)

        def update(params: Any, made: Any, state: Any, numbers: Any, found: Any) -> Any:
            given = made if recipe.clip_norm is None else clipped(made, recipe.clip_norm)
            after = dict(state)
            params, after["optimizer"] = optimizer.update(
                params, given, state["optimizer"], numbers, found
            )
            if recipe.scale is not None:
                after["scale"] = recipe.scale.update(state["scale"], found)
            return params, after

        part = self._part(at.batch)
        first = trace(gradients)(*map(declared, (at.params, factor, at.numbers, part)))
        given = (at.params, at.params, at.state, at.numbers, np.bool_(False))
        second = trace(update)(*map(declared, given))
        count = len(self.shapes)
        names = list(second.inputs)
        kept = [*names[:count], *names[2 * count :][: len(leaves(at.state))]]
        self.program = compiled(first, options=options, cancelled=at.cancelled)
        self.update = compiled(second, options=options, donate=kept, cancelled=at.cancelled)

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray:
        """The mean loss; the arrays are written over, alike in all replicas."""
        count, data = len(self.shapes), tuple(numbers.values())
        given, state = arrays[:count], arrays[count:]
        kept = rebuild(self.nesting, state)
        factor = kept["scale"]["scale"] if self.scaled else np.ones((), np.float32)
        part = leaves(self._part(batch))
        value, *made, found = self.program.run(*given, factor, *data, *part).values()
        flat = [np.asarray(a, np.float64).reshape(-1) for a in (value, found)]
        told = self.ranks.total(np.concatenate([*flat, *(g.reshape(-1) for g in made)]))
        means, at = [], 2
        for shape, g in zip(self.shapes, made, strict=True):
            rows = told[at : at + g.size] / self.ranks.size
            means.append(rows.reshape(shape).astype(g.dtype))
            at += g.size
        skips = np.array(told[1] != 0)
        arrays[:] = self.update.run(*given, *means, *state, *data, skips).values()
        return np.asarray(told[0] / self.ranks.size, value.dtype)

    def _part(self, batch: Batch) -> Batch:
        size, rank = self.ranks.size, self.ranks.rank

        def rows(a: Any) -> Any:
            array = np.asarray(a)
            if not array.ndim or array.shape[0] % size:
                raise ShapeError(
                    f"a batch is shared by {size} replicas, and an array of it is "
                    f"{list(array.shape)}",
                    expected=f"a first extent that is a multiple of {size}",
                )
            each_ = array.shape[0] // size
            return array[rank * each_ : (rank + 1) * each_]

        made: Batch = each(rows, batch)
        return made
