"""Small vocabularies: trained on this file's own words, as tokenizer.json and in GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TEXTS = ["once upon a time there was a compiler", "the time of a kernel", "wörter über €5 🙂 12345"]


def train_bytes(words: int = 300) -> Any:
    """A byte-level tokenizer of `tokenizers`."""
    tokenizers = pytest.importorskip("tokenizers")
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    t.train_from_iterator(
        TEXTS * 5,
        tokenizers.trainers.BpeTrainer(
            vocab_size=words,
            special_tokens=["<end>"],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return t


def write_tokenizer(folder: Path) -> Any:
    """Write tokenizer.json and return the tokenizer."""
    t = train_bytes()
    t.save(str(folder / "tokenizer.json"))
    return t
