"""Programs of several units: threads of Node that share a memory, as Workers of a page do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from tests.benchmarks.recursive_autoencoder import random_tree
from tests.examples import examples
from tests.live.exported import live_data

Script = Callable[..., Any]
STRAIGHT = ("tiny_bert", "tiny_llama", "tiny_mobilenetv2", "tiny_resnet18")
CONTROL = ("tiny_while", "tiny_skip", "small_looped_lstm", "small_beam_search", "small_moe")
TARGET = "wasm-simd128"
WORKERS = """
import { Worker as Thread } from "node:worker_threads";
import { writeFileSync } from "node:fs";
const unit = new URL("./unit.mjs", import.meta.url);
writeFileSync(unit, `
import { parentPort } from "node:worker_threads";
import { worker } from "./live.mjs";
const scope = { postMessage: data => parentPort.postMessage(data), onmessage: null };
worker.serve(scope);
parentPort.on("message", data => scope.onmessage({ data }));
`);
globalThis.Worker = class {
  constructor() {
    this.thread = new Thread(unit);
    this.thread.on("message", data => this.onmessage({ data }));
    this.thread.on("error", problem => this.onerror(problem));
  }
  postMessage(data) { this.thread.postMessage(data); }
};
"""
OPEN = """
const data = given.data, blob = index => bytes(data.blobs[index]), [variant] = data.variants;
const { program, code, weights, stack, reserved, limits, recorded } = variant;
const join = placed => live.team.startTeam("", placed);
const options = { stack, reserved, limits, join };
const runner = await live.program.openProgram(program, blob(code), blob(weights), options);
const right = recorded.map(output => ({ ...output, bytes: blob(output.bytes) }));
"""
ANSWERS = f"""
{WORKERS}
{OPEN}
const wrong = [];
for (let k = 0; k < given.runs; k++) {{
  new Uint8Array(runner.memory.buffer, runner.layout.arena, program.arena).fill(255);
  data.inputs.forEach((index, n) => runner.write(n, blob(index)));
  runner.run();
  program.outputs.forEach((tensor, n) => {{
    const answer = live.answers.checkAnswer(tensor, runner.read(n), right[n]);
    if (answer.off) wrong.push(answer.sentence);
  }});
}}
say({{ wrong, units: program.launches.map(launch => launch.units?.length ?? 1) }});
process.exit();
"""


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", (*STRAIGHT, *CONTROL))
def test_threads_give_the_recorded_answers(in_node: Script, name: str, threads: int) -> None:
    model = explorer.load(f"zoo:{name}")
    here = explorer.compile(model)
    inputs = here.random_inputs()
    compiled = {name: explorer.compile(model, TARGET)}
    data = live_data(compiled, inputs, here.run(inputs), threads)
    found = in_node(ANSWERS, {"data": data, "runs": examples(200)})
    assert found["wrong"] == []
    if name in STRAIGHT:
        assert max(found["units"]) == threads


def test_recursion_runs_on_threads_and_its_fault_ends_them_all(in_node: Script) -> None:
    model = explorer.load("zoo:small_recursive_autoencoder")
    here = explorer.compile(model)
    inputs = here.random_inputs()
    inputs["left"], inputs["right"] = random_tree(11, 0, len(inputs["left"]))
    compiled = {"tree": explorer.compile(model, TARGET)}
    data = live_data(compiled, inputs, here.run(inputs), 2)
    assert in_node(ANSWERS, {"data": data, "runs": 5})["wrong"] == []
    endless = live_data(compiled, {**inputs, "left": np.zeros_like(inputs["left"])}, {
        name: array for name, array in here.run(inputs).items()
    }, 2)  # fmt: skip
    script = ANSWERS.replace(
        "runner.run();", "try { runner.run(); } catch (p) { say(p.sentence); process.exit(); }"
    )
    deep = "encode is called more than 2000 calls deep"
    assert in_node(script, {"data": endless, "runs": 1}) == deep


def test_a_kernel_that_traps_on_another_thread_is_one_sentence(in_node: Script) -> None:
    """The second unit alone is given a table of addresses beyond the memory."""
    here = explorer.compile("zoo:tiny_bert")
    inputs = here.random_inputs()
    compiled = {"bert": explorer.compile("zoo:tiny_bert", TARGET)}
    data = live_data(compiled, inputs, here.run(inputs), 2)
    script = f"""
{WORKERS}
{OPEN}
const words = program.args.length, each = 64 * (Math.ceil(8 * words / 64) + 1);
const table = new BigInt64Array(runner.memory.buffer, runner.layout.tables + each, words);
const kept = table.slice(), said = [];
table.fill(0xfffffff0n);
for (const again of [false, true]) {{
  if (again) table.set(kept);
  data.inputs.forEach((index, n) => runner.write(n, blob(index)));
  try {{ runner.run(); said.push("ran"); }} catch (problem) {{ said.push(problem.sentence); }}
}}
const answers = program.outputs.map((tensor, n) =>
  live.answers.checkAnswer(tensor, runner.read(n), right[n]));
say({{ said, wrong: answers.filter(answer => answer.off).length }});
process.exit();
"""
    found = in_node(script, {"data": data})
    assert found["wrong"] == 0 and found["said"][1] == "ran"
    assert found["said"][0].startswith(("A thread of this run stopped.", "Another thread of this"))
