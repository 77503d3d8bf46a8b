"""What other processors would be given: code follows the device, on any machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.compiler import compilation
from explorer.devices.cpus import CPUS, like, runs_on
from explorer.devices.isa import InstructionSet
from explorer.errors import BadOption
from explorer.measure.this_cpu import from_json, this_cpu
from explorer.passes.random_inputs import random_inputs
from tests.tile.programs import HERE

MODEL = Path(__file__).parent.parent / "data" / "tiny_mobilenetv2.onnx"
REGISTERS = {"cpu-sse": "xmm", "cpu-avx2": "ymm", "cpu-avx512": "zmm"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.exhaustive if n != "cpu-avx512" else ()) for n in CPUS],
)
def test_every_machine_prints_for_every_vector_width(name: str) -> None:
    compiled = explorer.compile(MODEL, name)
    assert compiled.stage.name == "EMITTED" and compiled.device.lanes == CPUS[name].lanes
    text = compiled.kernels[0].assembly
    assert REGISTERS[name] in text
    assert not any(wider in text for wider in [*REGISTERS.values()][[*CPUS].index(name) + 1 :])
    assert f"lanes={CPUS[name].lanes}" in "".join(k.source for k in compiled.kernels)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CPUS)
def test_what_can_run_here_runs_and_is_right(name: str) -> None:
    plain, other = explorer.compile(MODEL), explorer.compile(MODEL, name)
    inputs = random_inputs(plain.model.program, plain.hint)
    if not runs_on(other.device, HERE):
        with pytest.raises(BadOption, match=f"{name} has vectors or instructions"):
            other.run(inputs)
        return
    for key, want in plain.run(inputs).items():
        np.testing.assert_allclose(other.run(inputs)[key], want, rtol=1e-4, atol=1e-5)


def test_code_for_wider_vectors_can_be_read_where_it_cannot_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow = like(this_cpu(), "cpu-sse")
    monkeypatch.setattr(compilation, "this_cpu", lambda: narrow)
    compiled = explorer.compile(MODEL, "cpu-avx2")
    assert "ymm" in compiled.kernels[0].assembly
    inputs = random_inputs(compiled.model.program, compiled.hint)
    with pytest.raises(BadOption, match=r"cannot run here: cpu-avx2 .* its code can be read"):
        compiled.run(inputs)


def test_a_feature_that_is_missing_is_enough_not_to_run() -> None:
    assert runs_on(HERE, HERE)
    more = replace(HERE, isa=InstructionSet(HERE.isa.processor, ("+no-such-feature",)))
    assert not runs_on(more, HERE)
    assert not runs_on(replace(HERE, lanes=HERE.lanes * 2), HERE)
    assert not runs_on(replace(HERE, kind="gpu"), HERE)


def test_a_target_is_read_back_as_it_was_written() -> None:
    import json
    from dataclasses import asdict

    assert from_json(json.dumps(asdict(HERE))).isa == HERE.isa


def test_what_this_machine_can_run_is_asked_once_and_not_at_every_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = explorer.compile("tests/data/tiny_skip.onnx")
    given = compiled.random_inputs()
    first = compiled.run(given)

    def asked(*_: object) -> bool:
        raise AssertionError("asked again")

    monkeypatch.setattr(compilation, "runs_on", asked)
    for name, value in compiled.run(given).items():
        np.testing.assert_array_equal(value, first[name])
