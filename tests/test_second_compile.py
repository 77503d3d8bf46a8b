"""What was compiled once is not compiled again: not in this process, not in the next one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer import cache
from tests.two_inputs import two_inputs

MODEL = Path(__file__).parent / "data" / "tiny_skip.onnx"


@pytest.mark.usefixtures("own_cache")
def test_the_second_compile_of_a_process_compiles_no_kernel(tmp_path: Path) -> None:
    own = tmp_path / "compiled_twice.onnx"  # no other test leaves its whole program in memory
    own.write_bytes(MODEL.read_bytes())
    first = explorer.compile(own)
    with explorer.counters.delta() as did:
        second = explorer.compile(own)
    assert did.kernel_compiles == 0
    assert did.pass_runs == 0 and did.pass_hits == len(second.snapshots) - 1
    assert [k.code.key for k in first.kernels] == [k.code.key for k in second.kernels]


def test_one_compilation_serves_every_binding_of_its_symbols(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(two_inputs().SerializeToString())
    c = explorer.compile(tmp_path / "model.onnx")
    with explorer.counters.delta() as did:
        for batch in (1, 2, 33):
            inputs = c.random_inputs({"batch": batch})
            expected = explorer.evaluate(c.model.program, inputs)["y"]
            np.testing.assert_allclose(c.run(inputs)["y"], expected, rtol=1e-5, atol=1e-6)
    assert did.kernel_compiles == 0 and did.runs == 3


def test_another_number_of_threads_compiles_no_kernel() -> None:
    inputs = explorer.compile(MODEL).random_inputs()
    with explorer.counters.delta() as did:
        answers = [explorer.compile(MODEL, options=threads(n)).run(inputs) for n in (1, 2)]
    assert did.kernel_compiles == 0
    for name, value in answers[0].items():
        np.testing.assert_array_equal(value, answers[1][name])


def threads(count: int) -> explorer.Options:
    """Options that differ in the number of workers alone."""
    from explorer.rammer import Options

    return explorer.Options(rammer=Options(threads=count))


@pytest.mark.exhaustive
@pytest.mark.usefixtures("own_cache")
def test_a_new_process_finds_every_kernel_in_the_cache() -> None:
    cold, warm = compiled_elsewhere(), compiled_elsewhere()
    assert cold["compiled_now"] == cold["total"] > 0
    assert warm == {**cold, "compiled_now": 0, "from_cache": cold["total"]}
    assert cache.verify().removed == 0


def compiled_elsewhere() -> dict[str, int]:
    """What another process says of its kernels."""
    command = [sys.executable, "-m", "explorer", "compile", str(MODEL), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    kernels: dict[str, int] = json.loads(done.stdout)["kernels"]
    return kernels
