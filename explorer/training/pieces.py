"""Gradient programs of a replica: one, or one for the forward pass and one for each bucket.

The gradients of a bucket lie together in memory and are summed by one all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile as compiled
from explorer.frontends.model import Model
from explorer.ir.calls import Var
from explorer.ir.program import Binding, Function, Program
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import print_program
from explorer.ir.types import Tensor
from explorer.runtime.workers.aligned_memory import aligned_array
from explorer.training.fitted import What


@dataclass(frozen=True, slots=True)
class Cut:
    """One of the programs.

    `reads` and `makes` are names of the original program, in the order of inputs and outputs; the
    first `wanted` of `makes` are results.
    """

    model: Model
    reads: tuple[str, ...]
    makes: tuple[Var, ...]
    wanted: int


def cut(program: Program, groups: Sequence[Sequence[Var]], name: str) -> list[Cut]:
    """Build a program for each group of results, from inputs and values of earlier programs.

    Each binding that a result needs is in exactly one of them, in program order.
    """
    places = {v.name: n for n, b in enumerate(program.main.body) for v in b.vars}
    done: set[int] = set()
    parts: list[list[Binding]] = []
    for group in groups:
        mine = _needed_bindings(program.main, group, places, done)
        done |= mine
        parts.append([program.main.body[n] for n in sorted(mine)])
    return [
        _build_part(
            program, part, group, _read_names([*parts[n + 1 :]], groups[n + 1 :]), f"{name}_{n}"
        )
        for n, (part, group) in enumerate(zip(parts, groups, strict=True))
    ]


def uncut(model: Model) -> Cut:
    """Return a model as a single part."""
    main = model.program.main
    return Cut(model, tuple(model.inputs), main.outputs, len(main.outputs))


def done_at(program: Program, result: Var) -> int:
    """Return the number of the binding that computes a result, -1 if none."""
    body = enumerate(program.main.body)
    return next((n for n, b in body if result in b.vars), -1)


def _needed_bindings(
    main: Function, wanted: Iterable[Var], places: dict[str, int], done: Collection[int]
) -> set[int]:
    """Return the numbers of the bindings that these values need, except those done."""
    needed: set[int] = set()
    todo = list(wanted)
    while todo:
        at = places.get(todo.pop().name, -1)
        if at >= 0 and at not in done and at not in needed:
            needed.add(at)
            todo += main.body[at].reads
    return needed


def _read_names(parts: Iterable[Iterable[Binding]], groups: Iterable[Iterable[Var]]) -> set[str]:
    """Return the names that these bindings read or that are results."""
    read = {v.name for part in parts for b in part for v in b.reads}
    return read | {v.name for group in groups for v in group}


def _build_part(
    program: Program, body: Sequence[Binding], group: Sequence[Var], later: Collection[str],
    name: str,
) -> Cut:  # fmt: skip
    bound = {v.name for b in body for v in b.vars}
    available = bound | set(program.constants)
    reads = {v.name: v for v in _all_reads(body, group) if v.name not in available}
    more = {v.name: v for b in body for v in b.vars if v.name in later}
    makes = (*group, *(v for n, v in more.items() if n not in {v.name for v in group}))
    names = tuple(f"output_{n}" for n in range(len(makes)))
    main = Function("main", tuple(reads.values()), tuple(body), makes, names)
    functions = (main, *_called_functions(program, main))
    used = {v.name for f in functions for b in f.body for v in b.reads} | {v.name for v in makes}
    constants = {n: c for n, c in program.constants.items() if n in used}
    own = replace(program, functions=functions, constants=constants, stage=Stage.IMPORTED)
    own = replace(own, name=name)
    model = Model(name, name, own, print_program(own).encode(), python=True)
    return Cut(model, tuple(reads), makes, len(group))


def _all_reads(body: Iterable[Binding], group: Iterable[Var]) -> Iterator[Var]:
    for b in body:
        yield from b.reads
    yield from group


def _called_functions(program: Program, main: Function) -> list[Function]:
    """Return the functions that it calls, transitively."""
    names: set[str] = set()
    todo = [main]
    while todo:
        calls = {n for b in todo.pop().body for n in b.calls} - names
        names |= calls
        todo += [f for f in program.functions if f.name in calls]
    return [f for f in program.functions if f.name in names]


LINE_BYTES = 64  # bytes: each gradient begins on a cache line
LEAST_BYTES = 1 << 20  # the first bucket of PyTorch's DistributedDataParallel
MOST_BUCKETS = (
    4  # each is an all-reduce; 8 cost processes on shared cores more than they hide: measured
)


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


@dataclass(frozen=True, slots=True)
class BucketArrays:
    """Views into one flat array.

    Each bucket, the flags of its gradients, and the loss; for each parameter its gradient, and the
    flag for a gradient that is not finite.
    """

    flat: np.ndarray
    buckets: tuple[np.ndarray, ...]
    flags: tuple[np.ndarray, ...]  # one array for each bucket
    loss: np.ndarray
    gradients: dict[int, np.ndarray]
    flag_of: dict[int, np.ndarray]


def bucket_arrays(
    shapes: Sequence[tuple[int, ...]], groups: Sequence[Sequence[int]], dtype: np.dtype[np.generic]
) -> BucketArrays:
    """Allocate zeroed gradients of these shapes; each group is a bucket."""
    line = LINE_BYTES // dtype.itemsize
    sizes = [prod(shape) for shape in shapes]

    def lines(count: int) -> int:
        return -(-count // line) * line

    most = [sum(lines(sizes[g]) for g in group) + lines(len(group) + 1) for group in groups]
    flat = aligned_array((sum(most),), dtype)
    flat.fill(0)
    buckets: list[np.ndarray] = []
    flags: list[np.ndarray] = []
    gradients: dict[int, np.ndarray] = {}
    flag_of: dict[int, np.ndarray] = {}
    for group, count in zip(groups, most, strict=True):
        at = sum(b.size for b in buckets)
        buckets.append(flat[at : at + count])
        for g in group:
            gradients[g] = flat[at : at + sizes[g]].reshape(shapes[g])
            at += lines(sizes[g])
        flags.append(flat[at : at + len(group)])
        flag_of |= {g: flat[at + n : at + n + 1].reshape(()) for n, g in enumerate(group)}
    behind = int(flags[0].size) + sum(lines(sizes[g]) for g in groups[0])
    loss = flat[behind : behind + 1].reshape(())
    return BucketArrays(flat, tuple(buckets), tuple(flags), loss, gradients, flag_of)


@dataclass(frozen=True, slots=True)
class Gradient:
    """One gradient: its parameter, its bytes, and the number of the binding that computes it."""

    parameter: str
    bytes: int
    position: int


def buckets(gradients: Sequence[Gradient]) -> list[list[int]]:
    """Return the positions of the gradients of each bucket, earliest gradients (late layers) first.

    A bucket is full at `LEAST_BYTES`, or at its share of all bytes if there would be more than
    `MOST_BUCKETS`; a small remainder joins the last one. Source: Li et al. 2020, PyTorch
    Distributed, section 3.2.3 (buckets in the order of backward).
    """
    full = max(LEAST_BYTES, -(-sum(g.bytes for g in gradients) // MOST_BUCKETS))
    groups: list[list[int]] = [[]]
    for n in sorted(range(len(gradients)), key=lambda n: gradients[n].position):
        if _bytes(gradients, groups[-1]) >= full:
            groups.append([])
        groups[-1].append(n)
    if len(groups) > 1 and _bytes(gradients, groups[-1]) < full // 2:
        remainder = groups.pop()
        groups[-1] += remainder
    return groups


def _bytes(gradients: Sequence[Gradient], which: Sequence[int]) -> int:
    return sum(gradients[n].bytes for n in which)
