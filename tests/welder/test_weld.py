"""Welding: fewer kernels, the same values, and a reason wherever two stay apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.frontends.load import load
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.random_inputs import random_inputs
from explorer.relax import deduce, legalize
from explorer.roller import Price
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.layout import ChooseLayout
from explorer.transforms.simplify.redundancy import remove_dead_code
from explorer.welder import Options, Weld
from tests.roller.test_policy import DEVICE

DATA = Path(__file__).parent.parent / "data"
MODELS = ["tiny_bert", "tiny_gpt2", "tiny_llama", "tiny_resnet18", "tiny_mobilenetv2", "tiny_vit"]


def legal(name: str) -> Program:
    program = legalize(deduce(load(DATA / f"{name}.onnx").program))
    return remove_dead_code(ChooseLayout()(fold_copies(remove_dead_code(program))))


def weld(program: Program, **options: object) -> Program:
    return Weld(DEVICE, Price(DEVICE), replace(Options(), **options))(program)  # type: ignore[arg-type]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", MODELS)
def test_welding_keeps_every_value_and_leaves_fewer_kernels(name: str) -> None:
    before = legal(name)
    after = weld(before)
    inputs = random_inputs(before)
    want, got = evaluate(before, inputs), evaluate(after, inputs)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, atol=2e-5 * max(1.0, np.abs(value).max()))
    assert len(after.kernel_calls) < 0.6 * len(before.kernel_calls)


def test_every_kernel_is_in_one_group_and_each_refusal_has_a_reason() -> None:
    before = legal("tiny_bert")
    graph = weld(before).decisions.tile_graph
    assert graph is not None
    members = [m for g in graph.groups for m in g.members]
    assert sorted(members) == sorted(b.var.name for b in before.kernel_calls)
    for g in graph.groups:
        assert all(s.refused or s.cost_us < 0 for s in g.steps)
        assert g.bytes_after <= g.bytes_before


def test_attention_is_one_kernel() -> None:
    graph = weld(legal("tiny_vit")).decisions.tile_graph
    assert graph is not None
    kinds = [[k for k in g.kinds if k != "elementwise"] for g in graph.groups]
    assert ["contraction", "reduction", "contraction"] in kinds


def test_switched_off_nothing_is_welded() -> None:
    before = legal("tiny_resnet18")
    after = weld(before, enabled=False)
    assert len(after.kernel_calls) == len(before.kernel_calls)
    graph = after.decisions.tile_graph
    assert graph is not None and all(len(g.members) == 1 for g in graph.groups)


def test_a_value_kept_apart_by_hand_is_stored() -> None:
    before = legal("tiny_resnet18")
    graph = weld(before).decisions.tile_graph
    assert graph is not None
    inner = next(g for g in graph.groups if len(g.members) > 1).members[0]
    after = weld(before, connect=((inner, "DRAM"),))
    assert inner in {b.var.name for b in after.kernel_calls}


def test_the_origin_of_every_operator_is_kept() -> None:
    before = legal("tiny_llama")
    after = weld(before)
    sources = frozenset[str]().union(*(b.origin for b in before.kernel_calls))
    assert sources == frozenset[str]().union(*(b.origin for b in after.kernel_calls))
