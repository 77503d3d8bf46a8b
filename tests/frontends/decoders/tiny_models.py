"""Tiny language models as files: folders of Hugging Face with random weights, and GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from explorer.frontends.decoders.decoder_config import DecoderConfig
from explorer.frontends.decoders.families import FAMILIES, Family
from explorer.frontends.decoders.family_config import config_of

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
LLAMA = {"model_type": "llama", "hidden_act": "silu", "tie_word_embeddings": False, **SIZES}


def drawn(config: DecoderConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights by our names."""
    rng = np.random.default_rng(seed)
    return {n: rng.normal(0, 0.2, s).astype(np.float32) for n, s in config.weights.items()}


def write_folder(folder: Path, values: dict[str, Any] = LLAMA, dtype: Any = np.float32) -> Path:
    """A folder of a model without fused tensors, with random weights."""
    family: Family = FAMILIES[values["model_type"]]
    tensors = {}
    for name, array in drawn(config_of(family, values, "config.json")).items():
        layer, _, base = name.partition(".")
        if not layer.isdecimal():
            layer, base = "", name
        tensors[family.names[base].format(n=layer)] = array.astype(dtype)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(values))
    return folder
