"""Language models as read from files: a step program, its description, and the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explorer.errors import BadModelFile
from explorer.frontends.decoders.checked_json import Fields
from explorer.frontends.decoders.decoder_config import DecoderConfig
from explorer.frontends.decoders.family_weights import Weight
from explorer.frontends.decoders.gguf_model import read_gguf_model
from explorer.frontends.decoders.hugging_face import CONFIG, read_folder
from explorer.frontends.decoders.step_program import step_function, step_inputs
from explorer.frontends.decoders.vocabulary import (
    CharacterVocabulary,
    FolderVocabulary,
    GgufVocabulary,
)
from explorer.frontends.model import Bounds, Model
from explorer.frontends.python.trace import Traced

SUFFIX = ".gguf"
TOKENIZER = "tokenizer.json"
END = "tokenizer.ggml.eos_token_id"


@dataclass(frozen=True, repr=False)
class LanguageModel(Model):
    """A decoder's step: `ids` and `at` to `scores`, over caches `keys.0`, `values.0` and so on.

    Row `b` adds tokens `ids[b]` at positions `at[b]`, `at[b] + 1` and so on. Tokens at negative
    positions are padding.
    """

    config: DecoderConfig | None = field(default=None, repr=False)
    ends: frozenset[int] = frozenset()  # tokens that end a text
    vocabulary: FolderVocabulary | GgufVocabulary | CharacterVocabulary | None = field(
        default=None, repr=False
    )

    @property
    def caches(self) -> tuple[str, ...]:
        """The names of the caches, float32[batch, groups, room, each] each."""
        return tuple(n for n in self.inputs if n.startswith(("keys.", "values.")))


def language_model(
    config: DecoderConfig,
    weights: Mapping[str, Weight],
    names: Mapping[str, str],
    name: str,
    path: str = "",
    bounds: Bounds | None = None,
) -> LanguageModel:
    """Return the model of a description and its weights, which are constants of those names."""
    step = Traced(step_function(config, weights, names)).model(step_inputs(config), bounds)
    return LanguageModel(name, path, step.program, step.head, python=True, config=config)


def load_language_model(path: Path, bounds: Bounds | None = None) -> LanguageModel:
    """Load a GGUF file, or a folder of Hugging Face.

    Raises:
        BadModelFile, DtypeError, TooLarge: a file is missing or wrong; no tensor was read.
    """
    try:
        return _load_gguf(path, bounds) if path.suffix == SUFFIX else _load_folder(path, bounds)
    except OSError as error:
        raise BadModelFile(f"{path} cannot be read: {error.strerror}", where=path) from error
    except ValueError as error:  # a NUL in the path
        raise BadModelFile(f"{path} cannot be read: {error}", where=path) from error


def _load_folder(path: Path, bounds: Bounds | None) -> LanguageModel:
    config, weights, names, values = read_folder(path)
    model = language_model(config, weights, names, path.resolve().name, str(path), bounds)
    vocabulary = FolderVocabulary(path / TOKENIZER)
    return replace(model, ends=_ends(values), vocabulary=vocabulary)


def _ends(values: Mapping[str, Any]) -> frozenset[int]:
    """Return the tokens that end a text: a number or several."""
    ends = values.get("eos_token_id")
    several = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if not all(type(n) is int for n in several):
        raise BadModelFile(f"{CONFIG}: 'eos_token_id' must be whole numbers", where="eos_token_id")
    return frozenset(several)


def _load_gguf(path: Path, bounds: Bounds | None) -> LanguageModel:
    config, weights, names, file = read_gguf_model(path)
    fields = Fields(file.fields, file.name)
    ends = frozenset([fields.integer(END, low=0)]) if END in fields else frozenset[int]()
    model = language_model(config, weights, names, path.stem, str(path), bounds)
    return replace(model, ends=ends, vocabulary=GgufVocabulary(file.fields, file.name))
