"""Random modules: what NASBench-101 allows, and what its channels are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer
from explorer.errors import BadOption
from explorer.frontends import zoo
from explorer.frontends.zoo.numpy_layers import NumpyLayers
from explorer.frontends.zoo.onnx_graphs import OnnxLayers
from explorer.frontends.zoo.searched import EDGES, OPERATIONS, Module, draw_module
from explorer.ops.interpreter.evaluate import evaluate
from tests.conformance.answers import Oracle, agree

SEEDS = range(200)
IMAGE = np.random.default_rng(0).standard_normal((1, 24, 8, 8)).astype(np.float32)


def test_a_module_has_seven_vertices_and_nine_edges_at_most() -> None:
    modules = [draw_module(seed) for seed in SEEDS]
    assert all(1 <= len(m.operations) <= 5 and len(m.edges) <= EDGES for m in modules)
    assert {o for m in modules for o in m.operations} == set(OPERATIONS)
    assert max(len(m.edges) for m in modules) == EDGES


def test_every_vertex_lies_between_the_input_and_the_output() -> None:
    for module in map(draw_module, SEEDS):
        assert all(a < b for a, b in module.edges)
        sources, targets = {a for a, _ in module.edges}, {b for _, b in module.edges}
        assert sources == set(range(module.last)) and targets == set(range(1, module.last + 1))


def test_one_seed_gives_one_module_and_seeds_differ() -> None:
    assert draw_module(3) == draw_module(3)
    assert len({draw_module(seed) for seed in SEEDS}) > 120


def test_widths_are_few_so_that_kernels_are_shared() -> None:
    assert {w for seed in SEEDS for w in draw_module(seed).widths()} == {24, 12, 8, 6}


def test_vertices_share_the_channels_of_the_output_and_the_first_get_what_is_left() -> None:
    edges = frozenset({(0, 1), (1, 2), (1, 3), (0, 4), (2, 5), (3, 5), (4, 5)})
    module = Module(("conv1x1",) * 4, edges, channels=10)
    assert module.widths() == (4, 4, 3, 3)  # the first reaches no output, but one of width 4


def test_a_seed_of_too_many_digits_names_no_module() -> None:
    assert zoo.entry("nasbench_" + "9" * 18).name == "nasbench_" + "9" * 18
    with pytest.raises(BadOption, match="the zoo has no model named 'nasbench_999"):
        zoo.entry("nasbench_" + "9" * 5000)


def test_a_module_computes_what_its_edges_say() -> None:
    """`out = [pool(p), pool(pool(p)[:12] + q)] + r`, with p, q and r projections of the input."""
    edges = frozenset({(0, 1), (1, 2), (0, 2), (1, 3), (2, 3), (0, 3)})
    module = Module(("maxpool3x3", "maxpool3x3"), edges)
    net = NumpyLayers({"image": IMAGE}, 0)
    module(net)
    at = NumpyLayers({}, 0)

    def projected(where: str, width: int) -> np.ndarray:
        with at.inside(f"{where}projection"):
            y = at.batch_norm("norm", at.conv("conv", IMAGE, 24, width, bias=False, gain=2), width)
        return np.maximum(y, 0)

    def pooled(x: np.ndarray) -> np.ndarray:
        padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
        return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).max((-1, -2))

    first = pooled(projected("vertices.1.", 12))
    second = pooled(first + projected("vertices.2.", 12))
    wanted = np.concatenate([first, second], 1) + projected("", 24)
    np.testing.assert_allclose(net.outputs["image_out"], wanted, atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_a_module_answers_in_onnxruntime_and_in_the_interpreter_as_in_numpy(
    seed: int, tmp_path: Path
) -> None:
    name, path = f"zoo:nasbench_{seed}", tmp_path / "module.onnx"
    onnx.save(zoo.proto(name), path)
    wanted = zoo.reference(name, {"image": IMAGE})
    agree(Oracle(path)({"image": IMAGE}), wanted)
    agree(evaluate(zoo.load(name).program, {"image": IMAGE}), wanted)


def test_a_module_is_compiled_by_name() -> None:
    compiled = explorer.compile("zoo:nasbench_5")
    agree(compiled.run({"image": IMAGE}), zoo.reference("nasbench_5", {"image": IMAGE}))


def test_an_entry_says_how_many_weights_a_module_has() -> None:
    net = OnnxLayers()
    draw_module(17)(net)
    assert zoo.entry("zoo:nasbench_17").weights == sum(w.count for w in net.weights.values()) > 0
    with pytest.raises(BadOption, match="no model named 'nasbench_x'"):
        zoo.entry("nasbench_x")
