"""Compiled models in WebAssembly give the answers of this machine's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from tests.benchmarks.recursive_autoencoder import random_tree
from tests.live.exported import live_data

Script = Callable[..., Any]
STRAIGHT = ("tiny_bert", "tiny_llama", "tiny_resnet18", "tiny_vit")
CONTROL = ("tiny_while", "tiny_skip", "small_looped_lstm", "small_beam_search", "small_moe")
TARGET = "wasm-simd128"
ANSWERS = """
const data = given, blob = index => bytes(data.blobs[index]);
const out = [];
const { answers, program: { openProgram } } = live;
for (const { program, code, weights, stack, reserved, recorded } of data.variants) {
  const runner = await openProgram(program, blob(code), blob(weights), { stack, reserved });
  const right = recorded.map(output => ({ ...output, bytes: blob(output.bytes) }));
  for (let k = 0; k < 2; k++) {  // the first finds NaN where it must not read
    if (!k) new Uint8Array(runner.memory.buffer, runner.layout.arena, program.arena).fill(255);
    data.inputs.forEach((index, n) => runner.write(n, blob(index)));
    runner.run();
    program.outputs.forEach((tensor, n) =>
      out.push(answers.checkAnswer(tensor, runner.read(n), right[n])));
  }
}
say(out);
"""


@pytest.mark.parametrize("name", (*STRAIGHT, *CONTROL))
def test_a_model_gives_the_recorded_answers(in_node: Script, name: str) -> None:
    model = explorer.load(f"zoo:{name}")
    here = explorer.compile(model)
    inputs = here.random_inputs()
    data = live_data({name: explorer.compile(model, TARGET)}, inputs, here.run(inputs))
    answers = in_node(ANSWERS, data)
    assert len(answers) == 2 * len(data["variants"][0]["recorded"])
    assert not [row["sentence"] for row in answers if row["off"]]


def test_recursion_runs_in_the_page_and_too_deep_a_tree_is_refused(in_node: Script) -> None:
    model = explorer.load("zoo:small_recursive_autoencoder")
    here = explorer.compile(model)
    inputs = here.random_inputs()
    inputs["left"], inputs["right"] = random_tree(11, 0, len(inputs["left"]))
    data = live_data({"tree": explorer.compile(model, TARGET)}, inputs, here.run(inputs))
    assert not [row["sentence"] for row in in_node(ANSWERS, data) if row["off"]]
    endless = {**inputs, "left": np.zeros_like(inputs["left"])}
    data = live_data({"tree": explorer.compile(model, TARGET)}, endless, here.run(inputs))
    script = f"try {{ {ANSWERS} }} catch (problem) {{ say(problem.sentence); }}"
    assert in_node(script, data) == "encode is called more than 2000 calls deep"


def test_a_wrong_answer_is_described(in_node: Script) -> None:
    script = """
const tensor = (dtype, shape) => ({ name: "y", dtype, shape });
const packed = array => new Uint8Array(array.buffer), f32 = v => packed(Float32Array.from(v));
const i64 = v => packed(BigInt64Array.from(v.map(BigInt))), u16 = v => packed(Uint16Array.from(v));
const check = (t, a, b, tolerance) => live.answers.checkAnswer(t, a, { bytes: b, tolerance });
say([
  check(tensor("float32", [2, 2]), f32([1, 2, 3, 4.5]), f32([1, 2.001, 3, 4]), 0.01),
  check(tensor("float32", [3]), f32([NaN, Infinity, 1]), f32([NaN, Infinity, 1.005]), 0.01),
  check(tensor("float32", [2]), f32([NaN, 1]), f32([0, 1]), 0.01),
  check(tensor("int64", [2]), i64(["9007199254740993", 5]), i64(["9007199254740992", 5]), 0),
  check(tensor("float16", [3]), u16([0x3c00, 0x7c00, 1]), u16([0x3c00, 0x7c00, 1]), 0),
  check(tensor("bool", []), Uint8Array.of(1), Uint8Array.of(0), 0),
  check(tensor("float32", [2]), f32([1, 1]), f32([1]), 0),
]);
"""
    wrong, close, nan, word, half, bit, short = in_node(script)
    assert wrong["off"] == 1 and wrong["sentence"] == (
        "The output y is wrong: 1 of 4 elements differ from the recorded ones by more than 0.01; "
        "the largest difference is 0.5, 4.5 here and 4 recorded at [1, 1]."
    )
    assert close["off"] == 0 and close["largest"] == pytest.approx(0.005, rel=1e-4)
    assert close["sentence"].startswith("The output y is right: 3 elements")
    assert nan["off"] == 1 and "NaN here and 0 recorded at [0]" in nan["sentence"]
    assert word["off"] == 1 and "9007199254740993 here and 9007199254740992" in word["sentence"]
    assert half["off"] == 0 and bit["off"] == 1 and "at []" in bit["sentence"]
    assert short["sentence"] == "The output y has 2 elements, and 1 were recorded."


def test_half_precision_is_decoded_exactly(in_node: Script) -> None:
    bits = np.arange(0, 65536, 7, dtype=np.uint16)
    script = 'say([...live.answers.elements("float16", Uint8Array.from(given))].map(String));'
    found = [
        float(text.replace("Infinity", "inf"))
        for text in in_node(script, bits.tobytes().hex() and list(bits.tobytes()))
    ]
    np.testing.assert_array_equal(np.array(found), bits.view(np.float16).astype(np.float64))


@pytest.mark.parametrize("name", ["sin", "tanh", "pow", "fmod", "exp2", "log1p"])
def test_functions_of_the_mathematical_library_are_those_of_c(name: str, in_node: Script) -> None:
    """A module that imports `sin` or `sinf` gets JavaScript's; C differs at infinite powers."""
    assert name
    numbers = [0.5, -1.0, 1.0, 3.0, -2.5]
    script = f"""
const [code, single] = [{name!r}, {name + "f"!r}].map(live.program.mathematical);
say(given.flatMap(x => given.map(y => [code(x, y), single(x, y)].map(String))));
"""
    rows = in_node(script, numbers)
    function = {"pow": np.power, "fmod": np.fmod}.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        expected = [
            function(x, y) if function in (np.power, np.fmod) else function(x)
            for x in numbers
            for y in numbers
        ]
    for row, value in zip(rows, expected, strict=True):
        np.testing.assert_allclose([float(text) for text in row], [value, value], rtol=1e-14)
