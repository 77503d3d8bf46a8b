"""GGUF files against the package `gguf`: blocks to the bit, and models against their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import explorer
from explorer.errors import DtypeError
from explorer.frontends.decoders import family_weights
from explorer.frontends.decoders.gguf_blocks import BLOCK_TYPES, decode
from explorer.frontends.decoders.gguf_file import read_gguf
from explorer.frontends.decoders.language_model import LanguageModel
from explorer.frontends.decoders.packed_matrix import packed_matrix
from explorer.frontends.decoders.packed_operand import multiply_rows, operand, take_rows
from explorer.ops.low_bit_products import unpacked
from tests.frontends.decoders.drawn_blocks import HALVES, KINDS, QUANTISED, drawn_blocks
from tests.frontends.decoders.test_families import (
    GPT2,
    LLAMA31,
    SEVEN,
    SIZES,
    saved,
    scores_of_steps,
)

gguf = pytest.importorskip("gguf")

ARCHITECTURES = {"mistral": "llama", "gemma3_text": "gemma3"}  # where the names differ
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", SIZES),
    "llama 3.1": ("LlamaConfig", {**SIZES, "rope_parameters": LLAMA31}),
    "mistral": ("MistralConfig", {**SIZES, "sliding_window": None}),
    "qwen2": ("Qwen2Config", SIZES),
    "qwen3": ("Qwen3Config", {**SIZES, "head_dim": 16}),
    "gemma": ("GemmaConfig", {**SIZES, "head_dim": 16}),
    "gemma 2": (
        "Gemma2Config",
        {**SIZES, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 16},
    ),
    "gemma 3": (
        "Gemma3TextConfig",
        {**SEVEN, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 16},
    ),
    "phi-3": ("Phi3Config", SIZES),
    "gpt-2": ("GPT2Config", GPT2),
}


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Queries or keys with the rows of rotary pairs beside each other, as llama.cpp writes them."""
    halves = weight.reshape(heads, 2, -1, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def converted(name: str, weight: np.ndarray, values: dict[str, Any], arch: str) -> np.ndarray:
    """A weight of a folder as llama.cpp's converter writes it."""
    if arch == "llama" and name.endswith("q_proj.weight"):
        weight = interleaved(weight, values["num_attention_heads"])
    if arch == "llama" and name.endswith("k_proj.weight"):
        weight = interleaved(weight, values["num_key_value_heads"])
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        weight = weight + 1
    if arch == "gpt2" and weight.ndim == 2 and "transformer.h." in name:
        weight = weight.T
    return np.ascontiguousarray(weight)


def divisors(rope: dict[str, Any], each: int) -> np.ndarray:
    """What Llama 3.1's frequencies are divided by, in the words of llama.cpp's converter."""
    factors = []
    for i in range(0, each, 2):
        wave = 2 * np.pi * rope["rope_theta"] ** (i / each)
        trained = rope["original_max_position_embeddings"]
        if wave < trained / rope["high_freq_factor"]:
            factors.append(1.0)
        elif wave > trained / rope["low_freq_factor"]:
            factors.append(rope["factor"])
        else:
            low, high = rope["low_freq_factor"], rope["high_freq_factor"]
            smooth = (trained / wave - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


def quantised(array: np.ndarray, kind: str) -> np.ndarray:
    """A matrix as blocks: by the package, or random ones of the types that it cannot make."""
    try:
        return np.asarray(gguf.quants.quantize(array, gguf.GGMLQuantizationType[kind]))
    except NotImplementedError:
        return drawn_blocks(KINDS[kind], array.shape)


def dequantised(data: np.ndarray, kind: str) -> np.ndarray:
    """The numbers of blocks, uint8[rows, bytes], by the package."""
    return np.asarray(gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind]))


def without_scales(kind: str, data: np.ndarray) -> np.ndarray:
    """A matrix with some blocks whose scales are zero, and others whose minima are too."""
    blocks = data.reshape(-1, KINDS[kind].size).copy()
    halves = list(HALVES[kind])
    for n, at in enumerate(halves):
        blocks[n :: 2 + n, at : at + 2] = 0
    blocks[::3, halves] = 0
    blocks[::3, [at + 1 for at in halves]] = 128  # minus zero
    return blocks.reshape(data.shape)


def write_gguf(
    path: Path, folder: Path, kind: str | None = None, fields: dict[str, Any] | None = None
) -> Path:
    """A folder's model as a GGUF file, with matrices quantised to `kind`, and further fields."""
    values = json.loads((folder / "config.json").read_text())
    arch = ARCHITECTURES.get(values["model_type"], values["model_type"])

    def first(*names: str) -> Any:
        return next((values[n] for n in names if values.get(n) is not None), None)

    w = gguf.GGUFWriter(path, arch)
    heads, width = first("num_attention_heads", "n_head"), first("hidden_size", "n_embd")
    layers = first("num_hidden_layers", "n_layer")
    w.add_block_count(layers)
    w.add_embedding_length(width)
    w.add_head_count(heads)
    w.add_head_count_kv(first("num_key_value_heads") or heads)
    w.add_context_length(first("max_position_embeddings", "n_positions"))
    w.add_feed_forward_length(first("intermediate_size") or 4 * width)
    w.add_eos_token_id(2)
    for name, value in (fields or {}).items():
        add = w.add_string if isinstance(value, str) else w.add_array
        add(name, value if isinstance(value, str) else list(value))
    if values.get("head_dim"):
        w.add_key_length(values["head_dim"])
    if arch == "gpt2":
        w.add_layer_norm_eps(values["layer_norm_epsilon"])
    else:
        w.add_layer_norm_rms_eps(values["rms_norm_eps"])
        rope = values["rope_parameters"]
        w.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
        if rope.get("rope_type") == "llama3":
            w.add_tensor("rope_freqs.weight", divisors(rope, width // heads))
        w.add_rope_dimension_count(first("head_dim") or width // heads)
    for name, add in (
        ("sliding_window", w.add_sliding_window),
        ("attn_logit_softcapping", w.add_attn_logit_softcapping),
        ("final_logit_softcapping", w.add_final_logit_softcapping),
    ):
        if values.get(name):
            add(values[name])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], layers)
    for name, weight in load_file(folder / "model.safetensors").items():
        array = converted(name, weight, values, arch)
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if kind and array.ndim == 2:
            number = gguf.GGMLQuantizationType[kind]
            w.add_tensor(new, quantised(array, kind), raw_dtype=number)
        else:
            w.add_tensor(new, array)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


@pytest.mark.parametrize("number", BLOCK_TYPES)
def test_blocks_decode_to_the_bit(number: int) -> None:
    """All bit patterns, NaN and infinite scales too, against the package's own decoder."""
    kind = BLOCK_TYPES[number]
    quant = gguf.GGMLQuantizationType(number)
    assert quant.name == kind.name and gguf.GGML_QUANT_SIZES[quant] == (kind.elements, kind.size)
    blocks = np.random.default_rng(number).integers(0, 256, (512, kind.size), np.uint8)
    if kind.elements > 1:
        blocks[0], blocks[1] = 0, 255
    with np.errstate(all="ignore"):
        ours = decode(kind, blocks.reshape(-1), (512, kind.elements))
        theirs = gguf.quants.dequantize(blocks, quant)
    assert ours.dtype == np.float32
    same = ours.view(np.uint32) == np.ascontiguousarray(theirs, np.float32).view(np.uint32)
    assert (same | (np.isnan(ours) & np.isnan(theirs))).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_that_of_its_folder(tmp_path: Path, name: str) -> None:
    saved(tmp_path / "folder", *MODELS[name])
    path = write_gguf(tmp_path / "model.gguf", tmp_path / "folder")
    ours, folder = explorer.load(path), explorer.load(tmp_path / "folder")
    assert isinstance(ours, LanguageModel) and isinstance(folder, LanguageModel)
    assert ours.ends == {2}
    texts = list(np.random.default_rng(2).integers(0, 61, (2, 20)))
    for a, b in zip(*(scores_of_steps(m, texts, [12, 5]) for m in (ours, folder)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * abs(b).max())


@pytest.mark.parametrize("kind", ["F16", "BF16", *QUANTISED])
def test_a_quantised_model_has_the_weights_that_the_package_decodes(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    width = KINDS[kind].elements if kind.endswith("K") else 64
    values = {**SIZES, "hidden_size": width, "intermediate_size": max(width, 96)}
    is_drawn = width == 256
    saved(tmp_path / "folder", "LlamaConfig", {**values, "tie_word_embeddings": is_drawn})
    path = write_gguf(tmp_path / "model.gguf", tmp_path / "folder", kind)
    file = read_gguf(path)
    for tensor in gguf.GGUFReader(path).tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(file.tensors[tensor.name].array, expected)
    assert {t.kind.name for t in file.tensors.values()} == {kind, "F32"}
    model = explorer.load(path)
    assert isinstance(model, LanguageModel)
    text = [np.arange(20)]
    a = scores_of_steps(model, text, [9])[0]
    if not is_drawn:
        exact = explorer.load(tmp_path / "folder")
        assert isinstance(exact, LanguageModel)
        b = scores_of_steps(exact, text, [9])[0]
        assert 0 < abs(a - b).max() < 0.5 * abs(b).max()
    dtypes = {c.type.dtype for c in model.program.constants.values() if c.type.rank > 1}
    assert dtypes == ({"uint8", "float32"} if kind.startswith("Q") else {"float32"})
    monkeypatch.setattr(family_weights, "packed_matrix", lambda kind, data, shape: None)
    decoded = explorer.load(path)
    assert isinstance(decoded, LanguageModel)
    c = scores_of_steps(decoded, text, [9])[0]
    assert abs(a - c).max() <= 1e-5 * abs(c).max()


@pytest.mark.parametrize("kind", QUANTISED)
def test_packed_matrices_hold_the_numbers_that_the_package_decodes(kind: str) -> None:
    drawn = drawn_blocks(KINDS[kind], (5, 1024))
    for data in (drawn, without_scales(kind, drawn)):
        packed = packed_matrix(KINDS[kind], data.reshape(-1), (5, 1024))
        assert packed is not None and packed.shape == (5, 1024)
        codes = unpacked(packed.codes.array, packed.bits).astype(np.float64)
        expected = dequantised(data, kind).reshape(codes.shape)
        scales = packed.scales.array[..., None].astype(np.float64)
        if packed.minima is None or packed.zeros is None:
            numbers = (codes - 2.0 ** (packed.bits - 1)) * scales
            np.testing.assert_array_equal(numbers.astype(np.float32), expected)
        else:
            minima, zeros = (c.array[..., None] for c in (packed.minima, packed.zeros))
            numbers = codes * scales - minima
            np.testing.assert_array_equal(numbers.astype(np.float32), expected)
            by_zeros = (codes - zeros) * scales
            assert (abs(by_zeros - numbers) <= 2.0**-24 * abs(minima.astype(np.float64))).all()
            assert np.isfinite(zeros).all()


@pytest.mark.parametrize("is_without_scales", [False, True])
@pytest.mark.parametrize("kind", QUANTISED)
def test_packed_products_and_rows_are_those_of_decoded_weights(
    kind: str, is_without_scales: bool
) -> None:
    """With one row, and with many, for which weights are decoded first."""
    shape = (70, 512)
    data = drawn_blocks(KINDS[kind], shape)
    if is_without_scales:
        data = without_scales(kind, data)
    weights = dequantised(data, kind)
    packed = packed_matrix(KINDS[kind], data.reshape(-1), shape)
    assert packed is not None

    def step(x: Any, ids: Any) -> dict[str, Any]:
        weight = operand("w", packed)
        return {"y": multiply_rows(x, weight), "rows": take_rows(weight, ids)}

    ids = np.array([[0, 69, 3], [3, 50, 1]])
    for rows in (1, 20):
        x = np.random.default_rng(rows).standard_normal((rows, shape[1])).astype(np.float32)
        inputs = {
            "x": explorer.tensor("float32", rows, shape[1]),
            "ids": explorer.tensor("int64", *ids.shape),
        }
        c = explorer.compile(explorer.trace(step)(**inputs))
        outputs = c.run({"x": x, "ids": ids})
        right = x.astype(np.float64) @ weights.T.astype(np.float64)
        assert abs(outputs["y"] - right).max() <= 1e-6 * abs(right).max()
        assert (outputs["rows"].view(np.uint32) == weights[ids].view(np.uint32)).all()


def test_a_packed_embedding_is_never_float32_as_a_whole(tmp_path: Path) -> None:
    values = {**SIZES, "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96}
    saved(tmp_path / "folder", "LlamaConfig", {**values, "tie_word_embeddings": True})
    path = write_gguf(tmp_path / "model.gguf", tmp_path / "folder", "Q4_1")
    model = explorer.load(path)
    assert isinstance(model, LanguageModel)
    c = explorer.compile(model, donate=model.caches)
    for program in (model.program, *(s.after for s in c.snapshots)):
        sizes = [v.nbytes for v in program.constants.values()]
        assert max(sizes) <= 1000 * 64  # a byte an element


def test_other_types_are_refused_by_name(tmp_path: Path) -> None:
    for kind in gguf.GGMLQuantizationType:
        path = tmp_path / f"{kind.name}.gguf"
        w = gguf.GGUFWriter(path, "llama")
        size = gguf.GGML_QUANT_SIZES[kind][1]
        w.add_tensor("t", np.zeros((1, size), np.uint8), raw_dtype=kind)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        if kind in BLOCK_TYPES:
            assert read_gguf(path).tensors["t"].kind.name == kind.name
        else:
            with pytest.raises(DtypeError, match=f"'t' has the type {kind.name} of ggml") as error:
                read_gguf(path)
            assert "\n" not in error.value.sentence


def test_fields_are_those_of_the_package(tmp_path: Path) -> None:
    path = tmp_path / "fields.gguf"
    w = gguf.GGUFWriter(path, "llama")
    w.add_string("a.text", "wörd")
    w.add_array("a.list", ["x", "", "y"])
    w.add_array("a.numbers", [1.5, -2.0])
    w.add_int64("a.whole", -(2**40))
    w.add_bool("a.flag", True)
    w.add_uint8("a.byte", 255)
    w.add_float64("a.float", 0.1)
    w.add_tensor("t", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    file = read_gguf(path)
    assert file.fields["a.text"] == "wörd" and file.fields["a.list"] == ("x", "", "y")
    assert file.fields["a.numbers"].tolist() == [1.5, -2.0]
    assert file.fields["a.whole"] == -(2**40) and file.fields["a.flag"] is True
    assert file.fields["a.byte"] == 255 and file.fields["a.float"] == 0.1
    np.testing.assert_array_equal(file.tensors["t"].array, [[0, 1, 2], [3, 4, 5]])
