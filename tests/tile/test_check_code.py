"""`check=True` interprets the tile programs of generated code, and names what they break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import explorer
from explorer import np as xp
from explorer.codegen.build import KernelCode
from explorer.compiler.check_code import check_code
from tests.strategies.onnx.graphs import case


@explorer.trace
def scores(x: explorer.tensor("float32", "n", 24), w: explorer.tensor("float32", 24, 40)):
    return xp.tanh(x @ w).sum(1)


@pytest.mark.parametrize("model", [scores, "zoo:small_lstm"], ids=["symbolic", "shifted tensors"])
def test_the_code_of_a_model_is_checked(model: object) -> None:
    last = explorer.compile(model, check=True).snapshots[-1]
    assert last.stage is explorer.Stage.EMITTED and last.checked is True


def test_rows_whose_places_are_in_a_table_have_no_constant_distance(tmp_path: Path) -> None:
    """A register tile spans rows of two axes, and what it stores lies in scratch by its table."""
    onnx.save(case(796082396).model, tmp_path / "case.onnx")
    c = explorer.compile(tmp_path / "case.onnx", check=True)
    assert [s.checked for s in c.snapshots if isinstance(s.checked, str)] == []


def without_the_last_tasks(k: KernelCode) -> KernelCode:
    grid = tuple(replace(g, extent=g.extent - g.tile) for g in k.tile_program.grid)
    program = replace(k.tile_program, grid=grid)
    return KernelCode(k.source, k.machine, program, k.arguments, k.isa)


def shifted_by_one(k: KernelCode) -> KernelCode:
    arguments = tuple(replace(a, offset=1) if a.kind == "tensor" else a for a in k.arguments)
    return KernelCode(k.source, k.machine, k.tile_program, arguments, k.isa)


WRONG = {without_the_last_tasks: "output: ", shifted_by_one: "CheckFailed: "}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.__name__)
def test_wrong_code_is_found(wrong: Callable[[KernelCode], KernelCode]) -> None:
    c = explorer.compile(scores)
    assert check_code(c.program, c.codes) is True
    codes = {name: wrong(code) for name, code in c.codes.items()}
    assert WRONG[wrong] in str(check_code(c.program, codes))
