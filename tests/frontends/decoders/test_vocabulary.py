"""Vocabularies of GGUF files against the tokenizers that they come from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from explorer.errors import BadModelFile, BadOption, IronworksError
from explorer.frontends.decoders.vocabulary import FolderVocabulary, GgufVocabulary, Vocabulary
from tests.generation.vocabularies import TEXTS, train_bytes, write_tokenizer

SAMPLES = [
    *TEXTS,
    "",
    " ",
    "  two  spaces ",
    "a\nb\tc",
    "Time's up: 1234567 €",
    "日本語 🙂",
    "<end>",
]
CONTROL = 3


def byte_fields(t: Any, **more: Any) -> dict[str, Any]:
    model = json.loads(t.to_str())["model"]
    words = sorted(model["vocab"], key=model["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tuple(words),
        "tokenizer.ggml.merges": tuple(merges),
        "tokenizer.ggml.token_type": np.array([CONTROL] + [1] * (len(words) - 1), np.int32),
        **more,
    }


def opened(fields: dict[str, Any]) -> Vocabulary:
    pytest.importorskip("tokenizers")
    return GgufVocabulary(fields, "model.gguf").open()


def test_merges_of_bytes_are_the_tokenizers() -> None:
    t = train_bytes()
    ours = opened(byte_fields(t))
    for text in SAMPLES:
        assert ours.encode(text) == t.encode(text).ids
        assert ours.decode(ours.encode(text)) == text.replace("<end>", "")


def test_the_first_word_is_added_where_the_file_says_so() -> None:
    begins = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 0}
    assert opened(byte_fields(train_bytes(), **begins)).encode("a")[0] == 0


def test_digits_are_split_as_the_file_says() -> None:
    t = train_bytes()
    by_three = opened(byte_fields(t, **{"tokenizer.ggml.pre": "llama-bpe"}))
    assert by_three.decode(by_three.encode("1234567")) == "1234567"
    single = opened(byte_fields(t, **{"tokenizer.ggml.pre": "qwen2"}))
    assert len(single.encode("1234567")) == 7


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_are_those_of_sentencepiece(tmp_path: Path, kind: str) -> None:
    spm = pytest.importorskip("sentencepiece")
    (tmp_path / "text").write_text("\n".join(TEXTS * 20))
    spm.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "m"),
        vocab_size=330 if kind == "bpe" else 300,
        model_type=kind,
        byte_fallback=kind == "bpe",
        character_coverage=1.0,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    p = spm.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    count = p.get_piece_size()
    fields = {
        "tokenizer.ggml.model": "llama" if kind == "bpe" else "t5",
        "tokenizer.ggml.tokens": tuple(p.id_to_piece(n) for n in range(count)),
        "tokenizer.ggml.scores": np.array([p.get_score(n) for n in range(count)], np.float32),
        "tokenizer.ggml.unknown_token_id": p.unk_id(),
        "tokenizer.ggml.add_bos_token": False,
    }
    ours = opened(fields)
    for text in TEXTS if kind == "unigram" else [*TEXTS, "new words, 日本", "a  b"]:
        assert ours.encode(text) == p.encode(text)
        assert ours.decode(ours.encode(text)) == p.decode(p.encode(text))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tokenizer.ggml.model": "wordpiece"},
        {"tokenizer.ggml.tokens": ("a", "a")},
        {"tokenizer.ggml.tokens": np.arange(3)},
        {"tokenizer.ggml.tokens": 5},
        {"tokenizer.ggml.merges": ("a b c d", "x")},
        {"tokenizer.ggml.merges": ("xyz abc",)},
        {"tokenizer.ggml.pre": "unknown"},
        {"tokenizer.ggml.token_type": np.zeros(3, np.int32)},
        {"tokenizer.ggml.token_type": "abc"},
        {"tokenizer.ggml.add_bos_token": 3},
        {"tokenizer.ggml.model": "llama", "tokenizer.ggml.unknown_token_id": 10**6},
        {"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": np.full(300, np.nan)},
        {"tokenizer.ggml.model": "t5", "tokenizer.ggml.unknown_token_id": 10**6},
    ],
)
def test_wrong_vocabularies_are_refused_in_a_sentence(fields: dict[str, Any]) -> None:
    base = byte_fields(train_bytes()) if fields else {}
    with pytest.raises(BadModelFile) as caught:
        opened({**base, **fields})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": {"type": "BPE"}}', '{"version": 1}'])
def test_wrong_tokenizer_files_are_refused(tmp_path: Path, text: str) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(BadModelFile):
        FolderVocabulary(tmp_path / "tokenizer.json").open()


def test_a_folder_has_the_tokenizers_words(tmp_path: Path) -> None:
    t = write_tokenizer(tmp_path)
    ours = FolderVocabulary(tmp_path / "tokenizer.json").open()
    for text in SAMPLES:
        assert ours.encode(text) == t.encode(text).ids


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(BadOption, match="tokenizers") as caught:
        FolderVocabulary(tmp_path / "tokenizer.json").open()
    assert isinstance(caught.value, IronworksError) and "pip install" in str(caught.value)
