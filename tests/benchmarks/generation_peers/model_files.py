"""GGUF files of Llama's shape with random weights, which all engines read."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np

SHAPES = {  # width, layers, heads, heads of keys and values, inner width
    "2M": (64, 2, 4, 4, 192),
    "18M": (256, 2, 4, 2, 1024),
    "24M": (288, 6, 6, 6, 768),
    "125M": (768, 10, 12, 12, 2048),
    "1.1B": (2048, 22, 32, 4, 5632),
}
VOCABULARY = 32000  # tokens
SPECIAL, PLAIN = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
# Of the field general.file_type.
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "BF16": 32}
FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
SPREADS = {"Q4_0": 4.6, "Q8_0": 74.0}  # deviations of uniform codes


def tokens_of(count: int) -> np.ndarray:
    """Return random tokens int64[1, count]; fewer of them are their beginning."""
    return np.random.default_rng(1).integers(3, VOCABULARY, (1, count))


def cache_bytes(shape: str, tokens: int) -> int:
    """Return the bytes that a step reads of a float32 cache of so many tokens."""
    width, layers, heads, groups, _ = SHAPES[shape]
    return 4 * 2 * layers * groups * (width // heads) * tokens


def write_gguf(path: Path, shape: str, kind: str, seed: int = 0) -> int:
    """Write a model of random weights, one tensor at a time; return the bytes that a step reads.

    Those are of weights, without the cache.
    """
    width, layers, heads, groups, inner = SHAPES[shape]
    writer, quant = gguf.GGUFWriter(path, "llama"), gguf.GGMLQuantizationType[kind]
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_file_type(FILE_TYPES[kind])
    _add_vocabulary(writer)
    narrow = width // heads * groups
    sizes: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCABULARY, width)}
    for n in range(layers):
        layer: dict[str, tuple[int, ...]] = {"attn_norm": (width,), "attn_q": (width, width)}
        layer |= {"attn_k": (narrow, width), "attn_v": (narrow, width)}
        layer |= {"attn_output": (width, width), "ffn_norm": (width,)}
        layer |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        sizes |= {f"blk.{n}.{name}.weight": size for name, size in layer.items()}
    sizes |= {"output_norm.weight": (width,), "output.weight": (VOCABULARY, width)}
    counts = dict[str, int]()  # of bytes
    for name, size in sizes.items():
        if len(size) == 1:
            counts[name] = 4 * size[0]
            writer.add_tensor_info(name, size, np.dtype(np.float32), counts[name])
        else:
            rows = gguf.quant_shape_to_byte_shape(size, quant)
            counts[name] = prod(rows)
            writer.add_tensor_info(name, rows, np.dtype(np.uint8), counts[name], quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(seed)
    for size in sizes.values():
        if len(size) == 1:
            writer.write_tensor_data(np.ones(size, np.float32))
        elif kind in SPREADS:
            writer.write_tensor_data(_random_blocks(rng, size, quant))
        else:
            numbers = rng.standard_normal(size, np.float32) * size[-1] ** -0.5
            writer.write_tensor_data(numbers.astype(FLOATS[kind]))
    writer.close()
    return sum(count for name, count in counts.items() if "embd" not in name)


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    """Add the fields without which an engine does not load the file; no text is read."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([f"t{i}" for i in range(VOCABULARY)])
    writer.add_token_types([SPECIAL] * 3 + [PLAIN] * (VOCABULARY - 3))
    writer.add_token_merges(["t 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template("")


def _random_blocks(rng: Any, size: tuple[int, ...], quant: Any) -> np.ndarray:
    """Return random codes as a tensor has them, with one scale for all of its blocks."""
    data = rng.integers(0, 256, gguf.quant_shape_to_byte_shape(size, quant), np.uint8)
    blocks = data.reshape(-1, gguf.GGML_QUANT_SIZES[quant][1])
    scale = size[-1] ** -0.5 / SPREADS[quant.name]
    blocks[:, :2] = np.float16(scale).reshape(1).view(np.uint8)
    return data
