"""Models whose low-bit products round their rows: what is off, by how much, and who is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption
from explorer.frontends.decoders.language_model import LanguageModel
from tests.frontends.decoders.tiny_models import LLAMA, write_folder
from tests.ops.test_low_bit_products import Drawn, loaded
from tests.quantization.models import write_products

ROUNDED = 1 / 127  # of a block's largest element, from one code to the next


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_rounded_rows_are_off_by_half_a_step_and_no_more(rows: int, tmp_path: Path) -> None:
    write_products(tmp_path / "m.onnx")
    low = explorer.quantize(explorer.load(tmp_path / "m.onnx"), "int8")
    first = explorer.round_rows(low)
    assert first.program != low.program and type(first) is type(low)
    assert explorer.round_rows(first).program == first.program
    x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float32)
    exact, rounded = (explorer.compile(m).run({"x": x})["y"] for m in (low, first))
    assert not np.array_equal(exact, rounded)
    assert np.abs(rounded - exact).max() <= 4 * ROUNDED * np.abs(exact).max()  # four products


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


def test_a_language_model_of_rounded_rows_generates_alike_in_one_step_or_several(
    tmp_path: Path,
) -> None:
    write_folder(tmp_path, LLAMA)
    model = explorer.round_rows(explorer.quantize(tmp_path, "int8"))
    assert isinstance(model, LanguageModel)
    prompt = list(range(3, 25))
    whole = explorer.generate(model, prompt, tokens=6)
    assert len(whole.ids) == 6
    c = explorer.compile(model, donate=model.caches)
    assert explorer.generate(c, prompt, tokens=6).ids == whole.ids


def test_a_model_without_weights_of_few_bits_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_products(tmp_path / "m.onnx")
    with pytest.raises(BadOption, match="has no product with weights of few bits") as refused:
        explorer.round_rows(explorer.load(tmp_path / "m.onnx"))
    assert "\n" not in refused.value.sentence
