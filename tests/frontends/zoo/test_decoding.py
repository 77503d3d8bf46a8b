"""A small language model says the words that NumPy and PyTorch say, without a return to Python."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.frontends.python.trace import Traced
from explorer.frontends.zoo.decoding import SMALL_LLAMA
from tests.frontends.zoo.flows_in_numpy import run

STEPS, PROMPT = 64, 5
FLOW = replace(SMALL_LLAMA, most=PROMPT + STEPS)
BATCHES = (1, 16)
WEIGHTS = {w.name: w.drawn(0) for w in FLOW.weights}


@cache
def compiled() -> explorer.Compilation:
    """One for every batch and prompt."""
    return explorer.compile(Traced(FLOW.function(WEIGHTS)).model(FLOW.inputs, None))


def feeds(batch: int, steps: int = STEPS) -> dict[str, Any]:
    return {
        "prompt": np.random.default_rng(batch).integers(0, FLOW.words, (batch, PROMPT)),
        "steps": np.int64(steps),
        "temperature": np.float32(0),
        "top_p": np.float32(1),
        "noise": np.zeros((FLOW.most, batch), np.float32),
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("batch", BATCHES)
def test_the_best_words_of_64_steps_are_those_of_numpy(batch: int) -> None:
    found, wanted = compiled().run(feeds(batch)), run(FLOW, feeds(batch))
    assert found["count"] == STEPS and len(np.unique(wanted["words"])) > STEPS // 4
    np.testing.assert_array_equal(found["words"], wanted["words"])


@pytest.mark.parametrize("batch", BATCHES)
def test_the_best_words_of_64_steps_are_those_of_pytorch(batch: int) -> None:
    pytest.importorskip("torch")
    from tests.benchmarks.control_flow_peers.torch_llama import Decoding

    given = feeds(batch)
    asked = {n: given[n] for n in ("prompt", "steps")}
    sizes = {"heads": np.array(FLOW.heads), "most": np.array(FLOW.most)}
    (wanted,) = Decoding(WEIGHTS, {**asked, **sizes}, masked=False)()
    np.testing.assert_array_equal(compiled().run(given)["words"][:, :STEPS], wanted)


@pytest.mark.parametrize("batch", BATCHES)
def test_more_words_make_no_kernel_no_array_and_no_read(batch: int) -> None:
    """What a run of 64 words did that a run of one did not."""
    compiled().run(feeds(batch))
    did = []
    for steps in (1, STEPS):
        with explorer.counters.delta() as counted:
            compiled().run(feeds(batch, steps))
        did.append(counted.counts)
    more = did[1] - did[0]
    assert did[1].runs == 1 and not did[1].kernel_compiles
    assert more == more - more  # nothing at all
