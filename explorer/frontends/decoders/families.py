"""Families of Hugging Face models: the names of their fields and weights, as tables.

`{n}` is the number of a layer. The name of a bias is its weight's, with `bias` in place of
`weight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ATTENTION = frozenset(("query", "key", "value"))
LAYER = "model.layers.{n}."
LLAMA_NAMES = {
    "embedding": "model.embed_tokens.weight",
    "norm": "model.norm.weight",
    "scores": "lm_head.weight",
    "attention.norm": f"{LAYER}input_layernorm.weight",
    "query": f"{LAYER}self_attn.q_proj.weight",
    "key": f"{LAYER}self_attn.k_proj.weight",
    "value": f"{LAYER}self_attn.v_proj.weight",
    "query.norm": f"{LAYER}self_attn.q_norm.weight",
    "key.norm": f"{LAYER}self_attn.k_norm.weight",
    "answer": f"{LAYER}self_attn.o_proj.weight",
    "inner.norm": f"{LAYER}post_attention_layernorm.weight",
    "gate": f"{LAYER}mlp.gate_proj.weight",
    "up": f"{LAYER}mlp.up_proj.weight",
    "down": f"{LAYER}mlp.down_proj.weight",
}
GEMMA_NAMES = LLAMA_NAMES | {  # of the second version on: a norm before and after each part
    "answer.norm": f"{LAYER}post_attention_layernorm.weight",
    "inner.norm": f"{LAYER}pre_feedforward_layernorm.weight",
    "down.norm": f"{LAYER}post_feedforward_layernorm.weight",
}
BLOCK = "transformer.h.{n}."
GPT2_NAMES = {
    "embedding": "transformer.wte.weight",
    "positions": "transformer.wpe.weight",
    "norm": "transformer.ln_f.weight",
    "scores": "lm_head.weight",
    "attention.norm": f"{BLOCK}ln_1.weight",
    "query+key+value": f"{BLOCK}attn.c_attn.weight",
    "answer": f"{BLOCK}attn.c_proj.weight",
    "inner.norm": f"{BLOCK}ln_2.weight",
    "up": f"{BLOCK}mlp.c_fc.weight",
    "down": f"{BLOCK}mlp.c_proj.weight",
}
GPT2_FIELDS = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}


@dataclass(frozen=True, slots=True)
class Family:
    """How a family's files name things, and what its members share.

    Attributes:
        names: The file's name of each weight; `a+b` are the rows of several in one tensor.
        fields: Fields of its configuration under other names than Llama's.
        biases: Projections with a bias.
        transposed: Matrices are [inputs, outputs].
        norm_offset: Added to the scales of the norms.
        windows: Which layers have a sliding window, where `layer_types` does not say: every layer,
            all but each so many-th, or none (0).
        inner: MLP width over the model's, where the configuration has none.
        interleaved: Rotary pairs are neighbours.
    """

    names: Mapping[str, str] = field(default_factory=lambda: LLAMA_NAMES)
    fields: Mapping[str, str] = field(default_factory=dict)
    biases: frozenset[str] = frozenset()
    transposed: bool = False
    norm: str = "rms"
    norm_offset: float = 0.0
    gated: bool = True
    head_norms: bool = False
    post_norms: bool = False
    scaled_embedding: bool = False  # by the root of the width
    tied: bool = False  # if the configuration does not say
    learned_positions: bool = False
    windows: int = 0
    activation: str | None = None
    inner: int = 0
    interleaved: bool = False


FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family(windows=1),
    "qwen2": Family(biases=ATTENTION),
    "qwen3": Family(head_norms=True),
    "smollm3": Family(tied=True),
    "phi3": Family(
        {n: t for n, t in LLAMA_NAMES.items() if n not in (*ATTENTION, "gate", "up")}
        | {
            "query+key+value": f"{LAYER}self_attn.qkv_proj.weight",
            "gate+up": f"{LAYER}mlp.gate_up_proj.weight",
        },
        windows=1,
    ),
    "gemma": Family(norm_offset=1.0, scaled_embedding=True, tied=True, activation="gelu_tanh"),
    "gemma2": Family(
        GEMMA_NAMES,
        {"hidden_act": "hidden_activation"},
        norm_offset=1.0,
        post_norms=True,
        scaled_embedding=True,
        tied=True,
        windows=2,
    ),
    "gemma3_text": Family(
        GEMMA_NAMES,
        {"hidden_act": "hidden_activation"},
        norm_offset=1.0,
        head_norms=True,
        post_norms=True,
        scaled_embedding=True,
        tied=True,
        windows=6,
    ),
    "gpt2": Family(
        GPT2_NAMES,
        GPT2_FIELDS,
        biases=frozenset(("query", "key", "value", "answer", "up", "down")),
        transposed=True,
        norm="layer",
        gated=False,
        tied=True,
        learned_positions=True,
        inner=4,
    ),
}

# GGUF.

BLK = "blk.{n}."
GGUF_NAMES = {
    "embedding": "token_embd.weight",
    "positions": "position_embd.weight",
    "norm": "output_norm.weight",
    "scores": "output.weight",
    "attention.norm": f"{BLK}attn_norm.weight",
    "query": f"{BLK}attn_q.weight",
    "key": f"{BLK}attn_k.weight",
    "value": f"{BLK}attn_v.weight",
    "query.norm": f"{BLK}attn_q_norm.weight",
    "key.norm": f"{BLK}attn_k_norm.weight",
    "answer": f"{BLK}attn_output.weight",
    "answer.norm": f"{BLK}post_attention_norm.weight",
    "inner.norm": f"{BLK}ffn_norm.weight",
    "gate": f"{BLK}ffn_gate.weight",
    "up": f"{BLK}ffn_up.weight",
    "down": f"{BLK}ffn_down.weight",
    "down.norm": f"{BLK}post_ffw_norm.weight",
}
FUSED_QKV = {"query+key+value": f"{BLK}attn_qkv.weight"}
GGUF_FIELDS = {  # of a configuration; each follows the architecture's name and a dot
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "layer_norm_epsilon": "attention.layer_norm_epsilon",
    "sliding_window": "attention.sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}


def _in_gguf(family: Family, activation: str = "silu", **changes: Any) -> Family:
    """Return a family as GGUF files have it: no offset of norms, and matrices [outputs, inputs]."""
    fused = "query+key+value" in family.names
    names = {n: t for n, t in GGUF_NAMES.items() if not (fused and n in ATTENTION)}
    if fused:
        names |= FUSED_QKV
    if "gate+up" in family.names:
        names = {n: t for n, t in names.items() if n not in ("gate", "up")}
        names["gate+up"] = GGUF_NAMES["up"]
    return replace(
        family,
        names=names,
        fields={},
        transposed=False,
        norm_offset=0.0,
        activation=activation,
        **changes,
    )


GGUF_FAMILIES: Mapping[str, Family] = {
    "llama": _in_gguf(FAMILIES["llama"], interleaved=True),
    "qwen2": _in_gguf(FAMILIES["qwen2"]),
    "qwen3": _in_gguf(FAMILIES["qwen3"]),
    "phi3": _in_gguf(FAMILIES["phi3"]),
    "gemma": _in_gguf(FAMILIES["gemma"], "gelu_tanh"),
    "gemma2": _in_gguf(FAMILIES["gemma2"], "gelu_tanh"),
    "gemma3": _in_gguf(FAMILIES["gemma3_text"], "gelu_tanh"),
    "gpt2": _in_gguf(FAMILIES["gpt2"], "gelu_tanh"),
}
