"""A compilation on a GPU, whose place the stand-in takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption, DeviceFault
from explorer.runtime.cuda.driver import SimulatedDriver
from tests.runtime.cuda.test_program import agree, compiled

PLACES = 3


def stand_in() -> SimulatedDriver:
    return SimulatedDriver(PLACES)


def test_as_many_blocks_as_are_resident_make_what_the_cpu_makes() -> None:
    c = compiled("zoo:small_lstm")
    on, inputs = c.on_gpu(stand_in), c.random_inputs()
    assert c.device_program().units > PLACES
    agree(on.run(inputs), compiled("zoo:small_lstm", "cpu").run(inputs))
    assert on.program(c.named(inputs)).program.units == PLACES
    wall = on.measured_wall(inputs)
    assert {b.unit for b in wall.bricks} <= {*range(PLACES)} and wall.device == "the stand-in"


def test_other_sizes_are_another_program() -> None:
    @explorer.trace
    def doubled(x: explorer.tensor("float32", "n", 5)):  # type: ignore[valid-type,no-untyped-def]
        return x + x

    on = explorer.compile(doubled, target="cuda-sim").on_gpu(stand_in)
    for rows in (3, 7, 7):
        x = np.arange(5.0 * rows, dtype=np.float32).reshape(rows, 5)
        given = {name: x for name in on.c.named((x,))}
        (found,) = on.run(given).values()
        np.testing.assert_array_equal(found, 2 * x)
        last = on.program(given)
    assert on.program(given) is last


@pytest.mark.exhaustive
def test_a_recording_names_the_device(tmp_path: Path) -> None:
    c = compiled("zoo:small_lstm")
    on, inputs = c.on_gpu(stand_in), c.random_inputs()
    made = on.record(tmp_path / "a.run.json", inputs, runs=3)
    found = c.recorded(tmp_path / "a.run.json")
    assert found.wall.kind == "recorded" and found.machine.startswith("the stand-in, ")
    assert found.wall.bricks == made.wall.bricks and found.beside(c.planned_wall())
    assert {name for name, _ in found.blocks} == {b.call for b in found.wall.bricks}
    assert found.blocks == made.blocks
    assert on.time(inputs, seconds=0.01).median_us > 0


def test_what_cannot_run_there_is_one_sentence() -> None:
    with pytest.raises(BadOption, match="has no thread blocks on this-cpu"):
        compiled("zoo:small_lstm", "cpu").on_gpu()
    c: Any = compiled("zoo:small_lstm", "h100")
    with pytest.raises(BadOption, match="h100 is a data sheet, not this machine") as told:
        c.run(c.random_inputs())
    assert "c.on_gpu()" in told.value.try_
    with pytest.raises(
        DeviceFault, match=r"numba-cuda, which is not installed|there is no GPU here"
    ):
        c.on_gpu().run(c.random_inputs())
