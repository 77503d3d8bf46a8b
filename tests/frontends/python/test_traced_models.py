"""Whole models written in Python: one compilation serves every size, and calls no library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as xp
from explorer.errors import ShapeError

tensor = explorer.tensor
WIDTH, HEADS, WORDS, LAYERS = 16, 2, 30, 2


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"words": (WORDS, WIDTH), "places": (32, WIDTH)}
    for i in range(LAYERS):
        shapes |= {f"qkv{i}": (WIDTH, 3 * WIDTH), f"out{i}": (WIDTH, WIDTH)}
        shapes |= {f"up{i}": (WIDTH, 4 * WIDTH), f"down{i}": (4 * WIDTH, WIDTH)}
    return {n: (rng.standard_normal(s) * 0.3).astype(np.float32) for n, s in shapes.items()}


W = weights()
ONES = np.ones(WIDTH, np.float32)


def attention(x: Any, i: int) -> Any:
    batch, seq, _ = x.shape
    parts = xp.split(x @ W[f"qkv{i}"], 3, axis=-1)
    q, k, v = (p.reshape(batch, seq, HEADS, -1).transpose(0, 2, 1, 3) for p in parts)
    scores = xp.einsum("bhqd,bhkd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
    mask = xp.tri(seq, seq, dtype=bool)
    mixed = xp.softmax(xp.where(mask, scores, -xp.inf)) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(batch, seq, WIDTH) @ W[f"out{i}"]


@explorer.trace
def transformer(ids: tensor("int64", "batch", "seq")) -> Any:
    """A decoder of two layers; positions are a table, so that seq is at most 32."""
    seq = ids.shape[1]
    x = xp.take(W["words"], ids, axis=0) + xp.asarray(W["places"])[:seq]
    for i in range(LAYERS):
        x = x + attention(xp.layer_norm(x, ONES), i)
        x = x + xp.gelu(xp.layer_norm(x, ONES) @ W[f"up{i}"]) @ W[f"down{i}"]
    return xp.log_softmax(x @ W["words"].T)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_transformer_serves_every_batch_and_length() -> None:
    compiled = explorer.compile(transformer)
    assert not compiled.snapshots[-1].after.library_calls
    kernels = explorer.counters.kernel_compiles
    for batch, seq in ((1, 1), (3, 7), (2, 32)):
        ids = np.random.default_rng(0).integers(0, WORDS, (batch, seq))
        found = compiled.run({"ids": ids})["output"]
        np.testing.assert_allclose(found, transformer(ids), rtol=1e-4, atol=1e-4)
    assert explorer.counters.kernel_compiles == kernels


def test_a_table_cut_to_the_length_bounds_it() -> None:
    assert explorer.load(transformer).program.env.of("seq").high == 32
    wide = explorer.load(transformer, bounds={"seq": (2, 64)}).program.env.of("seq")
    assert (wide.low, wide.high) == (2, 32)
    with pytest.raises(ShapeError, match=r"models\.py:\d+ add: extents seq \(33 .. 64\)"):
        explorer.load(transformer, bounds={"seq": (33, 64)})


@explorer.trace
def decode(start: tensor("int64", "batch"), steps: tensor("int64")) -> Any:
    """Greedy decoding with a recurrent model: a loop whose trip is data, over a state."""
    table = xp.asarray(W["words"])

    def step(i: Any, ids: Any, state: Any, best: Any) -> Any:
        state = xp.tanh(xp.take(table, ids, axis=0) + state @ W["out0"])
        scores = state @ W["words"].T
        ids = scores.argmax(-1)
        return i + 1, ids, state, best + scores.max(-1)

    batch = start.shape[0]
    zeros = xp.zeros((batch, WIDTH), "float32"), xp.zeros(batch, "float32")
    return explorer.while_loop(lambda i, *_: i < steps, step, 0, start, *zeros)[1:]


def test_decoding_as_long_as_the_data_says() -> None:
    compiled = explorer.compile(decode)
    for batch, steps in ((1, 0), (3, 1), (2, 9)):
        inputs = {"start": np.arange(batch), "steps": np.array(steps)}
        found = compiled.run(inputs)
        for name, wanted in zip(found, decode(**inputs), strict=True):
            np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4)
