"""An axis that may be of any size is not cut where each tile would sum all of it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import explorer
from explorer.frontends.load import load
from explorer.ir.decisions.tiling import Tiling
from tests.frontends.models import model, saved, value
from tests.roller.test_policy import DEVICE

node = helper.make_node


def centred(folder: Path, dims: list[str | int], axis: int) -> Path:
    """The path of a model that takes from each element its mean along an axis."""
    axes = {"a": np.array([axis])}
    nodes = [node("ReduceMean", ["x", "a"], ["m"]), node("Sub", ["x", "m"], ["y"])]
    return saved(model(nodes, [value("x", dims)], ["y"], axes, opset=20), folder)


@pytest.mark.parametrize("dims, axis", [(["q"], 0), (["q", 16], 0), ([4, "q"], 1), (["q", "r"], 1)])
@pytest.mark.parametrize("hint", [1, 3])
def test_no_tile_sums_again_along_an_axis_without_a_bound(
    dims: list[str | int], axis: int, hint: int, tmp_path: Path
) -> None:
    path = centred(tmp_path, dims, axis)
    c = explorer.compile(load(path, {"q": (hint, None)}), until="rolled", target=DEVICE)
    loose = {"ijk"[axis]}
    for call in (b.kernel_call for b in c.program.kernel_calls):
        if any(c.reduce for c in call.kernel.computes) and len(call.kernel.computes) > 1:
            assert isinstance(call.tiling, Tiling)
            assert not loose & {name for name, _ in call.tiling.tile}


def test_what_is_known_to_be_small_is_cut_by_its_price(tmp_path: Path) -> None:
    path = centred(tmp_path, ["q", 16], 0)
    c = explorer.compile(load(path, {"q": (1, 4)}), until="rolled", target=DEVICE)
    (decision,) = c.program.decisions.tilings
    assert not any("repeats" in other.refused for other in decision.candidates)
    c = explorer.compile(load(path), until="rolled", target=DEVICE)
    (decision,) = c.program.decisions.tilings
    assert any("repeats" in other.refused for other in decision.candidates)
