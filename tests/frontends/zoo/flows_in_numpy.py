"""The models with control flow once more, in float64: plain loops over weights by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.frontends.zoo.decoding import Attention, BeamSearch, Decoder, Llama
from explorer.frontends.zoo.gated import BlockDrop, Experts, SkipNet
from explorer.frontends.zoo.loops import LoopedLstm, NasRnn, RecursiveAutoencoder

Array = np.ndarray
Arrays = Mapping[str, Array]


def run(flow: Any, inputs: Arrays, seed: int = 0) -> dict[str, Array]:
    """What a model gives for inputs."""
    w = {v.name: v.drawn(seed).astype(np.float64) for v in flow.weights}
    wide = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in inputs.items()}
    found = {
        NasRnn: nasrnn,
        LoopedLstm: looped_lstm,
        Attention: attention,
        Decoder: decoder,
        BeamSearch: beam_search,
        BlockDrop: blockdrop,
        SkipNet: skipnet,
        RecursiveAutoencoder: recursive_autoencoder,
        Experts: experts,
        Llama: llama,
    }[type(flow)](flow, w, **wide)
    return {n: np.asarray(v) for n, v in found.items()}


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def relu(x: Array) -> Array:
    return np.where(x > 0, x, 0)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def nasrnn(flow: NasRnn, w: Arrays, x: Array) -> dict[str, Any]:
    m = c = np.zeros((x.shape[1], flow.width))
    for row in x:
        i = (row @ w["input"]).reshape(len(m), 8, flow.width)
        h = (m @ w["state"]).reshape(len(m), 8, flow.width)
        kinds = (sigmoid, relu, sigmoid, relu, np.tanh, sigmoid, np.tanh, sigmoid)
        gates = [
            kind(i[:, n] * h[:, n] if n == 3 else i[:, n] + h[:, n]) for n, kind in enumerate(kinds)
        ]
        pairs = [
            np.tanh(gates[0] * gates[1]),
            np.tanh(gates[2] + gates[3]),
            np.tanh(gates[4] * gates[5]),
            sigmoid(gates[6] + gates[7]),
        ]
        c = np.tanh(pairs[0] + c) * pairs[1]
        m = np.tanh(c * np.tanh(pairs[2] + pairs[3]))
    return {"state": m, "cell": c}


def lstm(w: Arrays, name: str, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    gates = x @ w[f"{name}.input"] + h @ w[f"{name}.state"] + w[f"{name}.bias"]
    i, f, g, o = np.moveaxis(gates.reshape(len(x), 4, -1), 1, 0)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def looped_lstm(flow: LoopedLstm, w: Arrays, x: Array) -> dict[str, Any]:
    """Layer after layer, where the model goes step after step."""
    for n in range(flow.layers):
        h = c = np.zeros((x.shape[1], flow.width))
        answers = []
        for row in x:
            h, c = lstm(w, f"layers.{n}", row, h, c)
            answers.append(h)
        x = np.array(answers)
    return {"answers": x, "state": h, "cell": c}


def attention(flow: Attention, w: Arrays, x: Array, keys: Array, values: Array) -> dict[str, Any]:
    """With caches that grow."""
    answers = []
    for _ in range(flow.steps):
        keys = np.concatenate([keys, x @ w["key"]], axis=2)
        values = np.concatenate([values, x @ w["value"]], axis=2)
        scores = np.einsum("bhqd,bhkd->bhqk", x @ w["query"], keys)
        x = softmax(scores / np.sqrt(flow.width)) @ values
        answers.append(x)
    return {"answers": np.array(answers), "keys": keys, "values": values}


def scored(w: Arrays, word: Array, h: Array, c: Array, ending: Any) -> tuple[Array, Array, Array]:
    h, c = lstm(w, "cell", w["embedding"][word], h, c)
    scores = h @ w["scores.weight"] + w["scores.bias"]
    scores[:, 0] += ending
    return h, c, scores


def decoder(flow: Decoder, w: Arrays, h: Array, c: Array, ending: Array) -> dict[str, Any]:
    said = np.zeros((flow.most, len(h)), np.int64)
    word, ended = np.ones(len(h), np.int64), np.zeros(len(h), bool)
    for at in range(flow.most):
        if ended.all():
            return {"words": said, "steps": at, "state": h}
        h, c, scores = scored(w, word, h, c, ending[at])
        word = scores.argmax(1)
        word[ended] = 0
        ended |= word == 0
        said[at] = word
    return {"words": said, "steps": flow.most, "state": h}


def beam_search(flow: BeamSearch, w: Arrays, h: Array, c: Array, ending: Array) -> dict[str, Any]:
    """Beams hold their whole sentence; all sentences share their steps."""
    most, beams = flow.decoder.most, flow.beams
    found = [[(0.0, (), h[n], c[n])] for n in range(len(h))]
    steps = 0
    while steps < most and any(not s or s[-1] for b in found for _, s, _, _ in b):
        found = [_grown(w, b, beams, ending[steps]) for b in found]
        steps += 1
    words = np.zeros((most, len(h)), np.int64)
    for n, beam in enumerate(found):
        words[:steps, n] = beam[0][1]
    return {"words": words, "score": [beam[0][0] for beam in found], "steps": steps}


def _grown(w: Arrays, beam: list[Any], beams: int, ending: Any) -> list[Any]:
    more = []
    for total, said, h, c in beam:
        if said and said[-1] == 0:
            more.append((total, (*said, 0), h, c))
            continue
        last = np.array([said[-1] if said else 1])
        h, c, scores = scored(w, last, h[None], c[None], ending)
        apart = scores[0] - scores.max()
        likely = apart - np.log(np.exp(apart).sum())
        more += [(total + likely[n], (*said, n), h[0], c[0]) for n in range(likely.size)]
    return sorted(more, key=lambda row: -row[0])[:beams]


def conv(w: Arrays, name: str, x: Array, stride: int = 1) -> Array:
    weight = w[f"{name}.weight"]
    pad = weight.shape[-1] // 2
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    found = np.einsum("bchwij,ocij->bohw", windows[:, :, ::stride, ::stride], weight)
    return found + w[f"{name}.bias"][:, None, None]


def blockdrop(flow: BlockDrop, w: Arrays, image: Array) -> dict[str, Any]:
    def net(name: str, x: Array, wanted: Array) -> tuple[Array, int]:
        x, run = relu(conv(w, f"{name}.stem", x)), 0
        each = wanted.shape[1] // len(flow.stages)
        for at in range(wanted.shape[1]):
            n, m = divmod(at, each)
            here = f"{name}.{n}.{m}"
            stride, kept = 1, x
            if n and not m:
                stride = 2
                kept = (x[:, :, ::2] + x[:, :, 1::2]) / 2
                kept = (kept[..., ::2] + kept[..., 1::2]) / 2
                kept = np.pad(kept, ((0, 0), (0, kept.shape[1]), (0, 0), (0, 0)))
            y = conv(w, f"{here}.second", relu(conv(w, f"{here}.first", x, stride)))
            x = np.where(wanted[:, at, None, None, None], relu(y + kept), kept)
            run += int(wanted[:, at].any())
        return x.mean((2, 3)), run

    seen, _ = net("policy", image, np.ones((len(image), len(flow.stages)), bool))
    wanted = seen @ w["policy.head.weight"] + w["policy.head.bias"] > 0
    pooled, run = net("net", image, wanted)
    scores = pooled @ w["head.weight"] + w["head.bias"]
    return {"scores": scores, "wanted": wanted, "run": run}


def skipnet(flow: SkipNet, w: Arrays, image: Array) -> dict[str, Any]:
    x = relu(conv(w, "stem", image, 2))
    x = np.maximum(np.maximum(x[:, :, ::2, ::2], x[:, :, 1::2, ::2]), x[:, :, ::2, 1::2]).clip(
        x[:, :, 1::2, 1::2]
    )
    h = c = np.zeros((1, flow.memory))
    runs, run = True, 0
    for n, count in enumerate(flow.blocks):
        for m in range(count):
            name, stride = f"stages.{n}.{m}", 2 if n and not m else 1
            kept = x if m else conv(w, f"{name}.shortcut", x, stride)
            if runs:
                y = relu(conv(w, f"{name}.reduce", x))
                y = relu(conv(w, f"{name}.middle", y, stride))
                kept = relu(conv(w, f"{name}.expand", y) + kept)
                run += 1
            x = kept
            seen = x.mean((2, 3)) @ w[f"{name}.gate.weight"] + w[f"{name}.gate.bias"]
            h, c = lstm(w, "memory", seen, h, c)
            runs = bool((h @ w["decide.weight"] + w["decide.bias"]).item() > 0)
    return {"scores": x.mean((2, 3)) @ w["head.weight"] + w["head.bias"], "run": run}


def experts(flow: Experts, w: Arrays, x: Array) -> dict[str, Any]:
    """All tokens of an expert at once."""
    likely = softmax(x @ w["router"])
    which, y = likely.argmax(1), x.copy()
    for n in range(flow.count):
        name, rows = f"experts.{n}", which == n
        inner = relu(x[rows] @ w[f"{name}.in.weight"] + w[f"{name}.in.bias"])
        answer = inner @ w[f"{name}.out.weight"] + w[f"{name}.out.bias"]
        y[rows] += answer * likely[rows, n, None]
    return {"y": y, "expert": which}


def llama(
    flow: Llama, w: Arrays, prompt: Array, steps: Any, temperature: Any, top_p: Any, noise: Array
) -> dict[str, Any]:
    """Without a cache: each word is read off a run over all words before it."""
    batch, n = prompt.shape
    said = np.zeros((batch, flow.most), int)
    count = min(int(steps), flow.most - n)
    text = prompt
    for i in range(count):
        scores = llama_scores(flow, w, text)
        if temperature > 0:
            word = np.array(
                [likely(s, top_p, u) for s, u in zip(scores / temperature, noise[i], strict=True)]
            )
        else:
            word = scores.argmax(1)
        said[:, i] = word
        text = np.concatenate([text, word[:, None]], axis=1)
    return {"words": said, "count": count}


def likely(scores: Array, top_p: float, u: float) -> int:
    p = softmax(scores)
    order = np.argsort(-p, kind="stable")
    last = int(np.searchsorted(np.cumsum(p[order]), top_p))
    kept = np.sort(order[: last + 1])
    so_far = np.cumsum(p[kept])
    return int(kept[np.argmax(so_far > u * so_far[-1])])


def llama_scores(flow: Llama, w: Arrays, text: Array) -> Array:
    def norm(x: Array, name: str) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name]

    def turned(x: Array) -> Array:
        half = flow.each // 2
        angles = np.arange(x.shape[1])[:, None] / 10000.0 ** (np.arange(half) / half)
        z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None]
        return np.concatenate([z.real, z.imag], axis=-1)

    batch, n = text.shape
    x = w["embedding"][text]
    for m in range(flow.layers):
        h = norm(x, f"{m}.attention.norm")
        q = turned((h @ w[f"{m}.query"]).reshape(batch, n, flow.heads, flow.each))
        k = turned((h @ w[f"{m}.key"]).reshape(batch, n, flow.groups, flow.each))
        v = (h @ w[f"{m}.value"]).reshape(batch, n, flow.groups, flow.each)
        k, v = (np.repeat(y, flow.shared, axis=2) for y in (k, v))
        scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(flow.each)
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        read = np.einsum("bhij,bjhd->bihd", softmax(scores), v).reshape(batch, n, flow.width)
        x = x + read @ w[f"{m}.answer"]
        h = norm(x, f"{m}.inner.norm")
        gate = h @ w[f"{m}.gate"]
        x = x + (gate * sigmoid(gate) * (h @ w[f"{m}.up"])) @ w[f"{m}.down"]
    return norm(x[:, -1], "norm") @ w["scores"]


def recursive_autoencoder(
    flow: RecursiveAutoencoder, w: Arrays, left: Array, right: Array, leaf: Array
) -> dict[str, Any]:
    """From the last node to the first: a parent's number is less than its children's."""
    made = leaf.copy()
    for node in reversed(range(flow.nodes)):
        if left[node] >= 0:
            both = np.concatenate([made[left[node]], made[right[node]]])
            made[node] = np.tanh(both @ w["encode.weight"] + w["encode.bias"])
    return {"root": made[0]}
