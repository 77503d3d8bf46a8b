"""Gradient programs of a replica: one, or one for the forward pass and one for each bucket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.compilation import Compilation
from explorer.compiler import compile as compiled
from explorer.frontends.model import Model
from explorer.ir.calls import Var
from explorer.ir.types import Tensor
from explorer.options import Options
from explorer.runtime.workers.arena import aligned_array
from explorer.training.runs.replicas.bucket_arrays import BucketArrays, bucket_arrays
from explorer.training.runs.replicas.buckets import LEAST_BYTES, Gradient, buckets
from explorer.training.runs.replicas.cut import Cut, cut, done_at, uncut
from explorer.training.runs.timeline import What


@dataclass(frozen=True, slots=True)
class Piece:
    """One program with its inputs and outputs by name, in order.

    Outputs in `out` are written to these arrays. `sums` is the bucket that is full when the program
    ends, None for the forward pass; `about` names the bucket's parameters.
    """

    what: What
    program: Compilation
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    out: dict[str, np.ndarray]
    sums: np.ndarray | None
    about: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """All programs in order, and the arrays of their buckets."""

    pieces: tuple[Piece, ...]
    arrays: BucketArrays


def pieces_of(
    model: Model,
    parameters: Sequence[str],
    options: Options | None,
    cuts: bool,
    cancelled: Callable[[], bool],
) -> Pieces:
    """Compile the gradient programs of a model.

    Its outputs are the loss, the gradients of these parameters, and for each of them a flag that it
    is not finite, all of one dtype. There is more than one program only if `cuts` and there are
    several buckets.
    """
    groups, parts = _divide(model, parameters, options, cuts, cancelled)
    loss, *results = model.program.main.outputs
    shapes = [tuple(int(d) for d in v.tensor.dims) for v in results[: len(parameters)]]
    arrays = bucket_arrays(shapes, groups, np.dtype(loss.tensor.dtype))
    pieces: list[Piece] = []
    for n, part in enumerate(parts):
        bucket = n - (len(parts) - len(groups))
        own = groups[bucket] if bucket >= 0 else []
        first = [arrays.loss] if n == 0 else []
        targets = [*first, *(kind[g] for kind in (arrays.gradients, arrays.flag_of) for g in own)]
        what: What = "forward" if not own else "gradients" if len(parts) == 1 else "backward"
        pieces.append(
            Piece(
                what,
                compiled(part.model, options=options, cancelled=cancelled),
                part.reads,
                tuple(v.name for v in part.makes),
                _output_arrays(part, targets),
                arrays.buckets[bucket] if own else None,
                ", ".join(parameters[g] for g in own),
            )
        )
    return Pieces(tuple(pieces), arrays)


def _divide(
    model: Model,
    parameters: Sequence[str],
    options: Options | None,
    cuts: bool,
    cancelled: Callable[[], bool],
) -> tuple[list[list[int]], list[Cut]]:
    """Return the buckets, and the programs: the forward pass, and one for each bucket.

    A single bucket has a single program.
    """
    count = len(parameters)
    undivided = [list(range(count))], [uncut(model)]
    sizes = [v.tensor.bytes for v in model.program.main.outputs[1 : 1 + count]]
    if not cuts or sum(sizes) < 2 * LEAST_BYTES:
        return undivided
    differentiated = compiled(
        model, options=options, until="differentiated", cancelled=cancelled
    ).program
    loss, *results = differentiated.main.outputs
    rows = zip(parameters, sizes, results[:count], strict=True)
    groups = buckets([Gradient(name, size, done_at(differentiated, v)) for name, size, v in rows])
    if len(groups) == 1:
        return undivided
    wanted = [[results[g + more] for more in (0, count) for g in group] for group in groups]
    return groups, cut(differentiated, [[loss], *wanted], model.name)


def _output_arrays(part: Cut, targets: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the output arrays of a program.

    Results go to their bucket, values for later programs to persistent arrays if their shape is
    known.
    """
    persistent = [_allocate(v) for v in part.makes[part.wanted :]]
    pairs = zip(part.model.outputs, [*targets, *persistent], strict=True)
    return {name: array for name, array in pairs if array is not None}


def _allocate(value: Var) -> np.ndarray | None:
    if not isinstance(value.type, Tensor) or not all(isinstance(d, int) for d in value.type.dims):
        return None
    return aligned_array(tuple(map(int, value.type.dims)), np.dtype(value.type.dtype))
