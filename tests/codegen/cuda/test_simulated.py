"""Whole models whose kernels run as printed thread blocks make what the CPU makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.codegen.cuda.simulated import simulate
from explorer.devices.catalogue import device
from explorer.errors import BadOption
from explorer.ops.interpreter.evaluate import evaluate
from tests.architecture.house import drawn
from widgets.program.generated_source import line_origins
from widgets.session.session import Session

QUICK = ("small_bert", "small_moe")
MORE = ("small_vit", "small_resnext29", "small_swin", "small_nasnet", "small_seq2seq", *QUICK)


def agree(got: Any, want: Any) -> None:
    assert [*got] == [*want]
    for name, values in want.items():
        scale = max(1.0, float(np.abs(values).max(initial=0)))
        np.testing.assert_allclose(got[name], values, 1e-4, 1e-5 * scale)


def simulated(c: explorer.Compilation, inputs: Any) -> Any:
    """The outputs, every kernel of which ran as thread blocks."""
    found, run = simulate(c.program, inputs, c.device)
    assert run.launches > 0 and not run.refused
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", QUICK)
def test_a_model_makes_what_it_is(name: str) -> None:
    c = explorer.compile(f"zoo:{name}", target="cuda-sim")
    inputs = c.random_inputs()
    agree(simulated(c, inputs), evaluate(c.model.program, inputs))


@pytest.mark.exhaustive
def test_a_model_makes_what_the_cpu_makes(name: str = "small_lstm") -> None:
    c = explorer.compile(f"zoo:{name}", target="cuda-sim")
    inputs = c.random_inputs()
    agree(simulated(c, inputs), explorer.compile(f"zoo:{name}").run(inputs))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MORE)
def test_more_models_make_what_the_cpu_makes(name: str) -> None:
    test_a_model_makes_what_the_cpu_makes(name)


@explorer.trace
def perceptron(x: explorer.tensor("float32", "n", 13)):  # type: ignore[valid-type,no-untyped-def]
    w = np.random.default_rng(0).normal(size=(13, 11)).astype(np.float32)
    h = explorer.np.maximum(x @ w, np.float32(0))
    return explorer.np.cumsum(h @ w.T, 1)


@explorer.trace
def narrow(x: explorer.tensor("float8_e5m2", 5, 13)):  # type: ignore[valid-type,no-untyped-def]
    return x.astype("float32")


@pytest.mark.parametrize("n", [1, 7])
def test_sizes_are_bound_where_it_runs(n: int) -> None:
    """And a running sum has a thread block, in which a thread goes along each row."""
    x = np.random.default_rng(1).normal(size=(n, 13)).astype(np.float32)
    x[0, :2] = np.nan, np.inf
    c = explorer.compile(perceptron, target="cuda-sim")
    agree(c.run({"x": x}), explorer.compile(perceptron).run({"x": x}))
    assert not any(k.refused for k in c.blocks) and len(c.blocks) > 1


def test_what_has_no_blocks_is_told() -> None:
    c = explorer.compile(narrow, target="cuda-sim", until="planned")
    (refused,) = c.blocks
    assert refused.code is None and "Numba's CUDA has no elements of float8_e5m2" in refused.refused
    assert "# no thread block: " in refused.source
    with pytest.raises(BadOption, match="has no thread blocks on this-cpu"):
        explorer.compile(perceptron).simulate({"x": np.ones((1, 13), np.float32)})
    c = explorer.compile(perceptron, target="mi50")
    assert c.blocks == () and explorer.compile(perceptron).blocks == ()
    out = {"y": np.empty((1, 13), np.float32)}
    with pytest.raises(BadOption, match="cuda-sim has no clock, and writes new arrays only"):
        c = explorer.compile(perceptron, target="cuda-sim")
        c.run({"x": np.ones((1, 13), np.float32)}, out=out)


@pytest.mark.parametrize("lanes", [16, 64])
def test_wider_warps_than_there_are_is_what_is_planned_and_not_printed(lanes: int) -> None:
    """Lanes 32 apart would shuffle, and half of a warp would run ahead of the other."""

    @explorer.trace
    def squares(x: explorer.tensor("float32", 40, 512)):  # type: ignore[valid-type,no-untyped-def]
        return explorer.np.sum(x * x, 1)

    c = explorer.compile(squares, target=replace(device("v100"), name="mine", lanes=lanes))
    assert c.planned_wall().total_us > 0
    refused = [b.refused for b in c.blocks]
    wide = f"a warp of mine has {lanes} lanes, but CUDA code has 32"
    assert all(wide in why for why in refused) if lanes > 32 else not any(refused)
    x = c.random_inputs()
    (found,) = c.simulate(x).values()
    np.testing.assert_allclose(found, (x["x"] ** 2).sum(1), 1e-5)


def test_the_house_shows_the_source_of_a_block() -> None:
    session = Session(explorer.compile(perceptron, target="a100"))
    assert "cuda.shared.array" in drawn(session, "codegen")
    pane = [session.answer("kernel", {"call": 0, "language": n}) for n in ("numba", "assembly")]
    assert "@cuda.jit" in pane[0]["lines"] and pane[1]["ops"] is None
    assert "predicted for a100" in pane[1]["lines"][0] or "numba-cuda" in pane[1]["lines"][0]


def test_each_line_of_a_block_has_its_operators() -> None:
    """A softmax is told from the product before it, in shared memory and in registers."""
    c = explorer.compile("zoo:small_bert", target="a100")
    call = next(b for b in c.program.kernel_calls if len(b.kernel_call.kernel.computes) > 4)
    block = next(k for k in c.blocks if k.name == call.name)
    lines = block.source.rstrip("\n").split("\n")
    found = line_origins(block.source, call.kernel_call.kernel)
    of = {line.split("[")[0].strip(): ops for line, ops in zip(lines, found) if "] = " in line}
    computes = call.kernel_call.kernel.computes
    assert of["y"] == computes[-1].origin and len({*of.values()}) > 1
    assert not any(ops for line, ops in zip(lines, found) if line[:1] != " " or "_block" in line)
    assert frozenset().union(*found) == call.origin
