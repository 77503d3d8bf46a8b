"""WebGPU programs in a browser, by the module that live pages use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import explorer
from explorer.errors import BadOption, BoundError
from explorer.ops.interpreter.evaluate import bind_sizes, evaluate
from explorer.portable.webgpu import webgpu_program
from tests.strategies.onnx.graphs import case
from tests.targets.wgsl.comparing import differences
from tests.targets.wgsl.in_browser import chromium, gpu_page, run_in

pytest.importorskip("playwright")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine"),
    pytest.mark.xdist_group("gpu_page"),
]
TINY = (
    *("tiny_skip", "tiny_lstm", "tiny_bert", "tiny_gpt2", "tiny_llama", "tiny_mobilenetv2"),
    *("tiny_resnet18", "tiny_vit"),
)


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    with gpu_page(browser) as page:
        if not page.evaluate("async () => !!(await navigator.gpu?.requestAdapter())"):
            pytest.skip("this Chromium offers no adapter for WebGPU")
        yield page


@pytest.mark.few(3)
@pytest.mark.parametrize("name", TINY)
def test_a_tiny_model_is_right_and_timed(name: str, page: Any) -> None:
    c = explorer.compile(f"zoo:{name}", "webgpu")
    inputs, program = c.random_inputs(), webgpu_program(c)
    result = run_in(page, program, inputs)
    assert not differences(result["outputs"], evaluate(c.model.program, inputs))
    if result["wall"] is not None:
        assert [row["name"] for row in result["wall"]] == [d.name for d in program.dispatches]
        assert all(0 <= row["begin_us"] <= row["end_us"] for row in result["wall"])
        assert result["head"]["kind"] == "measured" and result["head"]["total_us"] > 0
        assert result["head"]["bricks"] == len(program.dispatches)
        assert {row["name"] for row in result["times"]} == {d.name for d in program.dispatches}


@pytest.mark.few(5)
@pytest.mark.parametrize("seed", range(60))
def test_a_random_graph_is_right(seed: int, page: Any, tmp_path: Path) -> None:
    drawn, path = case(seed), tmp_path / "case.onnx"
    onnx.save(drawn.model, path)
    c = explorer.compile(path, "webgpu")
    for feeds in drawn.feeds:
        try:
            want, sizes = evaluate(c.model.program, feeds), bind_sizes(c.program, feeds)
            program = webgpu_program(c, sizes)
        except (BadOption, BoundError):
            return
        result = run_in(page, program, feeds)
        assert "error" not in result, result
        assert not differences(result["outputs"], want)


@explorer.trace
def mixed(  # type: ignore[no-untyped-def]
    x: explorer.tensor("float16", 5, 7),  # type: ignore[valid-type]
    k: explorer.tensor("int64", 5),  # type: ignore[valid-type]
    b: explorer.tensor("bool", 5),  # type: ignore[valid-type]
    s: explorer.tensor("int8", 5),  # type: ignore[valid-type]
):
    return x + x, k + 1, ~b, s + s, explorer.np.isnan(x)


def arrays(largest: int) -> dict[str, np.ndarray]:
    x = np.linspace(-3, 3, 35).astype(np.float16).reshape(5, 7)
    x[0] = np.nan, np.inf, -np.inf, 6e-8, 0.0, -0.0, 65504
    return {
        "x": x,
        "k": np.array([-(2**30), -1, 0, 1, largest]),
        "b": np.array([True, False, True, True, False]),
        "s": np.array([-128, -1, 0, 1, 127], np.int8),
    }


def test_every_dtype_is_passed_and_returned(page: Any) -> None:
    c = explorer.compile(mixed, "webgpu")
    inputs = arrays(2**30)
    result = run_in(page, webgpu_program(c), inputs)
    with np.errstate(all="ignore"):
        assert not differences(result["outputs"], evaluate(c.model.program, inputs))


def test_an_integer_that_does_not_fit_is_refused_in_a_sentence(page: Any) -> None:
    result = run_in(page, webgpu_program(explorer.compile(mixed, "webgpu")), arrays(2**30 + 1))
    assert result["error"] == (
        "The input k has the element 1073741825, and on a GPU an integer may be from "
        "-1,073,741,824 to 1,073,741,824."
    )
