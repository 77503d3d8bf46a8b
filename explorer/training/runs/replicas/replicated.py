"""Several replicas of a model, each with its part of every batch, that stay the same to the bit.

Gradients, the loss, and whether a gradient is not finite are summed together, in the order of the
replicas, bucket by bucket: those of late layers while the backward pass goes on to early ones. No
replica asks another one anything else, and no host reads. The ordinary form, to compare with, sums
after the whole backward pass, and its hosts read the flag and ask each other for it, as those of
Megatron-LM's mixed-precision optimizer do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compilation import Compilation
from explorer.compiler import compile as compiled
from explorer.counters import counters
from explorer.errors import ShapeError
from explorer.frontends.trace import trace
from explorer.frontends.tracing.structure import flatten, rebuild
from explorer.training.runs.names import names_of
from explorer.training.runs.programs import Batch, Beginning, declared
from explorer.training.runs.replicas.all_reduce import AllReduce
from explorer.training.runs.replicas.pieces import Piece, pieces_of
from explorer.training.runs.timeline import Timeline
from explorer.training.step import clipped, not_finite, scaled_gradients, unscaled
from explorer.training.tree import each, leaves


class Replicated:
    """A step of one replica: the gradients of its part of the batch, sums over all replicas, and
    the update by their mean, of which data or, in the ordinary form, the host says whether it
    counts.
    """

    def __init__(self, at: Beginning, sums: AllReduce, timeline: Timeline, sync_free: bool) -> None:
        self.scale, self.nesting = at.setting.recipe.scale, flatten(at.state)[1]
        self.count, self.ranks = len(leaves(at.params)), sums.ranks
        self.sums, self.timeline, self.sync_free = sums, timeline, sync_free
        self.dtype = np.result_type(np.float32, *(a.dtype for a in leaves(at.params)))
        first = self._gradients(at)
        recipe, options = at.setting.recipe, at.setting.options
        again = options is not None and options.rematerialisation.is_set
        names = [name.removeprefix("params.") for name in names_of(at.params, "params")]
        found = pieces_of(first, names, options, recipe.parts == 1 and not again, at.cancelled)
        self.pieces, self.arrays, self.inputs = found.pieces, found.arrays, tuple(first.inputs)
        self.program: Compilation = self.pieces[0].program
        self.gradients = [self.arrays.gradients[n] for n in range(self.count)]
        self.update = self._update(at)

    def _gradients(self, at: Beginning) -> Any:
        """The loss of a part of the batch, its gradients, and whether each is not finite."""
        own = replace(at.setting.recipe, clip_norm=None)
        dtype = str(self.dtype)

        def gradients(params: Any, factor: Any, numbers: Any, batch: Any) -> Any:
            value, made = scaled_gradients(own, params, factor, numbers, batch)
            made = unscaled(own, made, factor)
            flags = [not_finite([g]).astype(dtype) for g in leaves(made)]
            sums = [g.astype(dtype) for g in leaves(made)]
            return value.astype(dtype), sums, flags

        factor, part = np.ones((), np.float32), self._part(at.batch)
        return trace(gradients)(*map(declared, (at.params, factor, at.numbers, part)))

    def _update(self, at: Beginning) -> Compilation:
        """Parameters and state by the mean of all gradients, where all of these are finite."""
        recipe, optimizer, size = at.setting.recipe, at.setting.optimizer, self.ranks.size

        def update(params: Any, sums: Any, state: Any, numbers: Any, flags: Any) -> Any:
            found = reduce(enp.logical_or, [(f != 0).any() for f in flags])
            made = each(lambda g, p: (g / size).astype(p.dtype), sums, params)
            if recipe.clip_norm is not None:
                made = clipped(made, recipe.clip_norm)
            after = dict(state)
            params, after["optimizer"] = optimizer.update(
                params, made, state["optimizer"], numbers, found
            )
            if recipe.scale is not None:
                after["scale"] = recipe.scale.update(state["scale"], found)
            return params, after

        sums = rebuild(flatten(at.params)[1], self.gradients)
        given = (at.params, sums, at.state, at.numbers, list(self.arrays.flags))
        model = trace(update)(*map(declared, given))
        names, count = list(model.inputs), self.count
        kept = [*names[:count], *names[2 * count :][: len(leaves(at.state))]]
        return compiled(model, options=at.setting.options, donate=kept, cancelled=at.cancelled)

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray:
        """The mean loss; the arrays are written over, alike in all replicas."""
        given, state = arrays[: self.count], arrays[self.count :]
        data = tuple(numbers.values())
        kept = rebuild(self.nesting, state)
        factor = kept["scale"]["scale"] if self.scale else np.ones((), np.float32)
        part = leaves(self._part(batch))
        values = dict(zip(self.inputs, (*given, factor, *data, *part), strict=True))
        for n, piece in enumerate(self.pieces):
            self._run(piece, n, values, number)
        if not self.sync_free and self._read(number):
            self._skip(arrays)
        else:
            if not self.sync_free:
                self.sums.end(self.arrays.flat, number, 0, "")
            with self.timeline.span("main", "update", number):
                more = (*self.gradients, *state, *data, *self.arrays.flags)
                arrays[:] = self.update.run(*given, *more).values()
        return np.asarray(self.arrays.loss / self.ranks.size)

    def _run(self, piece: Piece, n: int, values: dict[str, np.ndarray], step: int) -> None:
        """One program; its bucket is summed while the next one runs."""
        with self.timeline.span("main", piece.what, step, n, about=piece.about):
            given = [values[name] for name in piece.reads]
            found = piece.program.run(*given, out=piece.out).values()
            values.update(zip(piece.makes, found, strict=True))
        if self.sync_free and piece.sums is not None:
            last = piece is self.pieces[-1]
            sums = self.sums.end if last else self.sums.begin
            sums(piece.sums, step, n, piece.about)

    def _read(self, step: int) -> bool:
        """Whether a gradient of any replica is not finite, as the host asks for it."""
        with self.timeline.span("main", "read", step):
            counters.add("host_reads")
            own = sum(flags.sum() for flags in self.arrays.flags)
            told = np.array([own, self.arrays.loss], self.dtype)
            self.ranks.total(told)
        if told[0] == 0:
            return False
        self.arrays.loss[...] = told[1]
        return True

    def _skip(self, arrays: list[np.ndarray]) -> None:
        """All stays as it is, but the scale."""
        if self.scale is None:
            return
        state = rebuild(self.nesting, arrays[self.count :])
        state["scale"] = self.scale.update(state["scale"], np.bool_(True))
        arrays[self.count :] = [np.asarray(a) for a in leaves(state)]

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
