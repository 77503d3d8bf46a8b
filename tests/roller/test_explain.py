"""Explanations of a tile that was asked for: it is the tiling in use but for its sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper

import explorer
from explorer.compiler.compilation import Compilation
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.roller import Options
from explorer.views.roller import tiles
from tests.roller.test_policy import DEVICE
from tests.tuning.models import written

IN_USE = Tiling((("i", 24), ("j", 64)), Micro(8, 2, 16), pack=True, depth_block=32)


@pytest.fixture
def product(tmp_path: Path) -> Compilation:
    """Two inputs multiplied, the right one packed into panels, in blocks of the depth."""
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
    model = written(tmp_path, nodes, {"a": [96, 128], "b": [128, 256]}, ["y"])
    pinned = Options(pinned=(("y", IN_USE),))
    return explorer.compile(model, DEVICE, explorer.Options(roller=pinned), until="rolled")


def test_the_tile_in_use_is_explained_as_what_it_is(product: Compilation) -> None:
    found = product.explain("y", tile=dict(IN_USE.tile))
    assert found.requested is not None and found.requested.value == IN_USE == found.tilings.chosen
    assert found.requested.terms == found.tilings.candidates[0].terms


def test_another_tile_is_explained_as_it_would_be_measured(product: Compilation) -> None:
    """Asked for, and pinned by hand: the same tiling takes the same time."""
    wide = replace(IN_USE, tile=(("i", 48), ("j", 128)))
    asked = product.explain("y", tile={"i": 48, "j": 128}).requested
    roller = replace(product.options.roller, pinned=(("y", wide),))
    pinned = product.with_options(roller=roller).program.decisions.tiling("y")
    assert asked is not None and pinned is not None
    assert (asked.value, asked.cost_us) == (wide, pinned.candidates[0].cost_us)


def test_a_tile_that_is_taken_before_a_faster_one_says_why() -> None:
    c, slower = explorer.compile("zoo:tiny_bert", DEVICE, until="rolled"), 0
    for t in c.program.decisions.tilings:
        legal = [x.cost_us for x in t.candidates if not x.refused]
        behind = legal[0] > min(legal)
        assert ("as good as the fastest" in tiles(c, t.binding).text) == behind
        slower += behind
    assert slower
