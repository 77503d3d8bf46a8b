"""The models with control flow in JAX: scan, while_loop, cond and switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import relu, sigmoid

Weights = dict[str, Any]


def nasrnn(w: Weights, x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        m, c = state
        i, h = jnp.split(row @ w["input"], 8, 1), jnp.split(m @ w["state"], 8, 1)
        first = jnp.tanh(sigmoid(i[0] + h[0]) * relu(i[1] + h[1]))
        second = jnp.tanh(sigmoid(i[2] + h[2]) + relu(i[3] * h[3]))
        third = jnp.tanh(jnp.tanh(i[4] + h[4]) * sigmoid(i[5] + h[5]))
        fourth = sigmoid(jnp.tanh(i[6] + h[6]) + sigmoid(i[7] + h[7]))
        c = jnp.tanh(first + c) * second
        return (jnp.tanh(c * jnp.tanh(third + fourth)), c), None

    zeros = jnp.zeros((x.shape[1], w["state"].shape[0]))
    return lax.scan(step, (zeros, zeros), x)[0]


def cell(w: Weights, name: str, x: Any, h: Any, c: Any) -> Any:
    both = x @ w[f"{name}.input"] + h @ w[f"{name}.state"] + w[f"{name}.bias"]
    i, f, g, o = jnp.split(both, 4, 1)
    c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
    return sigmoid(o) * jnp.tanh(c), c


def looped_lstm(w: Weights, x: Any) -> Any:
    count = sum(n.endswith(".bias") for n in w)

    def step(states: Any, row: Any) -> Any:
        after = []
        for n, (h, c) in enumerate(states):
            after.append(cell(w, f"layers.{n}", row, h, c))
            row = after[-1][0]
        return tuple(after), row

    zeros = jnp.zeros((x.shape[1], w["layers.0.state"].shape[0]))
    last, answers = lax.scan(step, ((zeros, zeros),) * count, x)
    return answers, *last[-1]


def attention_decoding(w: Weights, x: Any, keys: Any, values: Any) -> Any:
    first, rows = keys.shape[2], keys.shape[2] + 32
    room = ((0, 0), (0, 0), (0, rows - first), (0, 0))
    keys, values = jnp.pad(keys, room), jnp.pad(values, room)

    def step(state: Any, at: Any) -> Any:
        x, keys, values = state
        query, key, value = (x @ w[n] for n in ("query", "key", "value"))
        keys = lax.dynamic_update_slice_in_dim(keys, key, at, 2)
        values = lax.dynamic_update_slice_in_dim(values, value, at, 2)
        scores = query @ jnp.swapaxes(keys, 2, 3) * keys.shape[3] ** -0.5
        scores = jnp.where(jnp.arange(rows) <= at, scores, -jnp.inf)
        x = jax.nn.softmax(scores) @ values
        return (x, keys, values), x

    (_, keys, values), answers = lax.scan(step, (x, keys, values), jnp.arange(first, rows))
    return answers, keys, values


def scored(w: Weights, word: Any, h: Any, c: Any, ending: Any) -> Any:
    h, c = cell(w, "cell", w["embedding"][word], h, c)
    scores = h @ w["scores.weight"] + w["scores.bias"]
    return h, c, scores.at[:, 0].add(ending)


def seq2seq_decoder(w: Weights, h: Any, c: Any, ending: Any) -> Any:
    most, count = ending.shape[0], h.shape[0]

    def goes(state: Any) -> Any:
        at, going = state[0], state[2]
        return (at < most) & going.any()

    def step(state: Any) -> Any:
        at, word, going, h, c, said = state
        h, c, scores = scored(w, word, h, c, ending[at])
        word = jnp.where(going, scores.argmax(1), 0)
        return at + 1, word, word != 0, h, c, said.at[at].set(word)

    ones = jnp.ones(count, jnp.int32)
    start = (0, ones, ones != 0, h, c, jnp.zeros((most, count), jnp.int32))
    at, _, _, h, _, said = lax.while_loop(goes, step, start)
    return said, at, h


def beam_search(w: Weights, h: Any, c: Any, ending: Any) -> Any:
    most, count, beams = ending.shape[0], h.shape[0], 4
    words = w["scores.bias"].shape[0]
    only_end = jnp.where(jnp.arange(words) == 0, 0.0, -jnp.inf)

    def goes(state: Any) -> Any:
        return (state[0] < most) & (state[1] != 0).any()

    def step(state: Any) -> Any:
        at, word, total, h, c, said, since = state
        h, c, scores = scored(w, word.reshape(-1), h, c, ending[at])
        gained = jax.nn.log_softmax(scores).reshape(count, beams, words)
        gained = jnp.where((word == 0)[:, :, None], only_end, gained)
        total, place = lax.top_k((total[:, :, None] + gained).reshape(count, -1), beams)
        source, word = place // words, place % words
        rows = (jnp.arange(count)[:, None] * beams + source).reshape(-1)
        said, since = said.at[at].set(word), since.at[at].set(source)
        return at + 1, word, total, h[rows], c[rows], said, since

    total = jnp.zeros((count, 1)) + jnp.where(jnp.arange(beams) == 0, 0.0, -jnp.inf)
    said = jnp.zeros((most, count, beams), jnp.int32)
    since = said + jnp.arange(beams)
    h, c = jnp.repeat(h, beams, 0), jnp.repeat(c, beams, 0)
    start = (0, jnp.ones((count, beams), jnp.int32), total, h, c, said, since)
    at, _, total, _, _, said, since = lax.while_loop(goes, step, start)

    def back(beam: Any, row: Any) -> Any:
        said, since = row
        word = jnp.take_along_axis(said, beam, 1)
        return jnp.take_along_axis(since, beam, 1), word[:, 0]

    beam = jnp.zeros((count, 1), jnp.int32)
    _, sentences = lax.scan(back, beam, (said, since), reverse=True)
    return sentences, total[:, 0], at


def conv(w: Weights, name: str, x: Any, stride: int = 1) -> Any:
    weight = w[f"{name}.weight"]
    pad = weight.shape[-1] // 2
    found = lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2)
    return found + w[f"{name}.bias"][:, None, None]


def halved(x: Any, how: Callable[..., Any]) -> Any:
    batch, channels, high, wide = x.shape
    return how(x.reshape(batch, channels, high // 2, 2, wide // 2, 2), axis=(3, 5))


def blockdrop(w: Weights, image: Any) -> Any:
    def kept(name: str, x: Any) -> Any:
        outputs, inputs = w[f"{name}.first.weight"].shape[:2]
        if outputs == inputs:
            return x
        x = halved(x, jnp.mean)
        return jnp.concatenate([x, jnp.zeros_like(x)], 1)

    def block(name: str, x: Any, kept: Any) -> Any:
        outputs, inputs = w[f"{name}.first.weight"].shape[:2]
        y = relu(conv(w, f"{name}.first", x, 1 if outputs == inputs else 2))
        return relu(conv(w, f"{name}.second", y) + kept)

    def names(of: str) -> list[str]:
        found = [n.removesuffix(".first.weight") for n in w if n.endswith(".first.weight")]
        return sorted(n for n in found if n.startswith(of))

    x = relu(conv(w, "policy.stem", image))
    for name in names("policy."):
        x = block(name, x, kept(name, x))
    wanted = x.mean((2, 3)) @ w["policy.head.weight"] + w["policy.head.bias"] > 0
    x, run = relu(conv(w, "net.stem", image)), 0
    for n, name in enumerate(names("net.")):
        old, wants = kept(name, x), wanted[:, n]

        def runs(x: Any, old: Any, name: str = name, wants: Any = wants) -> Any:
            return jnp.where(wants[:, None, None, None], block(name, x, old), old)

        x = lax.cond(wants.any(), runs, lambda x, old: old, x, old)
        run = run + wants.any()
    return x.mean((2, 3)) @ w["head.weight"] + w["head.bias"], wanted, run


def skipnet(w: Weights, image: Any) -> Any:
    x = halved(relu(conv(w, "stem", image, 2)), jnp.max)
    h = c = jnp.zeros((1, w["memory.state"].shape[0]))
    names = [n.removesuffix(".reduce.weight") for n in w if n.endswith(".reduce.weight")]
    runs, run = True, 0
    for name in sorted(names, key=lambda n: tuple(map(int, n.split(".")[1:]))):
        stage, number = map(int, name.split(".")[1:])
        stride = 2 if stage and not number else 1
        kept = x if number else conv(w, f"{name}.shortcut", x, stride)

        def block(x: Any, kept: Any, name: str = name, stride: int = stride) -> Any:
            y = relu(conv(w, f"{name}.reduce", x))
            y = relu(conv(w, f"{name}.middle", y, stride))
            return relu(conv(w, f"{name}.expand", y) + kept)

        x = lax.cond(runs, block, lambda x, kept: kept, x, kept)
        run = run + runs
        seen = x.mean((2, 3)) @ w[f"{name}.gate.weight"] + w[f"{name}.gate.bias"]
        h, c = cell(w, "memory", seen, h, c)
        runs = (h @ w["decide.weight"] + w["decide.bias"])[0, 0] > 0
    return x.mean((2, 3)) @ w["head.weight"] + w["head.bias"], run


def moe(w: Weights, x: Any) -> Any:
    """A token after the other, as JAX's arrays have shapes that are known."""

    def expert(n: int) -> Any:
        def run(token: Any) -> Any:
            inner = relu(token @ w[f"experts.{n}.in.weight"] + w[f"experts.{n}.in.bias"])
            return inner @ w[f"experts.{n}.out.weight"] + w[f"experts.{n}.out.bias"]

        return run

    every = [expert(n) for n in range(w["router"].shape[1])]

    def step(_: None, row: Any) -> Any:
        token, which, likely = row
        return None, lax.switch(which, every, token) * likely

    likely = jax.nn.softmax(x @ w["router"])
    which = likely.argmax(1)
    _, y = lax.scan(step, None, (x, which, likely.max(1)))
    return x + y, which


def recursive_autoencoder(w: Weights, left: Any, right: Any, leaf: Any) -> Any:
    """From the last node to the first, as parents are before their children."""

    def made(node: Any, vectors: Any) -> Any:
        both = jnp.concatenate([vectors[left[node]], vectors[right[node]]])
        return vectors.at[node].set(jnp.tanh(both @ w["encode.weight"] + w["encode.bias"]))

    def step(n: Any, vectors: Any) -> Any:
        node = leaf.shape[0] - 1 - n
        return lax.cond(left[node] >= 0, made, lambda _, v: v, node, vectors)

    return (lax.fori_loop(0, leaf.shape[0], step, leaf)[0],)


MODELS = {
    f.__name__: f
    for f in (
        nasrnn,
        looped_lstm,
        attention_decoding,
        seq2seq_decoder,
        beam_search,
        blockdrop,
        skipnet,
        moe,
        recursive_autoencoder,
    )
}
