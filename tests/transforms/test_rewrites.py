"""Each rewrite as text, before and after; and every pass on every small model, values compared at
every step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import helper

from explorer.cache import Memory
from explorer.frontends.load import load
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import print_program
from explorer.passes.snapshots import Step, run_steps
from explorer.relax import deduce, legalize
from explorer.transforms.copies.concat_in_place import write_concats_in_place
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.layout import ChooseLayout
from explorer.transforms.simplify.fold_batch_norm import fold_batch_norm
from explorer.transforms.simplify.fold_constants import fold_constants
from explorer.transforms.simplify.redundancy import remove_dead_code, share_common_subexpressions
from tests.transforms.programs import legalized, weights
from tests.transforms.test_classic import norm
from tests.transforms.test_copies import attention
from tests.transforms.test_layout import block

Snapshot = Callable[[str, str], None]
DATA = Path(__file__).parent.parent / "data"
MODELS = sorted(p.stem for p in DATA.glob("tiny_*.onnx"))
STEPS = (
    Step("deduce", Stage.TYPED, deduce),
    Step("constants", Stage.TYPED, fold_constants),
    Step("legalize", Stage.LEGALIZED, legalize),
    Step("dead code", Stage.LEGALIZED, remove_dead_code),
    Step("subexpressions", Stage.LEGALIZED, share_common_subexpressions),
    Step("batch norm", Stage.LEGALIZED, fold_batch_norm),
    Step("copies", Stage.LEGALIZED, fold_copies),
    Step("layout", Stage.LEGALIZED, ChooseLayout()),
    Step("concat", Stage.LEGALIZED, write_concats_in_place),
    Step("clean up", Stage.LEGALIZED, remove_dead_code),
)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", MODELS)
def test_every_pass_keeps_every_value_of_small_models(name: str) -> None:
    program = load(str(DATA / f"{name}.onnx")).program
    _, snapshots = run_steps(program, STEPS, check=True, memo=Memory())
    assert {s.name: s.checked for s in snapshots} == dict.fromkeys((s.name for s in STEPS), True)


@pytest.mark.parametrize("name", MODELS)
def test_no_source_operator_disappears_without_a_reason(name: str) -> None:
    program = load(str(DATA / f"{name}.onnx")).program
    after, _ = run_steps(program, STEPS, memo=Memory())
    kept = {o for _, b in after.bindings() for o in b.origin}
    dropped = dict(after.dropped)
    for source in after.sources:
        assert source.name in kept or dropped[source.name]


def body(program: Program) -> str:
    """The bindings of the main function."""
    text = print_program(program)
    return text[text.index("def main") : text.index("\nconstant")]


def both(run: Callable[[Program], Program], program: Program) -> str:
    return f"{body(program)}\n\n-- after --\n\n{body(run(program))}"


def test_copies_as_text(tmp_path: Path, snapshot: Snapshot) -> None:
    snapshot("transforms/copies.txt", both(fold_copies, attention(tmp_path, ("batch", "seq", 32))))


def test_layout_as_text(tmp_path: Path, snapshot: Snapshot) -> None:
    snapshot("transforms/layout.txt", both(ChooseLayout(), block(tmp_path)))


def test_batch_norm_as_text(tmp_path: Path, snapshot: Snapshot) -> None:
    constants = {"w": weights(6, 3, 3, 3)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        norm("a", "n", 6, constants),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    program = legalized(tmp_path, nodes, {"x": ("n", 3, 8, 8)}, ["y"], constants)
    snapshot("transforms/batch_norm.txt", both(fold_batch_norm, program))
