"""The models in JAX give the answers of NumPy; what has no call is refused by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.frontends import zoo
from explorer.frontends.model import Model
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.random_inputs import random_inputs
from explorer.tuning.compare import check_answers
from explorer.tuning.peers import runtimes as peers
from explorer.tuning.peers.peer import Skipped
from explorer.tuning.peers.runtimes import prepare
from tests.tuning.models import CASES, of_one_operator, written

pytest.importorskip("jax")


def inputs_of(model: Model) -> dict[str, np.ndarray]:
    sizes = {"batch": 2} if "batch" in model.program.env.hints else {}
    return random_inputs(model.program, sizes)


@pytest.mark.parametrize("name", ["small_lstm", "small_deepspeech2", "small_vit"])
def test_a_model_of_the_zoo_gives_the_answers_of_numpy(name: str) -> None:
    model = zoo.load(name)
    inputs = inputs_of(model)
    peer = prepare("jax", model, inputs, 1)
    check_answers(zoo.reference(name, inputs), peer.run(), "jax")


@pytest.mark.parametrize("op", CASES)
def test_an_operator_means_what_it_means_here(op: str, tmp_path: Path) -> None:
    model = of_one_operator(op, tmp_path)
    inputs = inputs_of(model)
    answers = evaluate(model.program, inputs)
    check_answers(answers, prepare("jax", model, inputs, 1).run(), "jax")


SIZES_OF_NUMBERS = """
import sys
from pathlib import Path
import numpy as np
from onnx import TensorProto, helper, save
from explorer.frontends.load import load
from explorer.tuning.peers.runtimes import prepare

for kind, dtype in ((TensorProto.FLOAT, "float32"), (TensorProto.DOUBLE, "float64")):
    x, y = (helper.make_tensor_value_info(n, kind, [4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "small", [x], [y])
    opset = [helper.make_opsetid("", 18)]
    file = Path(sys.argv[1]) / f"{dtype}.onnx"
    save(helper.make_model(graph, opset_imports=opset, ir_version=9), file)
    given = np.linspace(0, 1, 4, dtype=dtype)
    found = prepare("jax", load(file), {"x": given}, 1).run()["y"]
    assert found.dtype == dtype, found.dtype
    assert abs(found - np.exp(given)).max() < 4 * np.finfo(dtype).eps
"""


def test_float32_stays_float32_and_float64_is_not_made_less(tmp_path: Path) -> None:
    """In a process of its own: JAX is told of float64 for good."""
    command = [sys.executable, "-c", SIZES_OF_NUMBERS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_operator_without_a_call_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Hardmax", ["x"], ["y"], name="highest")
    model = written(tmp_path, [node], {"x": [1, 8]}, ["y"])
    with pytest.raises(Skipped, match="Hardmax at 'highest' has no JAX call here"):
        prepare("jax", model, inputs_of(model), 1)


def test_a_graph_that_takes_minutes_to_compile_is_refused_with_its_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from explorer.tuning.peers import jax_peer

    monkeypatch.setattr(jax_peer, "MOST_CALLS", 5)
    model = zoo.load("small_vit")
    with pytest.raises(Skipped, match=r"small_vit has \d+ calls; XLA is given 5 at most"):
        prepare("jax", model, inputs_of(model), 1)


def test_the_threads_of_jax_are_those_that_it_was_started_with() -> None:
    model = zoo.load("small_lstm")
    prepare("jax", model, inputs_of(model), 1)
    with pytest.raises(Skipped, match="with another number of threads than 7"):
        peers.prepare("jax", model, inputs_of(model), 7)
