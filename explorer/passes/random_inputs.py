"""Reproducible random inputs of programs, with integers in the ranges that their uses allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from zlib import crc32

import numpy as np

from explorer.errors import BoundError, UnsupportedOperator
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, OpCall, Var, View
from explorer.ir.dims import (
    Dim,
    Shape,
    Sizes,
    SymbolBound,
    evaluate_dim,
    evaluate_shape,
    symbols_of,
)
from explorer.ir.dtypes import is_float
from explorer.ir.kernel import Kernel, Read, reads
from explorer.ir.kernels.scatter import scatter
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor, numpy_dtype
from explorer.process.budget import check_room

LARGEST_TRIED_EXTENT = 8  # of a symbol with a larger hint: a bound on time, chosen
MOST_EXTENTS = 6  # of constants that are tried: a bound on time, chosen
MOST_ELEMENTS = 1 << 16  # of all inputs at such extents: a bound on time, chosen
PASS_THROUGH = frozenset(
    {"Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Slice"}
)


def trial_sizes(program: Program) -> dict[str, int]:
    """Return a small value for each symbol, within its bounds, distinct where possible."""
    names = sorted(
        {
            s
            for p in program.main.params
            if isinstance(p.type, Tensor)
            for d in p.type.dims
            for s in symbols_of(d)
        }
    )
    return {n: _clip_to_trial(program.env.of(n), 2 + i) for i, n in enumerate(names)}


def trials(program: Program) -> Iterator[dict[str, int]]:
    """Yield candidate sizes for a program, until its operators accept some.

    Small distinct ones first, then the least ones, then the extents of its constants, which
    arguments may have to match.
    """
    first = trial_sizes(program)
    yield first
    if first:
        extents: set[int] = set()
        for constant in program.constants.values():
            extents.update(n for n in constant.type.dims if isinstance(n, int))
        for n in (0, *sorted(extents - {0})[:MOST_EXTENTS]):
            sizes = {s: _clip(program.env.of(s), n) for s in first}
            if _count_elements(program, sizes) <= max(
                MOST_ELEMENTS, _count_elements(program, first)
            ):
                yield sizes


def _count_elements(program: Program, sizes: Sizes) -> int:
    kinds = (p.type for p in program.main.params)
    shapes = (k.shape for k in kinds if isinstance(k, Tensor) and k.shape is not None)
    return sum(prod(evaluate_shape(shape, sizes)) for shape in shapes)


def variations(program: Program, sizes: Sizes) -> Iterator[dict[str, int]]:
    """Yield other sizes: odd ones in place of even ones, and the least ones."""
    others = [
        {name: _clip(program.env.of(name), size + 1) for name, size in sizes.items()},
        {name: program.env.of(name).low for name in sizes},
    ]
    for n, other in enumerate(others):
        if other not in (sizes, *others[:n]):
            yield other


def _clip(bound: SymbolBound, wish: int) -> int:
    return max(bound.low, wish if bound.high is None else min(wish, bound.high))


def _clip_to_trial(bound: SymbolBound, wish: int) -> int:
    top = LARGEST_TRIED_EXTENT if bound.high is None else bound.high
    return max(bound.low, min(wish, top))


def random_inputs(program: Program, sizes: Sizes | None = None) -> dict[str, np.ndarray]:
    """Return one array for each input of the program, the same in each call.

    Raises:
        BoundError: a size is negative.
        TooLarge: the arrays do not fit the memory budget.
        UnsupportedOperator: an input is no array of a known shape.
    """
    chosen = trial_sizes(program) if sizes is None else sizes
    for name, size in chosen.items():
        if size < 0:
            raise BoundError(f"the size of {name} is {size}, and no dim is negative", where=name)
    _check_room(program.main.params, chosen)
    limits = _value_limits(program, chosen)
    return {p.name: _random_array(p, limits, chosen) for p in program.main.params}


def _check_room(params: Iterable[Var], sizes: Sizes) -> None:
    taken = 0
    for param in params:
        if not isinstance(param.type, Tensor) or not param.type.is_known:
            raise UnsupportedOperator(
                f"the input {param.name!r} is no array of a known shape: it has no random values",
                where=param.name,
                try_="inputs of your own",
            )
        shape = evaluate_shape(param.type.dims, sizes)
        size = max(8, numpy_dtype(param.type.element).itemsize)  # drawn as float64 or int64
        taken += size * prod(shape)
        check_room(taken, f"random inputs up to {param.name!r}, {shape},", param.name)


def _random_array(param: Var, limits: Mapping[str, int], sizes: Sizes) -> np.ndarray:
    rng = np.random.default_rng(crc32(param.name.encode()))
    shape, dtype = evaluate_shape(param.tensor.dims, sizes), numpy_dtype(param.tensor.element)
    if is_float(param.tensor.element):
        return rng.standard_normal(shape).astype(dtype)
    if param.tensor.element == "string":
        return rng.integers(0, 3, shape).astype(np.str_).astype(object)
    return np.asarray(rng.integers(0, limits.get(param.name, 2), shape)).astype(dtype)


def index_limits(program: Program) -> dict[str, tuple[Dim, ...]]:
    """Return how many elements each integer input selects from, if it is used as an index.

    The limits are the least constant extent, and an extent in symbols of the inputs, if it selects
    by such. A value in [-limit, limit) is valid; any other one is an error.
    """
    least: dict[str, int] = {}
    symbolic: dict[str, Dim] = {}
    seen = {name for p in program.main.params for d in _dims(p) for name in symbols_of(d)}
    for binding in reversed(program.main.body):
        if isinstance(binding.expr, OpCall) and binding.expr.op == "Slice":
            continue  # elements that are not selected may be anything
        for value, extent in _indexed_values(binding, least):
            if isinstance(extent, int):
                least[value.name] = min(extent, least.get(value.name, extent))
        for value, extent in _indexed_values(binding, symbolic):
            if not isinstance(extent, int) and symbols_of(extent) <= seen:
                symbolic.setdefault(value.name, extent)
    every = ((p.name, (least.get(p.name), symbolic.get(p.name))) for p in program.main.params)
    limits_by_input = {name: tuple(n for n in limits if n is not None) for name, limits in every}
    return {name: limits for name, limits in limits_by_input.items() if limits}


def _dims(param: Var) -> tuple[Dim, ...]:
    kind = param.type
    return kind.dims if isinstance(kind, Tensor) and kind.is_known else ()


def _value_limits(program: Program, sizes: Sizes) -> dict[str, int]:
    """Return how many values each integer index may take; 2 if nothing limits it."""
    limits: dict[str, int] = {}
    for binding in reversed(program.main.body):
        for value, extent in _indexed_values(binding, limits):
            limit = evaluate_dim(extent, sizes) if symbols_of(extent) <= set(sizes) else 2
            limits[value.name] = max(1, min(limit, limits.get(value.name, limit)))
    return limits


def _indexed_values(binding: Binding, limits: Mapping[str, Dim]) -> Iterable[tuple[Var, Dim]]:
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
            extents = set(_indexed_extents(data, index))
            yield from ((index, n) for n in extents if len(extents) == 1)
        case OpCall(op, (Var() as arg, *_)) if op in PASS_THROUGH:
            yield from ((arg, limits[v.name]) for v in binding.vars if v.name in limits)
        case View(arg, _):
            yield from ((arg, limits[v.name]) for v in binding.vars if v.name in limits)
        case KernelCall(kernel, args, _):
            result = limits.get(binding.name) if len(binding.vars) == 1 else None
            yield from _indexed_by_kernel(kernel, args, result)


def _indexed_extents(data: Var, index: Var) -> Shape:
    """Return the extents of the leading dims that a row of indices selects in."""
    kinds = data.type, index.type
    if not all(isinstance(kind, Tensor) and kind.shape for kind in kinds):
        return ()
    depth = index.tensor.dims[-1]
    return data.tensor.dims[:depth] if isinstance(depth, int) else ()


def _indexed_by_kernel(
    kernel: Kernel, args: tuple[Var, ...], result: Dim | None
) -> Iterable[tuple[Var, Dim]]:
    operands = dict(zip(kernel.inputs, args, strict=True))
    for compute in kernel.computes:
        for read in reads(compute.expr):
            for entry, extent in zip(read.index, kernel.shape(read.tensor), strict=True):
                if not isinstance(entry, Affine):
                    yield from (
                        (operands[r.tensor], extent) for r in reads(entry) if r.tensor in operands
                    )
        selected: dict[str, set[Dim]] = {}
        to = scatter(kernel, compute)
        for axis, place in () if to is None else to.places:
            for read in reads(place):
                selected.setdefault(read.tensor, set()).add(axis.extent)
        for name, extents in selected.items():
            if name in operands and len(extents) == 1:
                yield operands[name], extents.pop()
        if (
            isinstance(compute.expr, Read)
            and compute.expr.tensor in operands
            and result is not None
        ):
            yield operands[compute.expr.tensor], result
