"""Models whose low-bit products round their rows, beside the same models with float rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer
from explorer.errors import BadOption
from tests.ops.test_low_bit_products import Drawn, loaded


@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
def test_a_model_with_rounded_rows_is_another_one_of_the_same_file(
    zeros: str, tmp_path: Path
) -> None:
    drawn = Drawn(11, bits=4, block=32, depth=160, columns=24, zeros=zeros)
    model = loaded(drawn.model(), tmp_path)
    rounded = explorer.round_rows(model)
    assert rounded.digest != model.digest
    exact, near = drawn.right(drawn.x), drawn.right(drawn.rounded(drawn.x))
    assert abs(exact - near).max() > 1e-4 * abs(exact).max()
    drawn.near(explorer.compile(model).run({"x": drawn.x})["y"], exact)
    drawn.near(explorer.compile(rounded).run({"x": drawn.x})["y"], near)


def test_a_model_without_low_bit_products_is_refused() -> None:
    model = explorer.trace(lambda x: x + 1)(x=explorer.tensor("float32", 3))
    with pytest.raises(BadOption, match="no product with weights of few bits"):
        explorer.round_rows(model)
