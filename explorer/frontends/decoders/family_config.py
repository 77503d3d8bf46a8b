"""The description of a decoder from the fields of a configuration, by its family's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

from explorer.errors import BadModelFile
from explorer.frontends.decoders.checked_json import Fields
from explorer.frontends.decoders.decoder_config import (
    MAX_LAYERS,
    DecoderConfig,
    LayerPositions,
    Rotary,
)
from explorer.frontends.decoders.families import ATTENTION, Family

ACTIVATIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
SLIDING = {"sliding_attention": True, "full_attention": False}
ROPE_TYPES = ("default", "linear", "llama3")


def config_of(family: Family, values: Mapping[str, Any], where: str) -> DecoderConfig:
    """Return the description that a configuration's fields mean in a family.

    Raises:
        BadModelFile: a field is missing, of another type, or out of its range.
    """
    own = family.fields
    renamed = {ours: values[theirs] for ours, theirs in own.items() if theirs in values}
    f = Fields({**values, **renamed}, where)
    heads, width = f.integer("num_attention_heads"), f.integer("hidden_size")
    each = f.integer("head_dim", max(width // heads, 1))
    biases = set(family.biases)
    if f.flag("attention_bias", False):
        biases |= {*ATTENTION, "answer"}
    if f.flag("mlp_bias", False):
        biases |= {"gate", "up", "down"}
    scalar = f.number("query_pre_attn_scalar", each)
    activation = family.activation or f.choice("hidden_act", ACTIVATIONS)
    return DecoderConfig(
        vocabulary=f.integer("vocab_size"),
        width=width,
        heads=heads,
        groups=f.integer("num_key_value_heads", heads),
        each=each,
        inner=f.integer("intermediate_size", family.inner * width or None),
        layers=tuple(_layers(family, f, each)),
        norm=family.norm,
        epsilon=f.number("rms_norm_eps", 1e-5 if family.norm == "layer" else 1e-6),
        activation=activation,
        gated=family.gated,
        biases=frozenset(biases),
        head_norms=family.head_norms,
        post_norms=family.post_norms,
        tied=f.flag("tie_word_embeddings", family.tied),
        positions=f.integer("max_position_embeddings") if family.learned_positions else 0,
        embedding_scale=sqrt(width) if family.scaled_embedding else 1.0,
        attention_scale=1 / sqrt(scalar),
        attention_cap=_optional(f, "attn_logit_softcapping"),
        scores_cap=_optional(f, "final_logit_softcapping"),
    ).checked(where)


def _optional(f: Fields, name: str) -> float:
    return f.number(name) if name in f else 0.0


def _layers(family: Family, f: Fields, each: int) -> Iterator[LayerPositions]:
    """Yield how each layer sees positions."""
    count = f.integer("num_hidden_layers")
    if count > MAX_LAYERS:
        raise BadModelFile(f"{f.where} has {count} layers; at most {MAX_LAYERS} are supported")
    sliding = _sliding(family, f, count)
    window = f.integer("sliding_window") if "sliding_window" in f else 0
    rotated = [1] * count
    if "no_rope_layers" in f:
        rotated = f.items("no_rope_layers", lambda n: n in (0, 1), "0 and 1", count)
    for n in range(count):
        rotary = None
        if rotated[n] and not family.learned_positions:
            rotary = _rotary(f, each, sliding[n], family.interleaved)
        yield LayerPositions(rotary, window if sliding[n] else 0)


def _sliding(family: Family, f: Fields, count: int) -> list[bool]:
    """Return which layers have the window."""
    if "layer_types" in f:
        kinds = f.items("layer_types", lambda k: k in SLIDING, " or ".join(SLIDING), count)
        return [SLIDING[k] for k in kinds]
    if not f.flag("use_sliding_window", True):
        return [False] * count
    period = family.windows
    if "sliding_window_pattern" in f:
        period = f.integer("sliding_window_pattern")
    return [period == 1 or (period > 1 and (n + 1) % period > 0) for n in range(count)]


def _rotary(f: Fields, each: int, sliding: bool, interleaved: bool) -> Rotary:
    """Return the rotation of a layer, from the fields of either generation of files."""
    new = f.inner("rope_parameters")
    for name in SLIDING:
        if name in new and SLIDING[name] == sliding:
            new = new.inner(name)
    old = f.inner("rope_scaling")
    local = sliding and "rope_local_base_freq" in f
    if new.values:
        scaling, base = new, new.number("rope_theta", 10000.0)
    else:
        base = f.number("rope_local_base_freq" if local else "rope_theta", 10000.0)
        scaling = Fields({}, f.where) if local else old
    share = scaling.number("partial_rotary_factor", f.number("partial_rotary_factor", 1.0))
    width = int(each * share)
    if not 0 < width <= each or width % 2:
        raise BadModelFile(f"{f.where} rotates {width} elements of a head of {each}")
    rotary = Rotary(base, width, interleaved=interleaved)
    kind = scaling.word("rope_type", scaling.word("type", "default"))
    if kind not in ROPE_TYPES:
        raise BadModelFile(
            f"{f.where} scales rotary positions by {kind!r}, which is not supported",
            where="rope_type",
            expected=", ".join(ROPE_TYPES),
        )
    if kind == "default":
        return rotary
    factor = scaling.number("factor")
    if kind == "linear":
        return replace(rotary, divisors=(factor,) * (width // 2))
    low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
    trained = scaling.number("original_max_position_embeddings")
    if not low < high:
        raise BadModelFile(f"{f.where}: low_freq_factor must be below high_freq_factor")
    return replace(rotary, divisors=rotary.stretched(factor, low, high, trained))
