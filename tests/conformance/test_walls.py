"""Measured walls of real models: the planned bricks, one by one, as the data allow."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import explorer
from explorer.ir.calls import KernelCall, View
from explorer.ir.decisions.wall import Brick

DATA = Path(__file__).parent.parent / "data"
MODELS = ["zoo:squeezenet", *(str(DATA / f"tiny_{n}.onnx") for n in ("bert", "llama", "vit"))]


def identity(brick: Brick) -> tuple[int, str, int, int]:
    return brick.unit, brick.call, brick.first, brick.last


@pytest.mark.parametrize("model", MODELS, ids=lambda m: Path(m).stem)
def test_measured_bricks_are_the_planned_ones_and_no_reader_starts_too_early(model: str) -> None:
    compiled = explorer.compile(model)
    inputs = compiled.random_inputs()
    planned = compiled.planned_wall()
    alike = {
        (operators[read].name, o.name)
        for operators in (s.facts.operators for s in compiled.schedules())
        for o in operators
        for read in o.aligned
    }
    for _ in range(3):
        wall = compiled.measured_wall(inputs)
        assert sorted(map(identity, wall.bricks)) == sorted(map(identity, planned.bricks))
        for unit in range(wall.units):
            own = sorted((b for b in wall.bricks if b.unit == unit), key=lambda b: b.start_us)
            assert all(a.end_us <= b.start_us for a, b in pairwise(own))
        bricks: dict[str, list[Brick]] = {}
        for b in wall.bricks:
            bricks.setdefault(b.call, []).append(b)
        made_by: dict[str, str] = {}
        checked = 0
        for binding in compiled.program.main.body:
            name = binding.vars[0].name
            if isinstance(binding.expr, View):
                made_by[name] = made_by.get(binding.expr.arg.name, binding.expr.arg.name)
            if not isinstance(binding.expr, KernelCall):
                continue
            for arg in binding.expr.args:
                writer = made_by.get(arg.name, arg.name)
                if writer in bricks:
                    for b in bricks[name]:
                        awaited = bricks[writer]
                        if (writer, name) in alike:  # a task reads what its own number wrote
                            awaited = [w for w in awaited if w.first < b.last and b.first < w.last]
                        assert all(b.start_us >= w.end_us for w in awaited), (writer, name)
                    checked += 1
        assert checked > 10
