"""A recurrent model is given to the others with operators for its layers, too."""

from __future__ import annotations

from time import sleep
from types import SimpleNamespace

import pytest

from explorer.frontends import zoo
from explorer.passes.random_inputs import random_inputs
from explorer.tuning.compare import check_answers
from explorer.tuning.peers.model_forms import LAYERED, fastest_first, forms, seed_of
from explorer.tuning.peers.runtimes import prepare


def test_the_fastest_of_the_forms_that_were_tried_is_first() -> None:
    slow = SimpleNamespace(name="slow", run=lambda: sleep(0.02))
    quick = SimpleNamespace(name="quick", run=tuple)
    assert [f.name for f in fastest_first([slow, quick])] == ["quick", "slow"]


def test_a_recurrent_model_of_the_zoo_has_a_form_with_an_operator_for_each_layer() -> None:
    model = zoo.load("small_lstm", seed=4)
    (plain, same), (name, layered) = forms(model)
    assert (plain, name) == ("", LAYERED) and same is model
    assert seed_of(layered) == 4 and layered.inputs == model.inputs
    assert len(layered.program.main.body) < len(model.program.main.body)
    assert [n for n, _ in forms(zoo.load("small_vit"))] == [""]


@pytest.mark.parametrize("name", ["onnxruntime", "torch", "jax"])
def test_every_runtime_gives_the_same_answers_in_its_fastest_form(name: str) -> None:
    pytest.importorskip(name)
    model = zoo.load("small_seq2seq", seed=4)
    inputs = random_inputs(model.program, {})
    peer = prepare(name, model, inputs, 1)
    try:
        check_answers(zoo.reference("small_seq2seq", inputs, seed=4), peer.run(), name)
    finally:
        peer.close()
    assert peer.version


def test_more_calls_than_a_compiler_is_given_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from explorer.tuning.peers import torch_peer

    monkeypatch.setattr(torch_peer, "MOST_CALLS", 5)
    model = zoo.load("small_vit")
    with pytest.raises(torch_peer.UnsupportedOperator, match="compiler is given 5 at most"):
        torch_peer.compiled(model, random_inputs(model.program, {"batch": 1}))
