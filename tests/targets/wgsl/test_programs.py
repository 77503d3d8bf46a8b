"""Models as programs of compute shaders compute what the reference interpreter computes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import explorer
from explorer.codegen.wgsl.print import ShaderOptions
from explorer.codegen.wgsl.types import SHADER_F16, SUBGROUPS
from explorer.errors import BadOption, BoundError, ShapeError
from explorer.ops.interpreter.evaluate import bind_sizes, evaluate
from explorer.portable.webgpu import WebGpuProgram, _placed, webgpu_program
from tests.strategies.onnx.graphs import case
from tests.targets.wgsl import gpu
from tests.targets.wgsl.comparing import OnGpu, differences

needs_gpu = pytest.mark.skipif(
    gpu.device() is None, reason="no package wgpu, or no adapter with Vulkan such as lavapipe"
)
TINY = (
    *("tiny_skip", "tiny_lstm", "tiny_bert", "tiny_gpt2", "tiny_llama", "tiny_mobilenetv2"),
    *("tiny_resnet18", "tiny_vit"),
)
REFUSALS = (
    "WGSL has no float64",
    "needs a host between dispatches",
    "WGSL has integers of 32 bits only",
    "integers of more than 32 bits",
    "values decide shapes, or calls that only Python can make",
    "no conversion of float8",
    "bits of int64 are not printed in WGSL",
)
GRAPHS = 300


@needs_gpu
@pytest.mark.few(2)
@pytest.mark.parametrize("name", (*TINY, "tiny_while"))
def test_every_kernel_of_a_tiny_model_is_right(name: str) -> None:
    c = explorer.compile(f"zoo:{name}", "webgpu")
    inputs = c.random_inputs()
    sizes = bind_sizes(c.program, inputs)
    run = OnGpu(c.program, sizes, c.device, c.chosen_blocks(sizes))
    run.outputs(inputs)
    assert run.shaders and not run.refused and not run.wrong


@needs_gpu
@pytest.mark.few(2)
@pytest.mark.parametrize("name", TINY)
def test_a_tiny_model_is_right_as_a_program(name: str) -> None:
    c = explorer.compile(f"zoo:{name}", "webgpu")
    inputs, program = c.random_inputs(), webgpu_program(c)
    want = evaluate(c.model.program, inputs)
    for seed in (None, 1, 2):
        assert not differences(gpu.run_program(program, inputs, seed), want)


@needs_gpu
@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_random_graph_is_right_or_refused(seed: int, tmp_path: Path) -> None:
    """Refused for float64, control flow, and 64-bit integers without bounds alone."""
    drawn, path = case(seed), tmp_path / "case.onnx"
    onnx.save(drawn.model, path)
    try:
        c = explorer.compile(path, "webgpu")
    except ShapeError as problem:
        assert "has no elements" in problem.sentence
        return
    for feeds in drawn.feeds:
        try:
            want, sizes = evaluate(c.model.program, feeds), bind_sizes(c.program, feeds)
            program = webgpu_program(c, sizes)
        except BoundError:
            continue
        except BadOption as problem:
            assert any(why in problem.sentence for why in REFUSALS), problem.sentence
            return
        got = gpu.run_program(program, feeds, seed if seed % 2 else None)
        assert not differences(got, want)


@explorer.trace
def mixed(  # type: ignore[no-untyped-def]
    x: explorer.tensor("float32", "n", 13),  # type: ignore[valid-type]
    k: explorer.tensor("int64", "n"),  # type: ignore[valid-type]
):
    w = np.random.default_rng(0).normal(size=(13, 11)).astype(np.float32)
    bias = np.arange(11, dtype=np.float16)
    h = explorer.np.maximum(x @ w, np.float32(0)) + bias.astype(np.float32)
    return explorer.np.cumsum(h @ w.T, 1), k + 1, explorer.np.isnan(x), explorer.np.max(x, 1)


@needs_gpu
@pytest.mark.parametrize("n", [0, 1, 7, 130])
def test_odd_sizes_nan_and_infinity_are_right(n: int) -> None:
    random = np.random.default_rng(n)
    x = random.normal(size=(n, 13)).astype(np.float32)
    if n:
        x[0, :3] = np.nan, np.inf, -np.inf
    inputs: dict[str, np.ndarray] = {"x": x, "k": random.integers(-(2**30), 2**30, n)}
    c = explorer.compile(explorer.load(mixed, {"n": (0, 1000)}), "webgpu")
    program = webgpu_program(c, {"n": n})
    with np.errstate(all="ignore"):
        want = evaluate(c.model.program, inputs)
    assert not differences(gpu.run_program(program, inputs), want)
    assert not differences(gpu.run_program(program, inputs, 3), want)


@explorer.trace
def halves(x: explorer.tensor("float16", 37, 48)):  # type: ignore[no-untyped-def, valid-type]
    w = np.random.default_rng(0).normal(size=(48, 32)).astype(np.float16)
    h = explorer.np.tanh(x @ w)
    return h, explorer.np.sum(h * h, 1), explorer.np.cumsum(h, 1)


@explorer.trace
def bytes_and_bools(  # type: ignore[no-untyped-def]
    x: explorer.tensor("int8", 37, 48),  # type: ignore[valid-type]
    b: explorer.tensor("bool", 37, 48),  # type: ignore[valid-type]
):
    w = np.random.default_rng(0).integers(-9, 9, 48).astype(np.int8)
    y = explorer.np.where(b, x + w, x * w)
    return y, explorer.np.max(y, 1), explorer.np.cumsum(y, 1)


def printed_with(p: WebGpuProgram, features: set[str], lanes: int) -> WebGpuProgram:
    """The program with the variant of every shader for some features."""
    options = ShaderOptions(frozenset(features), lanes)
    shaders = (replace(s, shader=s.shader.with_options(options)) for s in p.shaders)
    return replace(p, shaders=tuple(shaders))


@needs_gpu
def test_narrow_elements_are_right_with_and_without_their_feature() -> None:
    random = np.random.default_rng(1)
    inputs: tuple[tuple[Any, dict[str, np.ndarray]], ...] = (
        (halves, {"x": random.normal(size=(37, 48)).astype(np.float16)}),
        (
            bytes_and_bools,
            {
                "x": random.integers(-128, 127, (37, 48)).astype(np.int8),
                "b": random.random((37, 48)) > 0.5,
            },
        ),
    )
    for function, arrays in inputs:
        c = explorer.compile(function, "webgpu")
        program, want = webgpu_program(c), evaluate(c.model.program, arrays)
        for features in (set(), {SHADER_F16}) if SHADER_F16 in gpu.features() else (set(),):
            got = gpu.run_program(printed_with(program, features, 0), arrays)
            assert not differences(got, want)


@needs_gpu
def test_lanes_of_a_subgroup_exchange_sums() -> None:
    if SUBGROUPS not in gpu.features():
        pytest.skip("the adapter has no subgroups")
    c = explorer.compile("zoo:tiny_bert", "webgpu")
    inputs, program = c.random_inputs(), printed_with(webgpu_program(c), {SUBGROUPS}, 4)
    sources = [s.shader.source for s in program.shaders]
    assert any("subgroupShuffleXor" in text and "exchanged[" in text for text in sources) or any(
        "subgroupShuffleXor" in text for text in sources
    )
    got = gpu.run_program(program, inputs)
    assert not differences(got, evaluate(c.model.program, inputs))


@needs_gpu
def test_a_kernel_without_a_tile_that_fits_runs_in_parts(tmp_path: Path) -> None:
    """A strided ConvTranspose is legalised as one kernel, whose sums take more than a tile's."""
    x = onnx.helper.make_tensor_value_info("x", 1, [2, 1, 2, 19, 40])
    y = onnx.helper.make_tensor_value_info("y", 1, None)
    random = np.random.default_rng(0)
    weight = random.normal(size=(1, 9, 1, 2, 2)).astype(np.float32)
    bias = random.normal(size=9).astype(np.float32)
    node = onnx.helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[1, 3, 2])
    named = [onnx.numpy_helper.from_array(a, n) for n, a in (("w", weight), ("b", bias))]
    graph = onnx.helper.make_graph([node], "g", [x], [y], named)
    opset = [onnx.helper.make_opsetid("", 19)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset), tmp_path / "t.onnx")
    c = explorer.compile(tmp_path / "t.onnx", "webgpu")
    program, inputs = webgpu_program(c), c.random_inputs()
    assert [d.name for d in program.dispatches] == ["y/acc", "y/y"]
    assert all(b.source.count("@compute") == 2 and not b.refused for b in c.blocks)
    want = evaluate(c.model.program, inputs)
    assert not differences(gpu.run_program(program, inputs, 1), want)


def test_a_call_is_a_dispatch_and_begins_after_the_one_before_it() -> None:
    c = explorer.compile("zoo:tiny_bert", "webgpu")
    persistent = c.with_options(rammer=replace(c.options.rammer, policy="critical-path"))
    calls = [b.name for b in c.program.kernel_calls]
    launch = c.device.launch_us
    for wall in (c.planned_wall(), persistent.planned_wall()):
        spans = {call: (1e9, 0.0) for call in calls}
        for b in wall.bricks:
            begin, end = spans[b.call]
            spans[b.call] = min(begin, b.start_us), max(end, b.end_us)
        ends = [0.0, *(end for _, end in spans.values())]
        for (begin, _), end in zip(spans.values(), ends):
            assert begin >= end + launch - 1e-6


def test_a_program_is_values_of_json_and_a_sentence() -> None:
    program = webgpu_program(explorer.compile("zoo:tiny_skip", "webgpu"))
    assert str(program).startswith("tiny_skip for WebGPU: ") and "dispatches of" in str(program)
    data = json.loads(json.dumps(program.to_dict()))
    assert data["weights"] == len(program.weights) and len(data["dispatches"]) == len(
        program.dispatches
    )
    assert all(t["at"] % 64 == 0 for t in (*data["inputs"], *data["outputs"]))
    assert data["limits"] == {}


def test_results_that_are_alive_together_share_no_words() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        begins = random.integers(0, 20, 12)
        spans = {f"v{n}": (int(b), int(b + random.integers(0, 6))) for n, b in enumerate(begins)}
        words = {name: 64 * int(random.integers(1, 9)) for name in spans}
        at = _placed(spans, words)
        for a in spans:
            for b in spans:
                together = spans[a][0] <= spans[b][1] and spans[b][0] <= spans[a][1]
                if a != b and together:
                    assert at[a] + words[a] <= at[b] or at[b] + words[b] <= at[a]


def test_a_program_that_needs_a_host_is_refused_in_a_sentence() -> None:
    refused = "tiny_while has no program for WebGPU: the loop 'getitem' needs a host between"
    with pytest.raises(BadOption, match=refused):
        webgpu_program(explorer.compile("zoo:tiny_while", "webgpu"))
    with pytest.raises(BadOption, match="was compiled for v100, not for WebGPU"):
        webgpu_program(explorer.compile("zoo:tiny_skip", "v100"))
