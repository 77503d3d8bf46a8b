"""Rows of residues may be one fewer in the last writer: their axis can be cut all the same."""

from __future__ import annotations

import pytest

import explorer
from tests.fuzz.settings import PLAIN


@pytest.mark.exhaustive
def test_filtered_images_of_any_height_are_cut_along_their_rows() -> None:
    c = explorer.compile("zoo:squeezenet", PLAIN.device, until=explorer.Stage.ROLLED)
    weighed = {d.binding: d for d in c.program.decisions.algorithms}
    assert weighed["r24"].candidates  # an image of 27 rows: not a multiple of 4 or of 2
    squares = [k for k in weighed["r24"].candidates if k.label.endswith("3x3)")]
    assert len(squares) == 2 and all(k.cost_us < float("inf") for k in squares)
    tilings = [k for d in c.program.decisions.tilings for k in d.candidates]
    assert not [k for k in tilings if "there is no axis" in k.refused]
