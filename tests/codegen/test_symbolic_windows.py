"""Windows over images of symbolic sizes: products on register tiles, with padding and without."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import explorer
from tests.tuning.models import written


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
@pytest.mark.parametrize("name", ["height", "q"])
def test_a_convolution_of_symbolic_rows_is_a_contraction(
    pads: list[int], name: str, tmp_path: Path
) -> None:
    conv = helper.make_node("Conv", ["x", "k"], ["c"], pads=pads)
    weights = {"k": np.random.default_rng(0).standard_normal((32, 16, 3, 3)).astype(np.float32)}
    image = {"x": ["n", 16, name, f"{name}2"]}
    c = explorer.compile(written(tmp_path, [conv], image, ["c"], weights))
    for h, w in ((20, 33), (5, 3)):
        x = {"x": np.random.default_rng(1).standard_normal((2, 16, h, w)).astype(np.float32)}
        (got,), (want,) = c.run(x).values(), explorer.evaluate(c.model.program, x).values()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    source = c.codes[next(b.name for b in c.program.kernel_calls)].source
    assert "micro_kernel(" in source and "add_any_order" not in source
