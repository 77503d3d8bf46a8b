"""Data-parallel replicas of a model that stay bit-identical.

Gradients, the loss, and flags of gradients that are not finite are summed together, in rank order,
bucket by bucket: those of late layers while the backward pass continues to early ones. Replicas
exchange nothing else, and no host reads. The ordinary form, for comparison, sums after the backward
pass, and its hosts read and exchange the flag, as in Megatron-LM's mixed-precision optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import compile as compiled
from explorer.errors import ShapeError
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.structure import flatten, rebuild
from explorer.process.counters import counters
from explorer.training.fitted import Timeline
from explorer.training.pieces import Piece, pieces_of
from explorer.training.programs import Batch, StepInputs, declared
from explorer.training.ranks import AllReduce
from explorer.training.step import clip_gradients, not_finite, scaled_gradients, unscale
from explorer.training.tree import each, leaves, names_of


class Replicated:
    """A step of one replica: gradients of its part of the batch, sums, and the mean update.

    Data, or in the ordinary form the host, decide whether the update is skipped.
    """

    def __init__(
        self, at: StepInputs, sums: AllReduce, timeline: Timeline, sync_free: bool
    ) -> None:
        """Compile the gradient programs and the update."""
        self.scale, self.nesting = at.setting.recipe.scale, flatten(at.state)[1]
        self.count, self.ranks = len(leaves(at.params)), sums.ranks
        self.sums, self.timeline, self.sync_free = sums, timeline, sync_free
        self.dtype = np.result_type(np.float32, *(a.dtype for a in leaves(at.params)))
        first = self._gradients(at)
        recipe, options = at.setting.recipe, at.setting.options
        recomputes = options is not None and options.rematerialisation.is_set
        names = [name.removeprefix("params.") for name in names_of(at.params, "params")]
        divided = pieces_of(
            first, names, options, recipe.parts == 1 and not recomputes, at.cancelled
        )
        self.pieces, self.arrays, self.inputs = divided.pieces, divided.arrays, tuple(first.inputs)
        self.program: Compilation = self.pieces[0].program
        self.gradients = [self.arrays.gradients[n] for n in range(self.count)]
        self.update = self._update(at)

    def _gradients(self, at: StepInputs) -> Any:
        """Trace the loss of a part of the batch, its gradients, and their flags."""
        own = replace(at.setting.recipe, clip_norm=None)
        dtype = str(self.dtype)

        def gradients(params: Any, factor: Any, numbers: Any, batch: Any) -> Any:
            value, grads = scaled_gradients(own, params, factor, numbers, batch)
            grads = unscale(own, grads, factor)
            flags = [not_finite([g]).astype(dtype) for g in leaves(grads)]
            sums = [g.astype(dtype) for g in leaves(grads)]
            return value.astype(dtype), sums, flags

        factor, part = np.ones((), np.float32), self._part(at.batch)
        return trace(gradients)(*map(declared, (at.params, factor, at.numbers, part)))

    def _update(self, at: StepInputs) -> Compilation:
        """Compile the update by the mean of all gradients, skipped if one is not finite."""
        recipe, optimizer, size = at.setting.recipe, at.setting.optimizer, self.ranks.size

        def update(params: Any, sums: Any, state: Any, numbers: Any, flags: Any) -> Any:
            overflowed = reduce(enp.logical_or, [(f != 0).any() for f in flags])
            grads = each(lambda g, p: (g / size).astype(p.dtype), sums, params)
            if recipe.clip_norm is not None:
                grads = clip_gradients(grads, recipe.clip_norm)
            after = dict(state)
            params, after["optimizer"] = optimizer.update(
                params, grads, state["optimizer"], numbers, overflowed
            )
            if recipe.scale is not None:
                after["scale"] = recipe.scale.update(state["scale"], overflowed)
            return params, after

        sums = rebuild(flatten(at.params)[1], self.gradients)
        args = (at.params, sums, at.state, at.numbers, list(self.arrays.flags))
        model = trace(update)(*map(declared, args))
        names, count = list(model.inputs), self.count
        donated = [*names[:count], *names[2 * count :][: len(leaves(at.state))]]
        return compiled(model, options=at.setting.options, donate=donated, cancelled=at.cancelled)

    def __call__(
        self, arrays: list[np.ndarray], numbers: Mapping[str, np.ndarray], batch: Batch, number: int
    ) -> np.ndarray:
        """Run the step and return the mean loss; the arrays are updated alike in all replicas."""
        params, state = arrays[: self.count], arrays[self.count :]
        data = tuple(numbers.values())
        state_tree = rebuild(self.nesting, state)
        factor = state_tree["scale"]["scale"] if self.scale else np.ones((), np.float32)
        part = leaves(self._part(batch))
        values = dict(zip(self.inputs, (*params, factor, *data, *part), strict=True))
        for n, piece in enumerate(self.pieces):
            self._run(piece, n, values, number)
        if not self.sync_free and self._read(number):
            self._skip(arrays)
        else:
            if not self.sync_free:
                self.sums.end(self.arrays.flat, number, 0, "")
            with self.timeline.span("main", "update", number):
                more = (*self.gradients, *state, *data, *self.arrays.flags)
                arrays[:] = self.update.run(*params, *more).values()
        return np.asarray(self.arrays.loss / self.ranks.size)

    def _run(self, piece: Piece, n: int, values: dict[str, np.ndarray], step: int) -> None:
        """Run one program; its bucket is summed while the next one runs."""
        with self.timeline.span("main", piece.what, step, n, about=piece.about):
            args = [values[name] for name in piece.reads]
            results = piece.program.run(*args, out=piece.out).values()
            values.update(zip(piece.makes, results, strict=True))
        if self.sync_free and piece.sums is not None:
            last = piece is self.pieces[-1]
            sums = self.sums.end if last else self.sums.begin
            sums(piece.sums, step, n, piece.about)

    def _read(self, step: int) -> bool:
        """Return True if a gradient of any replica is not finite, as read by the host."""
        with self.timeline.span("main", "read", step):
            counters.add("host_reads")
            own = sum(flags.sum() for flags in self.arrays.flags)
            flag_and_loss = np.array([own, self.arrays.loss], self.dtype)
            self.ranks.total(flag_and_loss)
        if flag_and_loss[0] == 0:
            return False
        self.arrays.loss[...] = flag_and_loss[1]
        return True

    def _skip(self, arrays: list[np.ndarray]) -> None:
        """Update only the loss scale."""
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

        rows_of_rank: Batch = each(rows, batch)
        return rows_of_rank
