"""The rooms of language models: weights of few bits, and one token against its floor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
import widgets
from explorer.errors import BadOption
from explorer.frontends.decoders.families import FAMILIES
from explorer.frontends.decoders.family_config import config_of
from explorer.frontends.decoders.language_model import LanguageModel, language_model
from explorer.frontends.decoders.vocabulary import CharacterVocabulary
from explorer.ir.program import Constant
from explorer.measure.compare import Measurement
from explorer.training.manual_model import CHARACTERS, manual_text
from tests.frontends.decoders.tiny_models import LLAMA, drawn
from tests.widgets.drawn_geometry import ALL_SIZES, problems
from widgets.draw.table import sentence_text
from widgets.model.picture import View
from widgets.rooms import content
from widgets.session.answers import PictureContext
from widgets.session.session import Session
from widgets.timed import low_bit, one_token
from widgets.timed.low_bit import FLOAT, FORMS, Form, LowBitRows, Tried
from widgets.timed.one_token import CONTEXT, CONTEXTS, OneTokenRows, Times

CONFIG = config_of(FAMILIES["llama"], {**LLAMA, "vocab_size": len(CHARACTERS)}, "config.json")
PROJECTIONS = sum(a * b for a, b in CONFIG.projections.values())
RATE = 25.0


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    arrays = drawn(CONFIG)
    constants = {n: Constant(a) for n, a in arrays.items()}
    tiny = language_model(CONFIG, constants, {n: n for n in arrays}, "tiny")
    return replace(tiny, vocabulary=CharacterVocabulary(CHARACTERS))


@pytest.fixture(scope="module")
def session(model: LanguageModel) -> Session:
    return Session(explorer.compile(model, donate=model.caches))


def with_bits(session: Session, bits: str) -> LowBitRows:
    rows = low_bit.data(PictureContext(session, View(bits=bits)))
    assert rows is not None
    return rows


def test_bytes_are_those_of_the_program_and_of_the_form(
    session: Session, model: LanguageModel
) -> None:
    rows = with_bits(session, "int4/32")
    assert len(rows.matrices) == 2 * len(CONFIG.projections) + 1
    assert rows.weights == 2 * PROJECTIONS + len(CHARACTERS) * CONFIG.width
    assert rows.stored == 4 * rows.weights
    assert rows.bytes == rows.weights * 5 / 8
    assert Form(4, 32).bits_a_weight == 5 and Form(2, 128).bits_a_weight == 2.25
    assert {m.stored.decoded for m in rows.matrices} == {""}
    layers = explorer.quantize(model, "int4", 32).quantization
    assert layers is not None
    expected = {layer.operator: layer.weight_error for layer in layers.layers}
    for m in rows.matrices:
        assert m.error == pytest.approx(expected[m.ops[0]])


@pytest.mark.parametrize(("bits", "stated"), [(8, 9), (4, 5)])
def test_a_model_with_few_bits_says_where_they_become_numbers(
    bits: int, stated: int, model: LanguageModel
) -> None:
    small = explorer.quantize(model, f"int{bits}", 32)
    c = explorer.compile(small, donate=model.caches)
    c = c.planned_for({"batch": 1, "n": 1, "room": 64})  # many rows read int4 a byte each
    rows = widgets.data(c, "low_bit")
    assert rows.forms == (Form(bits, 32),) and not rows.can_choose
    assert {m.stored.decoded for m in rows.matrices} == {low_bit.IN_REGISTERS}
    up = next(m for m in rows.matrices if m.ops[0] == "layer 0/up/matmul")
    assert up.stored.bytes == up.bytes == 32 * 48 * stated / 8
    assert up.error is not None and 0 < up.error < (0.02 if bits == 8 else 0.2)
    assert low_bit._about(Session(c), "") is None  # its float weights are gone


def test_the_perplexity_of_each_form_is_measured(session: Session, model: LanguageModel) -> None:
    results = list(low_bit.measure_forms(session.now, session.house, "", {}))
    done, count, tried = results[-1]
    assert done == count == len(tried) == len(FORMS)
    _, text = manual_text()
    small = explorer.quantize(model, "int2", 128)
    expected = explorer.perplexity(explorer.compile(small), text)
    assert tried["int2/128"].perplexity == pytest.approx(expected, rel=1e-5)
    assert tried["int2/128"].perplexity != pytest.approx(tried["float32/"[:-1]].perplexity)
    assert tried["float32"].decoded == ""
    assert tried["int4/32"].decoded == low_bit.IN_REGISTERS
    assert tried["int8/32"].bytes < tried["float32"].bytes / 3


def test_it_says_bytes_errors_and_perplexity(session: Session) -> None:
    tried = {"float32": Tried(2.5, 100, ""), "int4/32": Tried(2.75, 20, low_bit.IN_REGISTERS)}
    rows = replace(with_bits(session, "int4/32"), tried=tried)
    first, second, third = map(sentence_text, low_bit.see(rows))
    assert first == "A weight of int4 in blocks of 32 takes 5 bits: 6.4 times less than 32."
    assert second.startswith("The largest error is ") and "layer" in second
    assert third == "The perplexity is 2.750, 2.500 in float32."
    assert sentence_text(low_bit.see(with_bits(session, ""))[-1]) == (
        "The perplexity is not measured yet."
    )
    assert low_bit.table(rows).rows[-1][-1] == 2.75
    with pytest.raises(BadOption, match="no weights of 'int3'"):
        with_bits(session, "int3")


def test_the_slider_has_every_form(session: Session) -> None:
    answer = session.answer("picture", {"room": "low_bit", "bits": "int2/32"})
    (name, _, values, at, _) = answer["controls"]["more"][0]
    assert name == answer["controls"]["play"] == "bits"
    assert values[at] == "int2/32" and values == [f.name for f in FORMS]
    assert answer["controls"]["action"][1] == "Measure perplexity"


@pytest.mark.parametrize("bits", ["", "int4/32", "int2/128"])
@pytest.mark.parametrize("size", ALL_SIZES)
def test_its_drawing_can_be_read(session: Session, bits: str, size: tuple[int, int]) -> None:
    rows = with_bits(session, bits)
    assert problems(low_bit.figure(rows, size)) == []
    tried = {f.name: Tried(2.5 + 5 / f.bits_a_weight, 100, "") for f in FORMS}
    tried["int4/32"] = replace(tried["int4/32"], decoded=low_bit.IN_REGISTERS)
    assert problems(low_bit.figure(replace(rows, tried=tried), size)) == []


def times_of(parts: Mapping[str, float]) -> Times:
    """Times as a run would give them."""
    measured = {name: Measurement(us, 0.9 * us, 1.2 * us, 20, "here") for name, us in parts.items()}
    kinds = {(name, "weights"): 0.75 * us for name, us in parts.items()}
    kinds |= {(name, "cache"): 0.25 * us for name, us in parts.items()}
    contexts = tuple(
        (n, Measurement(10 + n / 64, 9 + n / 64, 14 + n / 64, 50, "")) for n in CONTEXTS
    )
    return Times(RATE, measured, kinds, contexts)


def token_rows(session: Session, times: Times | None = None) -> OneTokenRows:
    return one_token.data(session.now, session.house, times)


def test_a_layer_reads_its_matrices_and_its_cache(session: Session) -> None:
    rows = token_rows(session)
    parts = {p.name: p for p in rows.parts}
    assert list(parts) == ["positions", "embedding", "layer 0", "layer 1", "scores"]
    norms = 2 * CONFIG.width * 4
    cache = 2 * CONFIG.groups * CONTEXT * CONFIG.each * 4
    assert parts["layer 0"].weights == PROJECTIONS * 4 + norms
    assert parts["layer 0"].cache == parts["layer 1"].cache == cache
    assert parts["embedding"].weights == CONFIG.width * 4  # one row
    positions = 4 * CONFIG.each // 2  # frequencies
    scores = (len(CHARACTERS) + 1) * CONFIG.width * 4
    embedding = CONFIG.width * 4
    assert rows.weights == 2 * (PROJECTIONS * 4 + norms) + scores + embedding + positions
    assert rows.at.cache == 2 * cache and rows.contexts[-1].cache == 2 * cache * 4096 // CONTEXT
    assert all(p.planned_us > 0 and p.measured is None for p in rows.parts)
    planned = [c.planned_us for c in rows.contexts]
    assert planned == sorted(planned)


def test_floors_are_bytes_over_the_measured_bandwidth(session: Session) -> None:
    times = times_of({"layer 0": 8.0, "layer 1": 9.0})
    rows = token_rows(session, times)
    layer = next(p for p in rows.parts if p.name == "layer 0")
    assert layer.floor_us == (layer.weights + layer.cache) / RATE / 1e3
    assert layer.us == 8.0 and rows.source == "measured"
    first = sentence_text(one_token.see(rows)[0])
    assert "at 25 GB/s (measured)" in first
    assert "figures" in sentence_text(one_token.see(token_rows(session))[0])
    assert "are predicted" in sentence_text(one_token.see(token_rows(session))[1])
    lines = {row[0]: row for row in one_token.table(rows).rows}
    assert lines["64 tokens"][-1] == round(1e6 / 11)


def test_a_token_is_measured(session: Session) -> None:
    results = list(one_token.measure_token(session.now, session.house, "", {}))
    assert [done for done, _, _ in results] == list(range(1, len(CONTEXTS) + 3))
    times = results[-1][2]
    assert times.gb_per_s > 0
    assert {"layer 0", "layer 1", "scores"} <= times.parts.keys()
    assert [n for n, _ in times.contexts] == list(CONTEXTS)
    rows = token_rows(session, times)
    assert all(c.measured and c.measured.low_us > 0 for c in rows.contexts)


@pytest.mark.parametrize("size", ALL_SIZES)
def test_the_drawing_of_a_token_can_be_read(session: Session, size: tuple[int, int]) -> None:
    assert problems(one_token.figure(token_rows(session), size)) == []
    parts = dict.fromkeys(("positions", "embedding", "layer 0", "layer 1", "scores"), 3.0)
    rows = token_rows(session, times_of(parts))
    assert problems(one_token.figure(rows, size)) == []


def test_other_programs_have_no_such_room() -> None:
    s = Session(explorer.compile("zoo:small_nerf"))
    absent: Any = content.absent(s)
    assert absent["one_token"] == "Appears for a language model that runs on this machine."
    assert "low_bit" not in absent
    rows = with_bits(s, "int8/32")
    assert rows.text == "" and FLOAT in rows.forms
    assert np.isfinite([m.error for m in rows.matrices if m.error is not None]).all()
