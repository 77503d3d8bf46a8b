"""Models that learn: digits, a text, an adding problem, small transformers, weights of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import explorer
import explorer.np as enp
from explorer.training import SGD, Adam, AdamW, Cosine, cross_entropy, squared_error, trainable

Arrays = dict[str, np.ndarray]
Batches = Callable[[int], Iterator[tuple[np.ndarray, ...]]]


def drawn(draw: np.random.Generator, **shapes: tuple[int, ...]) -> Arrays:
    """Weights by name, the smaller the more are summed over."""
    return {
        n: (draw.standard_normal(s) / np.sqrt(np.prod(s[:-1]))).astype(np.float32)
        for n, s in shapes.items()
    }


def zeros(**shapes: int) -> Arrays:
    return {n: np.zeros(s, np.float32) for n, s in shapes.items()}


def batches(size: int, *arrays: np.ndarray) -> Batches:
    """All rows once an epoch, in an order of its own."""

    def of(epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        order = np.random.default_rng(epoch).permutation(len(arrays[0]))
        for first in range(0, len(order) - size + 1, size):
            rows = order[first : first + size]
            yield tuple(a[rows] for a in arrays)

    return of


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 images of 8 x 8 written by hand, and what they show."""
    data = pytest.importorskip("sklearn.datasets").load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return (data.images[order] / 16).astype(np.float32), data.target[order].astype(np.int64)


def right(scores: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def share(p: Any, x: Any, y: Any) -> Any:
        return (scores(p, x).argmax(-1) == y).astype("float32").mean()

    return share


def test_a_perceptron_reads_digits() -> None:
    images, labels = digits()
    draw = np.random.default_rng(1)
    params = drawn(draw, w0=(64, 128), w1=(128, 10)) | zeros(b0=128, b1=10)

    def scores(p: Any, x: Any) -> Any:
        hidden = enp.relu(x.reshape(-1, 64) @ p["w0"] + p["b0"])
        return hidden @ p["w1"] + p["b1"]

    found = explorer.fit(
        lambda p, x, y: cross_entropy(scores(p, x), y),
        params,
        batches(64, images[:1400], labels[:1400]),
        Adam(3e-3),
        epochs=30,
        validate=[(images[1400:], labels[1400:])],
        metrics={"right": right(scores)},
    )
    assert found.epochs[-1].validated["right"] >= 0.97, found.epochs[-1]


@pytest.mark.exhaustive
def test_a_convolutional_network_reads_digits() -> None:
    images, labels = digits()
    draw = np.random.default_rng(2)
    params = drawn(draw, w2=(512, 10)) | zeros(b2=10)
    for name, shape in {"w0": (16, 1, 3, 3), "w1": (32, 16, 3, 3)}.items():
        scale = np.sqrt(2 / np.prod(shape[1:]))
        params[name] = (draw.standard_normal(shape) * scale).astype(np.float32)

    def scores(p: Any, x: Any) -> Any:
        x = enp.relu(enp.conv(x[:, None], p["w0"], padding=1))
        x = enp.relu(enp.conv(x, p["w1"], strides=2, padding=1))
        return x.reshape(x.shape[0], -1) @ p["w2"] + p["b2"]

    found = explorer.fit(
        lambda p, x, y: cross_entropy(scores(p, x), y),
        params,
        batches(64, images[:1400], labels[:1400]),
        AdamW(3e-3),
        epochs=12,
        schedule=Cosine(12 * 21),
        validate=[(images[1400:], labels[1400:])],
        metrics={"right": right(scores)},
    )
    assert found.epochs[-1].validated["right"] >= 0.97, found.epochs[-1]


def attention(x: Any, qkv: Any, out: Any, heads: int, mask: np.ndarray | None) -> Any:
    """Every place looks at all, or at those before it."""
    size, length, width = x.shape
    q, k, v = (
        enp.transpose(part.reshape(size, length, heads, -1), (0, 2, 1, 3))
        for part in enp.split(x @ qkv, 3, axis=2)
    )
    scores = q @ enp.swapaxes(k, -1, -2) / np.float32(np.sqrt(width // heads))
    a = enp.softmax(scores if mask is None else scores + mask, axis=-1) @ v
    return enp.transpose(a, (0, 2, 1, 3)).reshape(size, length, width) @ out


def layers(p: Any, h: Any, count: int, heads: int, mask: np.ndarray | None) -> Any:
    for n in range(count):
        h = h + attention(enp.rms_norm(h, p[f"s{n}"]), p[f"qkv{n}"], p[f"out{n}"], heads, mask)
        h = h + enp.gelu(enp.rms_norm(h, p[f"t{n}"]) @ p[f"up{n}"]) @ p[f"down{n}"]
    return h


def transformer(draw: np.random.Generator, count: int, width: int) -> Arrays:
    found: Arrays = {}
    for n in range(count):
        found |= drawn(
            draw,
            **{
                f"qkv{n}": (width, 3 * width),
                f"out{n}": (width, width),
                f"up{n}": (width, 4 * width),
                f"down{n}": (4 * width, width),
            },
        )
        found |= {f"s{n}": np.ones(width, np.float32), f"t{n}": np.ones(width, np.float32)}
    return found


@pytest.mark.exhaustive
def test_a_language_model_learns_a_text() -> None:
    """Two layers; words that follow from the two before them."""
    draw = np.random.default_rng(3)
    rule, text = draw.integers(0, 16, (16, 16)), [1, 2]
    while len(text) < 4000:
        text.append(
            int(rule[text[-2], text[-1]]) if draw.random() > 0.02 else int(draw.integers(16))
        )
    length, words = 16, np.array(text)
    rows = np.stack([words[n : n + length + 1] for n in range(len(words) - length)])
    mask = np.where(np.tri(length, dtype=bool), 0, -1e9).astype(np.float32)
    params = drawn(draw, words=(16, 32), places=(length, 32)) | transformer(draw, 2, 32)

    def loss(p: Any, x: Any) -> Any:
        h = p["words"][x[:, :-1]] + p["places"]
        h = layers(p, h, 2, 4, mask)
        return cross_entropy(h @ p["words"].T, x[:, 1:])

    found = explorer.fit(loss, params, batches(64, rows), AdamW(5e-3), epochs=3, clip_norm=1.0)
    assert found.losses[0] > 2.5
    assert np.mean(found.losses[-10:]) < 0.6, np.mean(found.losses[-10:])


@pytest.mark.exhaustive
def test_a_recurrent_network_adds_two_numbers_of_a_sequence() -> None:
    """Hochreiter and Schmidhuber 1997, section 5.4: which two, a second input says."""
    draw, length, width = np.random.default_rng(4), 20, 32
    values = draw.uniform(0, 1, (2048, length)).astype(np.float32)
    marks = np.zeros_like(values)
    for row in marks:
        row[draw.choice(length, 2, replace=False)] = 1
    inputs, sums = np.stack([values, marks], -1), (values * marks).sum(1)
    params = drawn(draw, w=(2, 4 * width), u=(width, 4 * width), v=(width, 1)) | zeros(b=4 * width)
    params["b"][width : 2 * width] = 1  # what is remembered stays at first

    def loss(p: Any, x: Any, y: Any) -> Any:
        def cell(state: Any, row: Any) -> Any:
            h, c = state
            i, f, g, o = enp.split(row + h @ p["u"] + p["b"], 4, axis=1)
            c = enp.sigmoid(f) * c + enp.sigmoid(i) * enp.tanh(g)
            return (enp.sigmoid(o) * enp.tanh(c), c), None

        zero = enp.zeros((x.shape[0], width), "float32")
        (h, _), _ = explorer.scan(cell, (zero, zero), enp.transpose(x, (1, 0, 2)) @ p["w"])
        return squared_error((h @ p["v"])[:, 0], y)

    found = explorer.fit(
        loss, params, batches(64, inputs, sums), Adam(1e-2), epochs=40, clip_norm=1.0
    )
    assert np.mean(found.losses[-20:]) < 0.02, np.mean(found.losses[-20:])  # a guess of 1: 0.167


@pytest.mark.exhaustive  # the layers of the language model, the data of the other networks
def test_a_vision_transformer_reads_digits() -> None:
    images, labels = digits()
    draw, width = np.random.default_rng(5), 32
    patches = images.reshape(-1, 4, 2, 4, 2).transpose(0, 1, 3, 2, 4).reshape(-1, 16, 4)
    params = drawn(draw, embed=(4, width), head=(width, 10)) | transformer(draw, 2, width)
    params["places"] = (draw.standard_normal((16, width)) * 0.1).astype(np.float32)

    def scores(p: Any, x: Any) -> Any:
        h = layers(p, x @ p["embed"] + p["places"], 2, 4, None)
        return h.mean(axis=1) @ p["head"]

    found = explorer.fit(
        lambda p, x, y: cross_entropy(scores(p, x), y),
        params,
        batches(50, patches[:1400], labels[:1400]),
        AdamW(3e-3),
        epochs=20,
        schedule=Cosine(20 * 28),
        clip_norm=1.0,
        validate=[(patches[1400:], labels[1400:])],
        metrics={"right": right(scores)},
    )
    assert found.epochs[-1].validated["right"] >= 0.9, found.epochs[-1]  # 0.93 to 0.96 by the draw


BERT = Path("tests/data/tiny_bert.onnx")


@pytest.mark.exhaustive
def test_weights_of_a_file_are_trained_and_written_back(tmp_path: Path) -> None:
    """A head on what BERT gives, and BERT itself, learn which of two words comes first."""
    bert = trainable(BERT)
    draw = np.random.default_rng(6)
    words = draw.integers(0, 50, (256, 12))
    labels = (words[:, 1] > words[:, 2]).astype(np.int64)
    params = {"bert": bert.params, "head": np.zeros((64, 2), np.float32)}

    def loss(p: Any, x: Any, y: Any) -> Any:
        return cross_entropy(bert(p["bert"], x)[:, 1] @ p["head"], y)

    found = explorer.fit(loss, params, batches(32, words, labels), Adam(1e-3), epochs=12)
    assert np.mean(found.losses[-8:]) < 0.4 < found.losses[0], np.mean(found.losses[-8:])
    path = tmp_path / "tuned.onnx"
    bert.save(path, found.params["bert"])
    onnx.checker.check_model(onnx.load(path))
    tuned = explorer.compile(str(path)).run(words[:4])
    own = explorer.compile(bert.with_params(found.params["bert"])).run(words[:4])
    eager = bert(found.params["bert"], words[:4])
    for a, b in zip(tuned.values(), own.values(), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, eager, rtol=1e-4, atol=1e-5)
    before = explorer.compile(BERT).run(words[:4])
    assert np.abs(next(iter(before.values())) - next(iter(tuned.values()))).max() > 1e-2


def test_plain_descent_of_a_bowl_is_what_one_computes_by_hand() -> None:
    found = explorer.fit(
        lambda p, x: ((p - x) ** 2).sum(), np.zeros(3, np.float32), [np.ones(3, np.float32)] * 5,
        SGD(0.25),
    )  # fmt: skip
    np.testing.assert_allclose(found.params, 1 - 0.5**5, rtol=1e-6)
