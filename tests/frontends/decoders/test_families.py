"""Each family's step against transformers: a prefill of unequal prompts, then word by word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.frontends.decoders.family_weights import as_float32
from explorer.frontends.decoders.language_model import LanguageModel
from tests.frontends.decoders.tiny_models import LLAMA, SIZES, write_folder

STEPS = 5
LLAMA31 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
SEVEN = {**SIZES, "num_hidden_layers": 7}  # the sixth layer of Gemma 3 attends to all positions
GPT2 = {"vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", SIZES),
    "llama, biases": ("LlamaConfig", {**SIZES, "attention_bias": True, "mlp_bias": True}),
    "llama, own head width": ("LlamaConfig", {**SIZES, "head_dim": 6, "num_key_value_heads": 4}),
    "llama 3.1": ("LlamaConfig", {**SIZES, "rope_parameters": LLAMA31}),
    "llama, linear, tied": (
        "LlamaConfig",
        {**SIZES, "rope_parameters": LINEAR, "tie_word_embeddings": True},
    ),
    "mistral": ("MistralConfig", {**SIZES, "sliding_window": 5}),
    "mistral, no window": ("MistralConfig", {**SIZES, "sliding_window": None}),
    "qwen2": ("Qwen2Config", SIZES),
    "qwen2, windows": (
        "Qwen2Config",
        {**SIZES, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3Config", {**SIZES, "head_dim": 16}),
    "gemma": ("GemmaConfig", {**SIZES, "head_dim": 16}),
    "gemma 2": (
        "Gemma2Config",
        {**SIZES, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 20},
    ),
    "gemma 3": ("Gemma3TextConfig", {**SEVEN, "head_dim": 16, "sliding_window": 5}),
    "phi-3": ("Phi3Config", SIZES),
    "phi-3, partly rotated": (
        "Phi3Config",
        {**SIZES, "partial_rotary_factor": 0.5, "sliding_window": 6},
    ),
    "gpt-2": ("GPT2Config", GPT2),
    "smollm 3": ("SmolLM3Config", {**SIZES, "num_hidden_layers": 4}),
}


def saved(folder: Path, kind: str, values: dict[str, Any], **options: Any) -> Any:
    """A random model of transformers, saved in a folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    words = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = getattr(transformers, kind)(**words, **values)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    torch.manual_seed(0)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    model.save_pretrained(folder, **options)
    return model.eval()


def caches(model: LanguageModel, batch: int, room: int) -> dict[str, np.ndarray]:
    assert model.config is not None
    shape = (batch, model.config.groups, room, model.config.each)
    return {name: np.zeros(shape, np.float32) for name in model.caches}


def scores_of_steps(
    model: LanguageModel, texts: list[np.ndarray], lengths: list[int], room: int = 32
) -> list[np.ndarray]:
    """Scores after the prompts, then after each further word, [batch, vocabulary] each."""
    c = explorer.compile(model, donate=model.caches)
    n = max(lengths)
    ids = np.zeros((len(texts), n), np.int64)
    for row, text, length in zip(ids, texts, lengths, strict=True):
        row[n - length :] = text[:length]
    at = np.array(lengths) - n
    state, steps = caches(model, len(texts), room), []
    for step in range(STEPS):
        outputs = c.run({"ids": ids, "at": at, **state})
        state = {name: outputs[name] for name in model.caches}
        steps.append(outputs["scores"].copy())
        at = at + ids.shape[1]
        ids = np.array([[text[k + step]] for text, k in zip(texts, lengths, strict=True)])
    return steps


@pytest.mark.parametrize("lengths", [[1], [12], [7, 3, 12]])
@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_those_of_transformers(tmp_path: Path, name: str, lengths: list[int]) -> None:
    reference = saved(tmp_path, *FAMILIES[name])
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    texts = [rng.integers(0, 61, k + STEPS) for k in lengths]
    with torch.no_grad():
        expected = [reference(torch.tensor(t)[None]).logits[0].numpy() for t in texts]
    model = explorer.load(tmp_path)
    assert isinstance(model, LanguageModel) and model.ends == {2}
    for step, scores in enumerate(scores_of_steps(model, texts, lengths)):
        for row, (logits, length) in enumerate(zip(expected, lengths, strict=True)):
            logit = logits[length - 1 + step]
            np.testing.assert_allclose(scores[row], logit, rtol=0, atol=1e-4 * abs(logit).max())


def test_shards_are_read_by_their_index(tmp_path: Path) -> None:
    saved(tmp_path / "one", "LlamaConfig", SIZES)
    saved(tmp_path / "many", "LlamaConfig", SIZES, max_shard_size="20KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    one, many = explorer.load(tmp_path / "one"), explorer.load(tmp_path / "many")
    assert one.program.constants == many.program.constants


def test_fields_of_older_files_are_read(tmp_path: Path) -> None:
    """Files before version 5 of transformers have `rope_theta` and `rope_scaling`."""
    old = {"rope_theta": 1e4, "rope_scaling": {**LLAMA31, "rope_type": "llama3"}}
    new = {"rope_parameters": LLAMA31}
    models = [explorer.load(write_folder(tmp_path / "a", {**LLAMA, **f})) for f in (old, new)]
    assert models[0].digest == models[1].digest
    scaled = explorer.load(write_folder(tmp_path / "a", LLAMA))
    assert scaled.digest != models[0].digest


def test_a_file_without_a_head_has_names_without_a_prefix(tmp_path: Path) -> None:
    """GPT-2 as it was published: `wte.weight` in place of `transformer.wte.weight`."""
    saved(tmp_path, "GPT2Config", GPT2)
    before = explorer.load(tmp_path)
    from safetensors.numpy import load_file, save_file

    tensors = load_file(tmp_path / "model.safetensors")
    save_file(
        {n.removeprefix("transformer."): t for n, t in tensors.items()},
        tmp_path / "model.safetensors",
    )
    after = explorer.load(tmp_path).program.constants
    constants = {n.removeprefix("transformer."): c for n, c in before.program.constants.items()}
    assert after == constants and "h.0.attn.c_attn.weight.query" in after


def test_half_precision_is_widened_exactly(tmp_path: Path) -> None:
    half = explorer.load(write_folder(tmp_path / "half", dtype=np.float16))
    assert {str(c.array.dtype) for c in half.program.constants.values()} <= {"float32", "int64"}
    torch = pytest.importorskip("torch")
    values = torch.randn(1000, dtype=torch.float32).to(torch.bfloat16)
    bits = values.view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(as_float32(bits), values.to(torch.float32).numpy())


def test_float32_weights_are_the_mapped_file(tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path))
    mapped = [c.array for c in model.program.constants.values() if c.array.ndim == 2]
    matrices = [a for a in mapped if 32 in a.shape]
    assert len(matrices) == 2 + 2 * 7
    for array in matrices:
        base: Any = array
        while base.base is not None and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap)


def test_kernels_read_rows_of_the_mapped_embedding_where_they_lie(tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path))
    c = explorer.compile(model, donate=model.caches)
    constants = model.program.constants
    names = {a.name for b in c.program.kernel_calls for a in b.kernel_call.args} & constants.keys()
    (embedding,) = (n for n in names if constants[n].shape == (61, 32))
    read = c.executable.constants.plain(embedding)
    assert np.shares_memory(read, constants[embedding].array)


def test_the_caches_stay_in_place(tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path))
    c = explorer.compile(model, donate=model.caches)
    assert c.donated == {name: name for name in model.caches}
    state = caches(model, 1, 64)
    ids, at = np.array([[5]]), np.array([0])
    c.run({"ids": ids, "at": at, **state})
    with explorer.counters.delta() as did:
        outputs = c.run({"ids": ids, "at": at + 1, **state})
    assert did.counts.arrays_made == 1  # the scores
    assert did.counts.runs == 1 and did.counts.kernel_compiles == 0
    for name in model.caches:
        assert np.shares_memory(outputs[name], state[name])
        assert state[name][0, :, :2].any() and not state[name][0, :, 2:].any()


def test_padding_changes_no_score(tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path))
    c = explorer.compile(model)
    ids = np.array([[9, 8, 7]])
    alone = c.run({"ids": ids, "at": np.array([0]), **caches(model, 1, 64)})
    padded = np.concatenate([np.full((1, 13), 60), ids], axis=1)
    after = c.run({"ids": padded, "at": np.array([-13]), **caches(model, 1, 64)})
    np.testing.assert_allclose(after["scores"], alone["scores"], rtol=1e-5, atol=1e-5)


def test_several_words_may_end_a_text(tmp_path: Path) -> None:
    model = explorer.load(write_folder(tmp_path, {**LLAMA, "eos_token_id": [2, 7]}))
    assert isinstance(model, LanguageModel) and model.ends == {2, 7}
