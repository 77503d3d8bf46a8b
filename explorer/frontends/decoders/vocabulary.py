"""Vocabularies: texts to words and back, by the package `tokenizers`.

A folder has tokenizer.json; a GGUF file has lists of words, scores and merges, from which the same
kind of tokenizer is built.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import BadModelFile, BadOption
from explorer.frontends.decoders.checked_json import Fields
from explorer.frontends.onnx.plain_file import PlainFile

MAX_BYTES = 1 << 28  # of tokenizer.json
SPACE = "▁"  # U+2581, which stands for a space in SentencePiece's words
CONTROL, USER_DEFINED = 3, 4  # types of words in GGUF files
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SUFFIXES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPLITS = {  # how texts are split before merges, by `tokenizer.ggml.pre`; "": as GPT-2 does
    "default": "",
    "gpt-2": "",
    "gpt2": "",
    "llama-bpe": rf"{SUFFIXES}|{LETTERS}|\p{{N}}{{1,3}}|{REST}",
    "qwen2": rf"{SUFFIXES}|{LETTERS}|\p{{N}}|{REST}",
    "smollm": r"\p{N}",
}


class Vocabulary:
    """A tokenizer, with the words that begin and end a text."""

    def __init__(self, tokenizer: Any, first: tuple[int, ...] = ()) -> None:
        """Take a tokenizer of `tokenizers`; `first` are the words before each prompt."""
        self._tokenizer, self._first = tokenizer, first

    def encode(self, text: str) -> list[int]:
        """Return the words of a text, those that begin every text included."""
        return [*self._first, *self._tokenizer.encode(text).ids]

    def decode(self, words: Sequence[int]) -> str:
        """Return the text of words; control words have none."""
        return str(self._tokenizer.decode(list(words), skip_special_tokens=True))


@dataclass(frozen=True, slots=True)
class FolderVocabulary:
    """The vocabulary of a folder, read when it is first needed."""

    path: Path

    def open(self) -> Vocabulary:
        """Read tokenizer.json.

        Raises:
            BadModelFile: it is missing or wrong.
            BadOption: the package `tokenizers` is not installed.
        """
        tokenizers = import_tokenizers()
        if not self.path.exists():
            raise BadModelFile(
                f"{self.path.parent.name} has no {self.path.name}, so a text has no tokens",
                where=self.path.name,
                try_="a prompt of token ids, such as [1, 15, 7]",
            )
        with PlainFile(self.path) as file:
            if file.size > MAX_BYTES:
                raise BadModelFile(f"{self.path.name} has {file.size} bytes, at most {MAX_BYTES}")
            text = file.read(0, file.size)
        return Vocabulary(_built(lambda: tokenizers.Tokenizer.from_buffer(text), self.path.name))


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """The vocabulary of a GGUF file's fields, built when it is first needed."""

    fields: Mapping[str, Any] = field(repr=False)
    name: str

    def open(self) -> Vocabulary:
        """Build the tokenizer.

        Raises:
            BadModelFile: the file has no vocabulary, or one that is wrong or of an unknown kind.
            BadOption: the package `tokenizers` is not installed.
        """
        f = Fields(self.fields, self.name)
        if "tokenizer.ggml.tokens" not in f:
            raise BadModelFile(
                f"{self.name} has no vocabulary, so a text has no tokens",
                where="tokenizer.ggml.tokens",
                try_="a prompt of token ids, such as [1, 15, 7]",
            )
        kinds = {"gpt2": _merged_bytes, "llama": _merged_pieces, "t5": _unigram}
        build = f.choice("tokenizer.ggml.model", kinds)
        tokenizer = _built(lambda: build(f, import_tokenizers()), self.name)
        begins = f.flag("tokenizer.ggml.add_bos_token", build is _merged_pieces)
        first = (f.integer("tokenizer.ggml.bos_token_id", low=0),) if begins else ()
        return Vocabulary(tokenizer, first)


@dataclass(frozen=True, slots=True)
class CharacterVocabulary:
    """A vocabulary of single characters, in the order of their tokens.

    Other characters become the token of `unknown`.
    """

    characters: str
    unknown: str = "?"

    def open(self) -> Vocabulary:
        """Return the vocabulary."""
        return Vocabulary(self)

    def encode(self, text: str) -> _Encoding:
        """Return the tokens of a text."""
        ids = {c: n for n, c in enumerate(self.characters)}
        return _Encoding([ids.get(c, ids[self.unknown]) for c in text])

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of tokens."""
        return "".join(self.characters[n] for n in ids)


@dataclass(frozen=True, slots=True)
class _Encoding:
    """The tokens of a text, as `tokenizers` returns them."""

    ids: list[int]


def import_tokenizers() -> Any:
    """Import the package; raise BadOption where it is not installed."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # this process forks
    try:
        import tokenizers
    except ImportError:
        raise BadOption(
            "texts need the package tokenizers, which is not installed",
            where="tokenizers",
            try_="pip install 'ironworks[text]', or a prompt of token ids",
        ) from None
    return tokenizers


def _built(build: Any, where: str) -> Any:
    """Return a tokenizer; any error of the package is a BadModelFile."""
    try:
        return build()
    except (BadModelFile, BadOption, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the package is no Exception
        raise BadModelFile(
            f"{where} holds a vocabulary that cannot be read: {error}", where=where
        ) from None


def _words(f: Fields) -> list[str]:
    """Return the file's words by number; BadModelFile if two are equal."""
    words = list(f.values["tokenizer.ggml.tokens"])
    if not all(isinstance(w, str) for w in words) or len(set(words)) < len(words):
        raise BadModelFile(f"{f.where} has a vocabulary with equal words, or of no texts")
    return words


def _numbers(f: Fields, name: str, count: int) -> list[float]:
    """Return a list of numbers of a field, one for each word; zeros if it is absent."""
    values = f.values.get(name)
    if values is None:
        return [0] * count
    if not isinstance(values, np.ndarray) or len(values) != count:
        raise BadModelFile(f"{f.where}: {name!r} must be {count} numbers", where=name)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise BadModelFile(f"{f.where}: {name!r} has a number that is not finite", where=name)
    return list(values.tolist())


def _with_control_words(tokenizer: Any, f: Fields, words: Sequence[str], tokenizers: Any) -> Any:
    """Add the words that no merge makes: control words, which decode to nothing, and the user's."""
    types = _numbers(f, "tokenizer.ggml.token_type", len(words))
    for word, kind in zip(words, types, strict=True):
        if kind in (CONTROL, USER_DEFINED):
            token = tokenizers.AddedToken(word, special=kind == CONTROL, normalized=False)
            tokenizer.add_special_tokens([token]) if kind == CONTROL else tokenizer.add_tokens(
                [token]
            )
    return tokenizer


def _merged_bytes(f: Fields, tokenizers: Any) -> Any:
    """Return byte-level merges (Radford et al. 2019)."""
    words = _words(f)
    merges = [tuple(m.split(" ", 1)) for m in f.values.get("tokenizer.ggml.merges") or ()]
    if any(len(m) != 2 for m in merges):
        raise BadModelFile(f"{f.where} has a merge that is not two words")
    split = f.choice("tokenizer.ggml.pre", SPLITS, "default")
    by_word = {w: n for n, w in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(by_word, merges))
    parts = tokenizers.pre_tokenizers
    is_digits = split == SPLITS["smollm"]
    steps = [parts.ByteLevel(add_prefix_space=False, use_regex=is_digits or not split)]
    if split:
        pattern = tokenizers.Regex(split)
        steps = [parts.Split(pattern, behavior="isolated", invert=False), *steps]
    tokenizer.pre_tokenizer = parts.Sequence(steps)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return _with_control_words(tokenizer, f, words, tokenizers)


def _merged_pieces(f: Fields, tokenizers: Any) -> Any:
    """Return SentencePiece's merges (Kudo and Richardson 2018): best scores first."""
    words = _words(f)
    scores = dict(zip(words, _numbers(f, "tokenizer.ggml.scores", len(words)), strict=True))
    by_word = {w: n for n, w in enumerate(words)}
    merges = [
        (word[:k], word[k:])
        for word in sorted(words, key=lambda w: -scores[w])
        for k in range(1, len(word))
        if word[:k] in by_word and word[k:] in by_word
    ]
    unknown = words[f.integer("tokenizer.ggml.unknown_token_id", 0, 0)]
    model = tokenizers.models.BPE(
        by_word, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True
    )
    return _pieces(tokenizers.Tokenizer(model), f, words, tokenizers)


def _unigram(f: Fields, tokenizers: Any) -> Any:
    """Return a unigram model (Kudo 2018): the most likely words of a text."""
    words = _words(f)
    scores = _numbers(f, "tokenizer.ggml.scores", len(words))
    unknown = f.integer("tokenizer.ggml.unknown_token_id", 2, 0)
    pairs = list(zip(words, scores, strict=True))
    model = tokenizers.models.Unigram(pairs, unknown, False)
    return _pieces(tokenizers.Tokenizer(model), f, words, tokenizers)


def _pieces(tokenizer: Any, f: Fields, words: Sequence[str], tokenizers: Any) -> Any:
    """Let a tokenizer write spaces as SentencePiece does."""
    prefix = f.flag("tokenizer.ggml.add_space_prefix", True)
    replace = tokenizers.normalizers.Replace(" ", SPACE)
    steps = [tokenizers.normalizers.Prepend(SPACE), replace] if prefix else [replace]
    tokenizer.normalizer = tokenizers.normalizers.Sequence(steps)
    parts = tokenizers.decoders
    ends = [parts.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = parts.Sequence(
        [parts.Replace(SPACE, " "), parts.ByteFallback(), parts.Fuse(), *ends]
    )
    return _with_control_words(tokenizer, f, words, tokenizers)
