"""The programs of a page: what is packed comes out bit by bit, what is left out is named."""

from __future__ import annotations

import gzip
import json
import struct
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption
from explorer.relax.options import Options as RelaxOptions
from tests.examples import examples
from widgets.live import data, scripts
from widgets.live.data import live_page
from widgets.live.dense_text import CHANGED, dense_text
from widgets.live.recorded import record_answers
from widgets.live.variants import Variant, compile_for_browser, variants
from widgets.live.weights import WeightStore

Script = Callable[..., Any]
PACKED = scripts._as_function("packed")
DECODE = PACKED + "\nsay(given.map(one => text(packed.decodeText(one))));"
OPEN = f"""{PACKED}
const opened = await packed.openPacked(given);
const whole = blob => typeof blob === "function" ? blob() : blob;
say({{ weights: opened.variants.map(v => text(whole(opened.blobs[v.weights]))),
       inputs: opened.inputs.map(n => text(opened.blobs[n])),
       recorded: opened.variants[0].recorded.map(r => text(opened.blobs[r.bytes])) }});
"""


def head_of(packed: bytes) -> dict[str, Any]:
    raw = gzip.decompress(packed)
    (length,) = struct.unpack_from("<I", raw)
    head: dict[str, Any] = json.loads(raw[4 : 4 + length])
    return head


def test_dense_text_is_read_by_the_page(in_node: Script) -> None:
    draw = Random(0)
    contents = [bytes(n) for n in range(1, 18)]
    contents += [draw.randbytes(draw.randrange(1, 400)) for _ in range(examples(200))]
    contents += [bytes(draw.choice((0, 10, 13, 60, 255)) for _ in range(n)) for n in range(1, 60)]
    texts = [dense_text(c) for c in contents]
    for text in texts:
        assert not set(map(ord, text)) & {*CHANGED}
    assert [b64decode(t) for t in in_node(DECODE, texts)] == contents
    ended = [f"{text}\n" for text in texts]  # a line may end before </script>
    assert [b64decode(t) for t in in_node(DECODE, ended)] == contents


@pytest.mark.parametrize("model", ["tiny_resnet18", "tiny_bert"])
def test_weights_of_all_variants_are_put_together_bit_by_bit(in_node: Script, model: str) -> None:
    """Arrays in another order, shared ones, and filters that the page computes."""
    c = explorer.compile(f"zoo:{model}", "wasm-simd128")
    names = ("fusion", "tiles", "convolution", "winograd", "layout", "gpu")
    first = compile_for_browser(c, c.hint)
    others = [v for v in variants(first, c.hint, names, lambda _: None) if isinstance(v, Variant)]
    live = live_page(c, names=names)
    assert live.variants == (first.name, *(v.name for v in others))
    found = in_node(OPEN, live.base64)
    for variant, weights in zip((first, *others), found["weights"], strict=True):
        assert b64decode(weights) == variant.program.weights, variant.name
    if model == "tiny_resnet18":
        head = head_of(live.packed)
        assert head["filters"] and "Winograd convolution" in live.variants
        alone = sum(len(gzip.compress(v.program.weights)) for v in (first, *others))
        assert len(live.packed) < alone / 2


def test_recorded_answers_are_those_of_a_run(in_node: Script) -> None:
    c = explorer.compile("zoo:tiny_lstm")
    live = live_page(c, names=())
    found = in_node(OPEN, live.base64)
    inputs = {
        t.name: np.frombuffer(b64decode(text), t.dtype).reshape(t.shape).copy()
        for t, text in zip(compile_for_browser(c, c.hint).program.inputs, found["inputs"])
    }
    for array, text in zip(c.run(inputs).values(), found["recorded"], strict=True):
        assert array.tobytes() == b64decode(text)


def test_what_is_the_same_program_is_left_out_and_named() -> None:
    live = live_page(explorer.compile("zoo:tiny_bert", until="planned"), names=("convolution",))
    assert live.variants == ("as compiled",)
    assert live.left_out == ("direct convolution: the same program as 'as compiled'.",)


def test_weights_that_would_make_the_page_large_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data, "MOST_NEW_SHARE", 0.0)
    monkeypatch.setattr(data, "MOST_NEW_BYTES", 0)
    monkeypatch.setattr(WeightStore, "add_filters", lambda *_: None)
    c = explorer.compile("zoo:tiny_resnet18", "wasm-simd128")
    live = live_page(c, names=("winograd", "fusion"))
    assert any("its weights would add" in s for s in live.left_out), live.left_out
    assert "fusion off" in live.variants


@pytest.mark.parametrize("target", ["v100", "cpu-sse", "wasm-relaxed"])
def test_a_model_of_any_device_runs_in_a_page(target: str) -> None:
    c = explorer.compile("zoo:tiny_skip", target, until="planned")
    live = live_page(c, names=())
    assert live.variants == ("as compiled",) and not live.refusal
    (variant,) = head_of(live.packed)["variants"]
    expected = target if target.startswith("wasm") else "wasm-simd128"
    assert variant["program"]["device"] == expected


def test_what_cannot_run_in_a_page_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    options = explorer.Options(relax=RelaxOptions(dispatch=("blas",)))
    live = live_page(explorer.compile("zoo:tiny_bert", options=options, until="planned"))
    assert live.refusal.startswith("Nothing of this page runs in a browser: ")
    assert "calls blas" in live.refusal and not live.packed
    monkeypatch.setattr(data, "MOST_BYTES", 1000)
    live = live_page(explorer.compile("zoo:tiny_skip", until="planned"))
    assert "of weights and" in live.refusal and "\n" not in live.refusal


def test_a_variant_that_is_none_is_refused_with_those_there_are() -> None:
    c = explorer.compile("zoo:tiny_skip", until="planned")
    with pytest.raises(BadOption, match=r"no variant 'fuson'.*fusion"):
        live_page(c, names=("fuson",))


def test_a_tolerance_grows_where_a_model_amplifies_roundings() -> None:
    """Differences of large sums: the answer has far fewer right digits than its inputs."""
    x = explorer.tensor("float32", 64)

    def plain(a: Any) -> Any:
        return a * 2

    def cancelling(a: Any) -> Any:
        return (a * 3 + 1e6 - 1e6) * 1e3 - a * 3e3

    shares = []
    for function in (plain, cancelling):
        c = explorer.compile(explorer.trace(function)(x))
        inputs = {"a": np.linspace(0.5, 4, 64, dtype=np.float32)}
        answers = record_answers(c, compile_for_browser(c, {}), inputs, {})
        ((name, output),) = answers.outputs.items()
        shares.append(answers.tolerances[name] / np.abs(output).max())
    assert shares[0] < 2e-5 < 1e-4 < shares[1]


def test_integers_must_be_equal() -> None:
    x = explorer.tensor("int32", 8)
    c = explorer.compile(explorer.trace(lambda a: a + 1)(x))
    inputs = {"a": np.arange(8, dtype=np.int32)}
    answers = record_answers(c, replace(compile_for_browser(c, {})), inputs, {})
    assert set(answers.tolerances.values()) == {0.0}
