"""Portable programs compute what the compilation computes, bit for bit."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.devices import target
from explorer.errors import BadOption, BoundError
from explorer.ops.interpreter.frame import bind_sizes
from explorer.portable.program import portable
from explorer.portable.symbolic import symbolic
from tests.portable.cases import (
    assert_equal,
    compiled,
    from_onnx,
    inputs_of,
    tree_inputs,
)
from tests.portable.interpreter import Runner
from tests.strategies.onnx import graphs
from tests.strategies.onnx.symbolic import graphs as symbolic_graphs

STRAIGHT = ("tiny_bert", "tiny_llama", "tiny_resnet18", "tiny_lstm")
CONTROL = (
    "tiny_while",
    "small_looped_lstm",
    "small_beam_search",
    "small_skipnet",
    "small_moe",
    "small_recursive_autoencoder",
)


@pytest.mark.parametrize("name", (*STRAIGHT, *CONTROL))
def test_a_model_computes_the_same_bits(name: str) -> None:
    c = compiled(name)
    inputs = inputs_of(c)
    runner, expected = Runner(portable(c)), c.run(inputs)
    for _ in range(2):  # a second run finds the memory of the first
        assert_equal(runner.run(inputs), expected)


def test_a_tree_that_is_too_deep_is_refused_by_the_program() -> None:
    c = compiled("small_recursive_autoencoder")
    inputs = tree_inputs(c)
    endless = {**inputs, "left": np.zeros_like(inputs["left"])}  # the root is its own child
    with pytest.raises(RecursionError, match="deep"):
        Runner(portable(c)).run(endless)


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(781000, 781020))
def test_random_graphs(seed: int, tmp_path: Path) -> None:
    case = graphs.case(seed)
    c = from_onnx(case.model, tmp_path)
    for feeds in case.feeds:
        shapes = zip(c.executable.program.main.params, feeds.values(), strict=True)
        dims = {str(d): n for p, a in shapes for d, n in zip(p.type.dims, a.shape)}
        sizes = {name: dims[name] for name in c.hint if name in dims}
        if 0 in sizes.values():
            c = c.planned_for(sizes)
        try:
            program = portable(c, sizes)
        except BadOption as problem:
            assert "needs Python while it runs" in problem.sentence
            return
        assert_equal(Runner(program).run(feeds), c.executable.run(feeds))


@pytest.mark.parametrize("seed", (5012, 5020))
def test_values_that_sizes_decide_are_constants(seed: int, tmp_path: Path) -> None:
    """A trip count depends on whether two symbols broadcast: it is computed before a run."""
    case = symbolic_graphs.of((seed, 1), seed)
    c = from_onnx(case.model, tmp_path)
    assert c.executable.shape_computation is not None and c.executable.shape_computation.arrays
    sizes = bind_sizes(c.executable.program, case.feeds[0])
    program = portable(c, {name: sizes[name] for name in c.hint if name in sizes})
    assert [t.name for t in program.inputs] == [*case.feeds[0]]
    assert_equal(Runner(program).run(case.feeds[0]), c.run(case.feeds[0]))
    with pytest.raises(BadOption, match="which only Python does"):
        symbolic(c)


def test_sizes_are_those_that_are_asked() -> None:
    c = compiled("tiny_bert")
    for size in (1, 3, 17):
        sizes = dict.fromkeys(c.hint, size)
        program = portable(c, sizes)
        assert dict(program.sizes) == sizes
        inputs = c.random_inputs(sizes)
        assert_equal(Runner(program).run(inputs), c.executable.run(inputs))


def test_impossible_sizes_are_refused() -> None:
    c = compiled("tiny_bert")
    with pytest.raises(BadOption, match="no symbol 'batchs'; did you mean 'batch'"):
        portable(c, {"batchs": 1})
    with pytest.raises(BoundError, match="the size of batch is a whole number from 0 on"):
        portable(c, {"batch": -1})


def test_it_is_json_and_weights() -> None:
    program = portable(compiled("tiny_while"))
    data = json.loads(json.dumps(program.to_dict()))
    assert data["weights"] == len(program.weights) and data["format"] == 1
    assert len(data["launches"][0]["calls"]) == len(program.launches[0].calls) == 6
    assert {space for space, _, _ in data["args"]} <= {*"nwasio"}
    assert str(program).startswith("tiny_while for this-cpu: 6 calls of 5 kernels, ")


@pytest.mark.parametrize("name", ["v100", "a target of another distribution"])
def test_other_targets_have_no_such_program(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A user's own target prints its own code, though its device is a CPU."""
    device = name
    if name != "v100":
        monkeypatch.setattr(target, "_registered", target._registered.copy())
        device = import_module("tests.plugin.ironworks_dsp").DEVICE
        request.addfinalizer(lambda: sys.modules.pop("tests.plugin.ironworks_dsp"))
    c = explorer.compile(explorer.load("zoo:tiny_skip"), device)
    with pytest.raises(BadOption, match="whose kernels are no CPU code"):
        portable(c)


def test_a_program_that_needs_python_is_refused() -> None:
    c = explorer.compile(explorer.load("zoo:tiny_skip"), options=host_control())
    with pytest.raises(BadOption, match="needs Python while it runs: Python decides"):
        portable(c)


def host_control() -> explorer.Options:
    from explorer.grinder import Options

    return explorer.Options(grinder=Options(schedule="host"))
