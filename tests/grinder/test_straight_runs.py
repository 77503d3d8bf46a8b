"""Tasks that read what the task of their own number wrote wait for no other unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.compiler.compilation import Compilation
from explorer.grinder import OperatorTask
from explorer.grinder.straight_runs import is_aligned
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.decisions.wall import Wait
from explorer.ir.kernels.regions import Interval, propagate, tile_variable
from tests.roller.test_policy import DEVICE

WIDTH = 256
WEIGHTS = (np.random.default_rng(1).standard_normal((WIDTH, 4 * WIDTH)) / 16).astype(np.float32)
FAST = tuple(replace(m, alone_gb_per_s=80.0) if m.shared else m for m in DEVICE.levels)
NEAR = replace(DEVICE, levels=FAST)  # tasks of a cell are too short to be cut finer


def cell(x: Any, h: Any, c: Any) -> Any:
    i, f, g, o = xp.split(h @ WEIGHTS + x, 4, axis=1)
    gate, kept, leave = (1.0 / (1.0 + xp.exp(-z)) for z in (i, f, o))
    new = kept * c + gate * xp.tanh(g)
    return new, leave * xp.tanh(new)


def steps(x: Any, h: Any, c: Any) -> Any:
    for _ in range(3):
        c, h = cell(x, h, c)
    return c, h


@pytest.fixture(scope="module")
def planned() -> Compilation:
    shapes = [(1, 4 * WIDTH), (1, WIDTH), (1, WIDTH)]
    model = explorer.trace(steps)(*[explorer.tensor("float32", *s) for s in shapes])
    return explorer.compile(model, NEAR, until="PLANNED")


def operators(c: Compilation) -> tuple[OperatorTask, ...]:
    (run,) = c.executable.planner.runs
    return run.operators


def test_both_states_of_a_cell_need_one_barrier(planned: Compilation) -> None:
    (run,) = planned.executable.planner.runs
    assert [bool(a) for a in run.aligned] == [False, True, True, True, True, True]
    (schedule,) = planned.executable.plan({}).schedules.values()
    units = len(schedule.programs[0].units)
    waits = sum(isinstance(row, Wait) for unit in schedule.programs[0].units for row in unit)
    assert units > 1 and waits == 2 * units * (units - 1)  # before the second and the third cell


def test_an_aligned_task_reads_the_region_that_its_task_wrote(planned: Compilation) -> None:
    every = operators(planned)
    pairs = [(r, p) for r in every for p in every if r is not p and is_aligned(r, p)]
    assert pairs
    for reader, producer in pairs:
        made, used = producer.call, reader.call
        assert isinstance(made.tiling, Tiling) and isinstance(used.tiling, Tiling)
        wrote = propagate(made.kernel, dict(made.tiling.tile)).tensors[made.kernel.output]
        tensor = used.kernel.inputs[reader.args.index(producer.results[0])]
        read = propagate(used.kernel, dict(used.tiling.tile)).tensors[tensor]
        ((old, _),), ((new, _),) = made.tiling.tile, used.tiling.tile
        names = {tile_variable(old): var(tile_variable(new))}
        assert read == tuple(Interval(r.lo.substitute(names), r.size) for r in wrote)


def test_other_tiles_or_other_places_are_not_aligned(planned: Compilation) -> None:
    every = operators(planned)
    reader, producer = next((r, p) for r in every for p in every if r is not p and is_aligned(r, p))
    tiling = reader.call.tiling
    assert isinstance(tiling, Tiling)
    ((axis, size),) = tiling.tile
    half = replace(
        reader, call=replace(reader.call, tiling=replace(tiling, tile=((axis, size // 2),)))
    )
    assert not is_aligned(half, producer)
    whole = replace(reader, call=replace(reader.call, tiling=replace(tiling, tile=())))
    assert not is_aligned(whole, producer)
    state = next(o for o in every if sum(is_aligned(r, o) for r in every) == 0)
    readers = [o for o in every if state.results[0] in o.args]
    assert not any(is_aligned(r, state) for r in readers)  # a product reads all of it


def test_nothing_is_aligned_before_it_is_cut(planned: Compilation) -> None:
    every = operators(planned)
    reader, producer = next((r, p) for r in every for p in every if r is not p and is_aligned(r, p))
    whole = replace(producer, call=replace(producer.call, tiling=None))
    assert not is_aligned(reader, whole)
    assert not is_aligned(replace(reader, call=replace(reader.call, tiling=None)), whole)
