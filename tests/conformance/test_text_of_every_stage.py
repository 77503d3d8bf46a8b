"""What the Program pane shows of any step reads back to the program of that step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer.ir.text.program_text import parse_program, print_program
from explorer.ops.interpreter.verify import verify

DATA = Path(__file__).parent.parent / "data"


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["resnet18", "bert", "gpt2", "lstm", "skip", "while"])
def test_every_step_is_well_formed_and_its_text_reads_back(name: str) -> None:
    model = explorer.load(DATA / f"tiny_{name}.onnx")
    for step in explorer.compile(model, until=explorer.Stage.PLANNED).snapshots:
        verify(step.after)
        again = parse_program(print_program(step.after), step.after.constants)
        assert replace(again, decisions=step.after.decisions) == step.after, step.name
