"""Programs where others run them: random graphs, and ONNX's node tests, counted.

    python -m tests.portable.elsewhere wasm|c|aarch64|riscv64 [--graphs 300] [--seed 0] [--nodes]

`wasm` runs in Node by the live page's scripts, `c` is built here with sanitizers, the others are
built by zig and emulated. Answers are held against bounds of exact ones (`tests.fuzz.exact`) and
against onnxruntime's, or against those that a node test brings.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import explorer
from explorer.codegen.cpu.cross import cross_compile
from explorer.codegen.wasm import link_wasm
from explorer.compiler.compilation import Compilation
from explorer.errors import BoundError, IronworksError, UnsupportedOperator
from explorer.ops.interpreter.evaluate import bind_sizes
from explorer.portable.portable_program import PortableProgram
from explorer.portable.program import portable
from explorer.portable.write import export
from tests.conformance.onnx_nodes import agrees, cases, plain
from tests.fuzz.compare import compare
from tests.fuzz.exact import bounds
from tests.fuzz.judge import typed
from tests.fuzz.oracle import NoAnswer, Oracle
from tests.live.conftest import live_module
from tests.portable.c_build import ADDRESSES, EmulatorFault, built, run
from tests.portable.cases import emulated_target, one_thread
from tests.strategies.choices import Refused
from tests.strategies.onnx.graphs import case as graph_case

Arrays = Mapping[str, np.ndarray]
MACHINES = ("wasm", "c", "aarch64", "riscv64")
PART = 10  # graphs or node tests that a process takes at once
IN_NODE = """
import { createInterface } from "node:readline";
import * as live from "./live.mjs";
const bytes = text => Uint8Array.from(Buffer.from(text, "base64"));
const text = bytes => Buffer.from(bytes).toString("base64");
for await (const line of createInterface({ input: process.stdin })) {
  const { program, code, weights, stack, reserved, inputs } = JSON.parse(line);
  let said;
  try {
    const options = { stack, reserved };
    const runner = await live.program.openProgram(program, bytes(code), bytes(weights), options);
    new Uint8Array(runner.memory.buffer, runner.layout.arena, program.arena).fill(255);
    inputs.forEach((input, n) => runner.write(n, bytes(input)));
    runner.run();
    said = { outputs: program.outputs.map((_, n) => text(runner.read(n))) };
  } catch (problem) { said = { error: problem.sentence ?? problem.stack }; }
  process.stdout.write(JSON.stringify(said) + "\\n");
}
"""


class Refusal(Exception):
    """A program cannot run elsewhere: the sentence."""


class Node:
    """The live page's interpreter in Node."""

    def __init__(self, folder: Path) -> None:
        (folder / "live.mjs").write_text(live_module())
        (folder / "loop.mjs").write_text(IN_NODE)
        node = shutil.which("node")
        assert node is not None, "Node is not installed"
        self.process = subprocess.Popen(
            [node, str(folder / "loop.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, program: PortableProgram, inputs: Arrays) -> dict[str, np.ndarray]:
        """Return the outputs by name."""
        module = link_wasm([cross_compile(k.source, program.isa).code for k in program.kernels])
        given = {
            "program": program.to_dict(),
            "code": _text(module.code),
            "weights": _text(program.weights),
            "stack": module.data_at,
            "reserved": module.data_end,
            "inputs": [
                _text(np.ascontiguousarray(inputs[t.name]).tobytes()) for t in program.inputs
            ],
        }
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(given) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        assert "outputs" in said, said["error"]
        return {
            t.name: np.frombuffer(base64.b64decode(data), np.dtype(t.dtype)).reshape(t.shape)
            for t, data in zip(program.outputs, said["outputs"], strict=True)
        }

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Elsewhere:
    """A machine that runs programs; `target` is the data sheet of its kernels."""

    def __init__(self, machine: str, folder: Path) -> None:
        self.machine, self.folder = machine, folder
        self.node = Node(folder) if machine == "wasm" else None
        targets = {"wasm": "wasm-simd128", "c": "this-cpu"}
        self.target = targets.get(machine) or emulated_target(machine, folder)

    def compiled(self, model: onnx.ModelProto) -> Compilation:
        """Compile a model for the machine."""
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        return explorer.compile(explorer.load(path), self.target, options=one_thread())

    def outputs(self, c: Compilation, inputs: Arrays) -> dict[str, np.ndarray]:
        """Run a compilation; raises Refusal where it has no program for the machine."""
        sizes = bind_sizes(c.model.program, inputs)
        try:
            sizes = {name: sizes[name] for name in c.hint if name in sizes}
            if self.node is not None:
                return self.node(portable(c, sizes), inputs)
            folder = self.folder / "exported"
            shutil.rmtree(folder, ignore_errors=True)
            written = export(c, folder, sizes=sizes)
        except IronworksError as problem:
            raise Refusal(problem.sentence) from problem
        flags = ADDRESSES if self.machine == "c" else ()
        machine = "" if self.machine == "c" else self.machine
        return run(built(written, *flags, machine=machine), written, inputs, machine)

    def close(self) -> None:
        """End what was started."""
        if self.node is not None:
            self.node.close()


@dataclass
class Tally:
    """Counts of outcomes; `largest`: the greatest difference of a float output from
    onnxruntime's, as a share of its largest element.
    """

    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    largest: float = 0.0
    compared: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another part."""
        self.counts += other.counts
        self.refusals += other.refusals
        self.wrong += other.wrong
        self.largest = max(self.largest, other.largest)
        self.compared += other.compared

    def __str__(self) -> str:
        """Return the counts, the reasons and what is wrong."""
        lines = [", ".join(f"{n} {kind}" for kind, n in sorted(self.counts.items()))]
        lines += [f"  refused {n}: {why}" for why, n in self.refusals.most_common(12)]
        lines += [f"  WRONG {story}" for story in self.wrong]
        if self.compared:
            lines.append(
                f"  {self.compared} runs beside onnxruntime, largest difference "
                f"{self.largest:.2g} of the largest element"
            )
        return "\n".join(lines)


def graphs(machine: str, seeds: range) -> Tally:
    """Run random graphs."""
    tally = Tally()
    with _machine(machine) as there:
        for seed in seeds:
            try:
                drawn = graph_case(seed)
            except Refused:
                continue
            try:
                c = there.compiled(drawn.model)
            except IronworksError as problem:
                tally.counts["not compiled"] += 1
                tally.refusals[type(problem).__name__] += 1
                continue
            for feeds in drawn.feeds:
                _one_run(there, c, drawn.model, feeds, f"graph {seed}", tally)
    return tally


def _one_run(
    there: Elsewhere, c: Compilation, model: onnx.ModelProto, feeds: Arrays, at: str, tally: Tally
) -> None:
    try:
        with np.errstate(all="ignore"):
            right = bounds(typed(c.model).snapshot("infer shapes").after, feeds)
    except (BoundError, UnsupportedOperator):  # an extent of 0, or no form of the reference
        tally.counts["not judged"] += 1
        return
    try:
        found = there.outputs(c, feeds)
    except Refusal as problem:
        tally.counts["refused"] += 1
        tally.refusals[str(problem).partition(": ")[2] or str(problem)] += 1
        return
    except EmulatorFault as problem:
        tally.counts["emulator failed"] += 1
        tally.refusals[str(problem)] += 1
        return
    except Exception as problem:
        tally.counts["wrong"] += 1
        tally.wrong.append(f"{at}: {str(problem)[:300]}")
        return
    wrong = compare(found, right)
    tally.counts["wrong" if wrong else "right"] += 1
    if wrong:
        tally.wrong.append(f"{at}: {wrong}")
        return
    oracle = Oracle(model)
    try:
        answers = oracle(feeds)
    except NoAnswer:
        return
    if oracle.by == "onnxruntime" and not compare(answers, right):
        tally.compared += 1
        tally.largest = max(tally.largest, *(_share(found[n], answers[n]) for n in answers))


def _share(found: np.ndarray, answer: np.ndarray) -> float:
    """Return the largest difference as a share of the largest element; 0 of integers."""
    if found.dtype.name not in ("float16", "float32", "float64", "bfloat16") or not found.size:
        return 0.0
    a, b = found.astype(np.float64), np.asarray(answer).astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    gap = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)).max()
    return float(gap / max(np.abs(np.where(finite, b, 0)).max(), 1e-3))


def nodes(machine: str, part: range) -> Tally:
    """Run a part of ONNX's node tests that pass here."""
    tally = Tally()
    with _machine(machine) as there, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases()[part.start : part.stop]:
            _one_node(there, case, tally)
    return tally


def _one_node(there: Elsewhere, case: Any, tally: Tally) -> None:
    names = [i.name for i in case.model.graph.input]
    sets = [(dict(zip(names, map(plain, i))), list(map(plain, w))) for i, w in case.data_sets]
    try:
        path = there.folder / "here.onnx"
        onnx.save(case.model, path)
        here = explorer.compile(explorer.load(path))
        for inputs, wanted in sets:
            agrees(list(here.run(inputs).values()), wanted, case)
    except Exception:
        tally.counts["not passed here"] += 1
        return
    try:
        c = there.compiled(case.model)
        for inputs, wanted in sets:
            found = there.outputs(c, inputs)
            agrees([found[n] for n in here.model.outputs], wanted, case)
        tally.counts["right"] += 1
    except Refusal as problem:
        tally.counts["refused"] += 1
        tally.refusals[str(problem).partition(": ")[2] or str(problem)] += 1
    except EmulatorFault as problem:
        tally.counts["emulator failed"] += 1
        tally.refusals[str(problem)] += 1
    except Exception as problem:
        tally.counts["wrong"] += 1
        tally.wrong.append(f"{case.name}: {' '.join(str(problem).split())[:300]}")


@contextmanager
def _machine(machine: str) -> Iterator[Elsewhere]:
    """A machine with a folder of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Elsewhere(machine, Path(folder))) as there,
    ):
        yield there


def _parts(first: int, count: int) -> Iterator[range]:
    for begin in range(first, first + count, PART):
        yield range(begin, min(begin + PART, first + count))


def main() -> int:
    """Print the counts; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--graphs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", action="store_true", help="ONNX's node tests instead")
    given = parser.parse_args()
    work = partial(nodes if given.nodes else graphs, given.machine)
    count = len(cases()) if given.nodes else given.graphs
    tally = Tally()
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for found in pool.map(work, _parts(given.seed, count)):
            tally.add(found)
    print(f"{given.machine}: {tally}")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    raise SystemExit(main())
