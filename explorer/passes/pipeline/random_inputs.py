"""Inputs to try a program on: reproducible, integers within what their uses allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from zlib import crc32

import numpy as np

from explorer.budget import check_room
from explorer.errors import BoundError, UnsupportedOperator
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, OpCall, Var, View
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Kernel, Read, reads
from explorer.ir.patterns.scatter import scatter
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import (
    Dim,
    Shape,
    Sizes,
    SymbolBound,
    evaluate_dim,
    evaluate_shape,
    symbols_of,
)
from explorer.ir.types import Tensor, numpy_dtype

LARGEST_TRIED_EXTENT = 8  # of a symbol whose hint is larger: a bound on time, chosen
MOST_EXTENTS = 6  # of constants that are tried: a bound on time, chosen
MOST_ELEMENTS = 1 << 16  # of all inputs at such extents: a bound on time, chosen
PASS_THROUGH = frozenset(
    {"Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Slice"}
)


def trial_sizes(program: Program) -> dict[str, int]:
    """A small value for each symbol, within its bounds, no two alike where that can be."""
    names = sorted(
        {
            s
            for p in program.main.params
            if isinstance(p.type, Tensor)
            for d in p.type.dims
            for s in symbols_of(d)
        }
    )
    return {n: _within(program.env.of(n), 2 + i) for i, n in enumerate(names)}


def trials(program: Program) -> Iterator[dict[str, int]]:
    """Sizes to try a program on until one is found that its operators take: small ones that differ,
    the least ones, and the extents of its constants, which arguments may have to have as well.
    """
    first = trial_sizes(program)
    yield first
    if first:
        extents: set[int] = set()
        for constant in program.constants.values():
            extents.update(constant.array.shape)
        for n in (0, *sorted(extents - {0})[:MOST_EXTENTS]):
            sizes = {s: _clipped(program.env.of(s), n) for s in first}
            if _elements(program, sizes) <= max(MOST_ELEMENTS, _elements(program, first)):
                yield sizes


def _elements(program: Program, sizes: Sizes) -> int:
    kinds = (p.type for p in program.main.params)
    shapes = (k.shape for k in kinds if isinstance(k, Tensor) and k.shape is not None)
    return sum(prod(evaluate_shape(shape, sizes)) for shape in shapes)


def variations(program: Program, sizes: Sizes) -> Iterator[dict[str, int]]:
    """Return other sizes to try a program on: odd ones in the place of even ones, and the least."""
    others = [
        {name: _clipped(program.env.of(name), size + 1) for name, size in sizes.items()},
        {name: program.env.of(name).low for name in sizes},
    ]
    for n, other in enumerate(others):
        if other not in (sizes, *others[:n]):
            yield other


def _clipped(bound: SymbolBound, wish: int) -> int:
    return max(bound.low, wish if bound.high is None else min(wish, bound.high))


def _within(bound: SymbolBound, wish: int) -> int:
    top = LARGEST_TRIED_EXTENT if bound.high is None else bound.high
    return max(bound.low, min(wish, top))


def random_inputs(program: Program, sizes: Sizes | None = None) -> dict[str, np.ndarray]:
    """One array for each input of the program, the same ones each time.

    Raises BoundError for a size that no dim can have, TooLarge where there is no room for them,
    UnsupportedOperator for an input that is no array.
    """
    chosen = trial_sizes(program) if sizes is None else sizes
    for name, size in chosen.items():
        if size < 0:
            raise BoundError(f"the size of {name} is {size}, and no dim is negative", where=name)
    _check_room(program.main.params, chosen)
    limits = _limits(program, chosen)
    return {p.name: _array(p, limits, chosen) for p in program.main.params}


def _check_room(params: Iterable[Var], sizes: Sizes) -> None:
    taken = 0
    for param in params:
        if not isinstance(param.type, Tensor) or not param.type.is_known:
            raise UnsupportedOperator(
                f"the input {param.name!r} is no array of a known shape: nothing says what may be "
                "tried",
                where=param.name,
                try_="inputs of your own",
            )
        shape = evaluate_shape(param.type.dims, sizes)
        size = max(8, numpy_dtype(param.type.element).itemsize)  # drawn as float64 or int64
        taken += size * prod(shape)
        check_room(taken, f"random inputs up to {param.name!r}, {shape},", param.name)


def _array(param: Var, limits: Mapping[str, int], sizes: Sizes) -> np.ndarray:
    rng = np.random.default_rng(crc32(param.name.encode()))
    shape, dtype = evaluate_shape(param.tensor.dims, sizes), numpy_dtype(param.tensor.element)
    if is_float(param.tensor.element):
        return rng.standard_normal(shape).astype(dtype)
    if param.tensor.element == "string":
        return rng.integers(0, 3, shape).astype(np.str_).astype(object)
    return np.asarray(rng.integers(0, limits.get(param.name, 2), shape)).astype(dtype)


def index_limits(program: Program) -> dict[str, tuple[Dim, ...]]:
    """How many elements each integer input selects from, for those that are indices as they are:
    the least number, and an extent that depends on symbols of the inputs, where it selects by such.

    A value from -limit up to, not including, limit is an element; any other one is a mistake.
    """
    least: dict[str, int] = {}
    symbolic: dict[str, Dim] = {}
    seen = {name for p in program.main.params for d in _dims(p) for name in symbols_of(d)}
    for binding in reversed(program.main.body):
        if isinstance(binding.expr, OpCall) and binding.expr.op == "Slice":
            continue  # what is not selected may be anything
        for value, extent in _indexed(binding, least):
            if isinstance(extent, int):
                least[value.name] = min(extent, least.get(value.name, extent))
        for value, extent in _indexed(binding, symbolic):
            if not isinstance(extent, int) and symbols_of(extent) <= seen:
                symbolic.setdefault(value.name, extent)
    every = ((p.name, (least.get(p.name), symbolic.get(p.name))) for p in program.main.params)
    found = {name: tuple(n for n in limits if n is not None) for name, limits in every}
    return {name: limits for name, limits in found.items() if limits}


def _dims(param: Var) -> tuple[Dim, ...]:
    kind = param.type
    return kind.dims if isinstance(kind, Tensor) and kind.is_known else ()


def _limits(program: Program, sizes: Sizes) -> dict[str, int]:
    """For integer values: how many values an index into what they select may take; 2 where nothing
    says.
    """
    limits: dict[str, int] = {}
    for binding in reversed(program.main.body):
        for value, extent in _indexed(binding, limits):
            known = evaluate_dim(extent, sizes) if symbols_of(extent) <= set(sizes) else 2
            limits[value.name] = max(1, min(known, limits.get(value.name, known)))
    return limits


def _indexed(binding: Binding, limits: Mapping[str, Dim]) -> Iterable[tuple[Var, Dim]]:
    match binding.expr:
        case OpCall("Gather", (Var() as data, Var() as index), _):
            if isinstance(data.type, Tensor) and data.type.shape is not None:
                axis = binding.expr.attr("axis", 0)
                yield index, data.type.dims[axis if isinstance(axis, int) else 0]
        case OpCall("ScatterElements", (Var() as data, Var() as index, *_), _):
            if isinstance(data.type, Tensor) and data.type.shape:
                axis = binding.expr.attr("axis", 0)
                yield index, data.type.dims[axis if isinstance(axis, int) else 0]
        case OpCall("ScatterND", (Var() as data, Var() as index, *_), _):
            extents = set(_named(data, index))
            yield from ((index, n) for n in extents if len(extents) == 1)
        case OpCall(op, (Var() as arg, *_)) if op in PASS_THROUGH:
            yield from ((arg, limits[v.name]) for v in binding.vars if v.name in limits)
        case View(arg, _):
            yield from ((arg, limits[v.name]) for v in binding.vars if v.name in limits)
        case KernelCall(kernel, args, _):
            result = limits.get(binding.name) if len(binding.vars) == 1 else None
            yield from _indexed_by_kernel(kernel, args, result)


def _named(data: Var, index: Var) -> Shape:
    """The extents of the leading dims that a row of indices names a place in."""
    kinds = data.type, index.type
    if not all(isinstance(kind, Tensor) and kind.shape for kind in kinds):
        return ()
    depth = index.tensor.dims[-1]
    return data.tensor.dims[:depth] if isinstance(depth, int) else ()


def _indexed_by_kernel(
    kernel: Kernel, args: tuple[Var, ...], result: Dim | None
) -> Iterable[tuple[Var, Dim]]:
    given = dict(zip(kernel.inputs, args, strict=True))
    for compute in kernel.computes:
        for read in reads(compute.expr):
            for entry, extent in zip(read.index, kernel.shape(read.tensor), strict=True):
                if not isinstance(entry, Affine):
                    yield from (
                        (given[r.tensor], extent) for r in reads(entry) if r.tensor in given
                    )
        selected: dict[str, set[Dim]] = {}
        to = scatter(kernel, compute)
        for axis, place in () if to is None else to.places:
            for read in reads(place):
                selected.setdefault(read.tensor, set()).add(axis.extent)
        for name, extents in selected.items():
            if name in given and len(extents) == 1:
                yield given[name], extents.pop()
        if isinstance(compute.expr, Read) and compute.expr.tensor in given and result is not None:
            yield given[compute.expr.tensor], result
