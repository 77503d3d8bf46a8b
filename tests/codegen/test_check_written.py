"""No value is emitted of which no task writes some element: mutated tile programs are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.codegen.build import print_kernel
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import For, Map, Panels, Reduce, TileProgram
from explorer.roller.policy import candidates
from explorer.tile.coverage import Numbers, Store, Unknown, boxes_of, stores, unwritten
from tests.codegen.cases import CASES, ENV, Case
from tests.examples import examples
from tests.roller.test_policy import DEVICE
from tests.tile.programs import HERE

SMALL = [c for c in CASES if not c.kernel.updates]


def lowered(case: Case, number: int = 0) -> TileProgram:
    kernel = normalise(case.kernel)
    found = [c for c in candidates(kernel, DEVICE, ENV, ENV.hints, 4) if not c.refused]
    tiling = found[number % len(found)].value
    assert isinstance(tiling, Tiling)
    return print_kernel(kernel, tiling, ENV, HERE)[1]


def size_of(program: TileProgram, sizes: Sizes) -> int:
    output = next(b for b in program.buffers if b.kind == "output")
    return evaluate_dim(output.size, sizes)


def told(program: TileProgram, sizes: Sizes) -> str:
    return unwritten(boxes_of(program, "y", Numbers(sizes)), size_of(program, sizes))


def value(affine: Affine, at: dict[str, int], sizes: Sizes) -> int:
    terms = sum(evaluate_dim(c, sizes) * at[n] for n, c in affine.terms)
    return terms + evaluate_dim(affine.const, sizes)


def walked(store: Store, at: dict[str, int], sizes: Sizes) -> Iterator[int]:
    """Every element that a store writes in one task, by walking its loops."""

    def walk(n: int, at: dict[str, int]) -> Iterator[int]:
        if n == len(store.spans):
            yield value(store.target.offset, at, sizes)
            return
        s = store.spans[n]
        first = value(s.base, at, sizes)
        last = first + evaluate_dim(s.size, sizes)
        if s.clip_low:
            first = max(first, 0)
        if s.clip_high:
            last = min(last, evaluate_dim(s.extent, sizes))
        for v in range(first, last):
            yield from walk(n + 1, {**at, s.axis: v})

    yield from walk(0, at)


def by_walking(program: TileProgram, sizes: Sizes) -> set[int]:
    found: set[int] = set()
    counts = [range(-(-evaluate_dim(g.extent, sizes) // g.tile)) for g in program.grid]
    for tiles in product(*counts):
        at = {g.variable: t * g.tile for g, t in zip(program.grid, tiles)}
        for store in stores(program.body):
            if store.target.buffer.kind == "output":
                found.update(walked(store, at, sizes))
    return found


def is_small(case: Case) -> bool:
    return prod(evaluate_dim(d, ENV.hints) for d in case.kernel.shape(case.kernel.output)) < 4000


WALKED = [c for c in SMALL if is_small(c)]


@pytest.mark.few(20)
@pytest.mark.parametrize("case", SMALL, ids=lambda c: str(c.kernel.name))
def test_built_in_tiles_write_everything(case: Case) -> None:
    for number in range(3):
        assert told(lowered(case, number), ENV.hints) == ""


def changed(s: Any, edit: Callable[[Any], Any]) -> Any:
    """A statement with its store to the output changed."""
    match s:
        case For(_, body):
            return replace(s, body=tuple(changed(x, edit) for x in body))
        case Panels():
            return replace(s, epilogue=changed(s.epilogue, edit))
        case Map() | Reduce() if s.target.buffer.kind == "output":
            return edit(s)
        case _:
            return s


def shifted(s: Any) -> Any:
    return replace(s, target=replace(s.target, offset=s.target.offset + 1))


def in_steps(s: Any) -> Any:
    return replace(s, target=replace(s.target, offset=s.target.offset * 2))


def shorter(s: Any) -> Any:
    last = s.spans[-1] if s.spans else None
    if last is None or not isinstance(last.size, int) or last.size < 2:
        return shifted(s)
    return replace(s, spans=(*s.spans[:-1], replace(last, size=last.size - 1)))


def later(s: Any) -> Any:
    if not s.spans:
        return shifted(s)
    first = s.spans[0]
    return replace(s, spans=(replace(first, base=first.base + 1), *s.spans[1:]))


EDITS = [shifted, in_steps, shorter, later]


def mutated(program: TileProgram, kind: int) -> TileProgram:
    if kind < len(EDITS):
        return replace(program, body=tuple(changed(s, EDITS[kind]) for s in program.body))
    grids = program.grid
    if not grids:
        return mutated(program, 0)
    if kind == len(EDITS):  # the last tile of an axis is left out
        g = grids[0]
        return replace(program, grid=(replace(g, extent=g.extent - g.tile), *grids[1:]))
    if kind == len(EDITS) + 1:  # tiles further apart than they are long
        g = grids[-1]
        return replace(program, grid=(*grids[:-1], replace(g, tile=g.tile + 1)))
    return replace(program, body=program.body[:-1])


@settings(max_examples=examples(120, few=40), deadline=None, derandomize=True)
@given(st.sampled_from(range(len(WALKED))), st.integers(0, 3), st.integers(-1, 6))
def test_what_is_told_is_what_walking_every_task_finds(case: int, number: int, kind: int) -> None:
    program = lowered(WALKED[case], number)
    if kind >= 0:
        program = mutated(program, kind)
    sizes = ENV.hints
    count, found = size_of(program, sizes), by_walking(program, sizes)
    try:
        wrong = told(program, sizes)
    except Unknown:
        assert kind >= 0
        return
    assert bool(wrong) == (found != set(range(count))), wrong
