"""Language models in GGUF files: their description and weights, by the tables of `families`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from explorer.errors import BadModelFile
from explorer.frontends.decoders.checked_json import Fields
from explorer.frontends.decoders.decoder_config import DecoderConfig
from explorer.frontends.decoders.families import GGUF_FAMILIES, GGUF_FIELDS
from explorer.frontends.decoders.family_config import config_of
from explorer.frontends.decoders.family_weights import Weight, tensor_names, weights_of
from explorer.frontends.decoders.gguf_file import GgufFile, GgufTensor, read_gguf
from explorer.frontends.decoders.packed_matrix import packed_bytes
from explorer.process.budget import check_room

EMBEDDING, SCORES, DIVISORS = "token_embd.weight", "output.weight", "rope_freqs.weight"
LONG_FACTORS = "rope_factors_long.weight"
LOCAL_BASE = 10000.0  # of Gemma 3's layers with a window; files do not have it
# Gemma's largest sizes, by their layers, scale queries by width / heads; files do not say so.
SCALED_BY_WIDTH = {"gemma2": 46, "gemma3": 62}


def read_gguf_model(
    path: Path,
) -> tuple[DecoderConfig, dict[str, Weight], dict[str, str], GgufFile]:
    """Return the description, the weights, the file's names of them, and the file.

    Quantised matrices stay packed; all other tensors become float32.

    Raises:
        BadModelFile, DtypeError, TooLarge: the file is wrong, or the architecture is unknown.
    """
    file = read_gguf(path)
    architecture = Fields(file.fields, file.name).word("general.architecture")
    if architecture not in GGUF_FAMILIES:
        raise BadModelFile(
            f"{file.name} is of a {architecture!r} model, and no family of that name is known",
            where="general.architecture",
            expected=", ".join(GGUF_FAMILIES),
            actual=architecture,
            try_=f"one of {', '.join(GGUF_FAMILIES)}",
        )
    if EMBEDDING not in file.tensors:
        raise BadModelFile(f"{file.name} has no tensor {EMBEDDING!r}", where=EMBEDDING)
    if LONG_FACTORS in file.tensors:
        raise BadModelFile(f"{file.name} scales rotary positions by {LONG_FACTORS}, unsupported")
    family = GGUF_FAMILIES[architecture]
    check_room(sum(map(_bytes, file.tensors.values())), f"the weights of {file.name}")
    config = config_of(family, _fields(file, architecture), file.name)
    if DIVISORS in file.tensors:
        config = _divided(config, file.tensors[DIVISORS].array, file.name)
    names = tensor_names(family, config, file.tensors)
    return config, weights_of(family, config, file.tensors), names, file


def _bytes(tensor: GgufTensor) -> int:
    """Return the memory that a tensor takes beside its file."""
    packed = packed_bytes(tensor.kind, tensor.shape)
    decoded = 0 if tensor.kind.name == "F32" else 4 * prod(tensor.shape)
    return decoded if packed is None else packed


def _fields(file: GgufFile, architecture: str) -> Mapping[str, Any]:
    """Return the fields of a configuration, as folders of Hugging Face name them."""
    own = {
        name.removeprefix(f"{architecture}."): value
        for name, value in file.fields.items()
        if name.startswith(f"{architecture}.") and not isinstance(value, np.ndarray)
    }
    values = {ours: own[theirs] for ours, theirs in GGUF_FIELDS.items() if theirs in own}
    f = Fields({**own, **values}, file.name)
    heads, width = f.integer("num_attention_heads"), f.integer("hidden_size")
    each = f.integer("head_dim", max(width // heads, 1))
    if SCALED_BY_WIDTH.get(architecture) == values.get("num_hidden_layers"):
        values["query_pre_attn_scalar"] = width / heads
    kind = f.word("rope.scaling.type", "none")
    rope = {
        "rope_theta": f.number("rope.freq_base", 10000.0),
        "rope_type": "default" if kind == "none" else kind,
        "factor": f.number("rope.scaling.factor", 1.0),
        "partial_rotary_factor": f.integer("rope.dimension_count", each) / each,
    }
    local = {"rope_theta": LOCAL_BASE}
    both = {"full_attention": rope, "sliding_attention": local}
    return {
        **values,
        "rms_norm_eps": values.get("rms_norm_eps", values.get("layer_norm_epsilon")),
        "vocab_size": file.tensors[EMBEDDING].shape[0] if file.tensors[EMBEDDING].shape else 0,
        "tie_word_embeddings": SCORES not in file.tensors,
        "rope_parameters": both if architecture == "gemma3" else rope,
    }


def _divided(config: DecoderConfig, divisors: np.ndarray, where: str) -> DecoderConfig:
    """Return the description with frequencies divided by those of a tensor."""
    numbers = tuple(divisors.reshape(-1).tolist())
    if not all(0 < d < float("inf") for d in numbers):
        raise BadModelFile(f"{where}: {DIVISORS} holds a divisor that is not positive")
    layers = []
    for layer in config.layers:
        if layer.rotary and len(numbers) != layer.rotary.width // 2:
            raise BadModelFile(f"{where}: {DIVISORS} has {len(numbers)} divisors")
        rotary = layer.rotary and replace(layer.rotary, divisors=numbers)
        layers.append(replace(layer, rotary=rotary))
    return replace(config, layers=tuple(layers))
