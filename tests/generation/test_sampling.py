"""Draws of words against a plain reference, and against their frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.generation.sampling import Sampling


def reference(scores: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Probabilities of one row, word by word from the likeliest."""
    p = np.exp(scores.astype(np.float64) / temperature)
    order = sorted(range(len(p)), key=lambda n: (-p[n], n))
    if top_k and top_k < len(p):
        order = [n for n in order if p[n] >= p[order[top_k - 1]]]
    kept, total, every = [], 0.0, sum(p[n] for n in order)
    for n in order:
        if top_p < 1 and total / every >= top_p:
            break
        kept.append(n)
        total += p[n]
    shares = np.zeros(len(p))
    for n in kept:
        shares[n] = p[n] / total
    return shares


@pytest.mark.parametrize("top_k", [0, 1, 3, 40, 1000])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-9])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 5.0])
def test_shares_are_the_references(top_k: int, top_p: float, temperature: float) -> None:
    scores = np.random.default_rng(0).normal(0, 2, (5, 41)).astype(np.float32)
    scores[1] = 0  # all are as likely
    scores[2, 7] = scores[2, 9] = 9  # two best
    sampling = Sampling(temperature, top_k, top_p)
    for row, shares in zip(scores, sampling.shares(scores), strict=True):
        expected = reference(row, temperature, top_k, top_p)
        if top_p == 1 or len(set(row.tolist())) == len(row):
            np.testing.assert_allclose(shares, expected, rtol=1e-9)
        else:  # sums of equal shares may round to either word
            assert abs((shares > 0).sum() - (expected > 0).sum()) <= 1


def test_shares_match_those_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    scores = np.random.default_rng(1).normal(0, 3, (8, 200)).astype(np.float32)
    chain: Any = transformers.LogitsProcessorList(
        [
            transformers.TemperatureLogitsWarper(0.7),
            transformers.TopKLogitsWarper(50),
            transformers.TopPLogitsWarper(0.8),
        ]
    )
    expected = torch.softmax(chain(None, torch.tensor(scores)), 1).numpy()
    np.testing.assert_allclose(Sampling(0.7, 50, 0.8).shares(scores), expected, atol=1e-6)


def test_words_are_drawn_as_often_as_they_are_likely() -> None:
    scores = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
    random, sampling = np.random.default_rng(2), Sampling(1.0)
    drawn = [int(sampling.draw(scores, random)[0]) for _ in range(20_000)]
    counts = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(counts, [0.5, 0.3, 0.15, 0.05], atol=0.015)


def test_greedy_takes_the_best_and_the_first_of_equal_ones() -> None:
    scores = np.array([[1, 5, 5, 2], [np.nan, 0, 1, 2]], np.float32)
    assert Sampling().draw(scores[:1], np.random.default_rng(0)).tolist() == [1]


def test_a_word_that_is_cut_is_never_drawn() -> None:
    scores = np.zeros((1, 10), np.float32)
    scores[0, 3], scores[0, 4] = 50, 49
    random = np.random.default_rng(3)
    words = {int(Sampling(1.0, top_k=2).draw(scores, random)[0]) for _ in range(500)}
    assert words == {3, 4}


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_k": 1.5},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": float("nan")},
        {"seed": -1},
    ],
)
def test_values_out_of_range_are_named(values: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=next(iter(values))):
        Sampling(**values)
