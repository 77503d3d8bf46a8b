"""Counts which transformers models run and train to PyTorch's numbers, by torch.export and by ONNX.

    python -m tests.benchmarks transformers_models [--modes export,onnx,one,five] [--only bert,vit]

Each model is small, its weights are random, and it runs in a process of its own, which is killed
when a mode takes too long. Models that PyTorch's exporter writes no ONNX of are not counted there.

export   loaded from torch.export, compiled, and run
onnx     written by PyTorch's exporter to ONNX, compiled, and run
one      its weights after one step of gradient descent
five     its weights after five steps
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.op_db import GIVEN, array, compare, flags, judged, quiet, report

MODES = ("export", "onnx", "one", "five")
RATE = 0.01
BATCH, LENGTH, WORDS, WIDTH, SIDE = 2, 6, 50, 16, 32
TEXT = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size"), WIDTH),
    **dict.fromkeys(("intermediate_size", "d_ff", "n_inner", "hidden_dim", "ffn_dim"), 2 * WIDTH),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 2 * WIDTH),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
    **dict.fromkeys(("num_key_value_heads",), 1),
    **dict.fromkeys(("head_dim", "d_kv"), WIDTH // 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx"), 32),
    "vocab_size": WORDS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout", "dropout_rate"), 0.0),
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0),
    **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout"), 0.0),
    "use_cache": False,
}
IMAGE = {**TEXT, "image_size": SIDE, "patch_size": 8, "drop_path_rate": 0.0}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "gptj": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "mixtral": {"num_local_experts": 4},
    "qwen2_moe": {"num_experts": 4, "moe_intermediate_size": 16}
    | {"shared_expert_intermediate_size": 16},
    "opt": {"word_embed_proj_dim": WIDTH},
}
STAGED: Mapping[str, Mapping[str, Any]] = {
    "convnext": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16]},
    "resnet": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16], "embedding_size": 8},
    "swin": {"image_size": SIDE, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2]}
    | {"window_size": 4},
}
TEXTS = (
    *("bert", "roberta", "distilbert", "albert", "electra", "mpnet", "xlm-roberta", "camembert"),
    *("ernie", "roformer", "megatron-bert", "deberta-v2", "gpt2", "gpt_neo", "gptj", "gpt_neox"),
    *("opt", "bloom", "llama", "mistral", "qwen2", "qwen3", "phi", "phi3", "gemma", "gemma2"),
    *(
        "gpt_bigcode",
        "stablelm",
        "starcoder2",
        "olmo2",
        "cohere",
        "granite",
        "mixtral",
        "qwen2_moe",
    ),
)
PAIRS = ("t5", "bart", "pegasus", "marian")
IMAGES = ("vit", "deit", "dinov2", "beit", "convnext", "resnet", "swin")
MODELS = (*TEXTS, *PAIRS, *IMAGES)


def settings_of(name: str) -> Mapping[str, Any]:
    """Return the settings of a small model; one of stages has its own alone."""
    if name in STAGED:
        return STAGED[name]
    return {**(IMAGE if name in IMAGES else TEXT), **SETTINGS.get(name, {})}


def module_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a model that gives one tensor, and its inputs."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name)
    for key, value in settings_of(name).items():
        if hasattr(config, key) or key in config.attribute_map:
            setattr(config, key, value)
    config._attn_implementation = "eager"
    whole = transformers.AutoModel.from_config(config).eval()
    words = torch.randint(3, WORDS, (BATCH, LENGTH))
    given: dict[str, Any] = {"input_ids": words}
    if name in IMAGES:
        given = {"pixel_values": torch.randn(BATCH, 3, SIDE, SIDE)}
    if name in PAIRS:
        given["decoder_input_ids"] = words.flip(1)

    class Plain(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.whole = whole

        def forward(self, *inputs: Any) -> Any:
            found = self.whole(**dict(zip(given, inputs, strict=True)), return_dict=True)
            return found.last_hidden_state

    return Plain(), tuple(given.values())


def ran(name: str, way: str) -> tuple[str, str] | None:
    """Return status and reason of one run by torch.export or by ONNX; None where PyTorch's exporter
    writes no ONNX.
    """
    import torch

    import explorer

    module, inputs = module_of(name)
    with torch.no_grad():
        wanted = [array(module(*inputs))]
    if way == "export":
        model = explorer.load(torch.export.export(module, inputs))
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            try:
                torch.onnx.export(module, inputs, path, dynamo=True, verbose=False)
            except Exception:  # of PyTorch's exporter, of any kind
                return None
            model = explorer.load(path)
    compiled = explorer.compile(model)
    feeds = dict(zip(model.inputs, map(array, inputs), strict=True))
    problem = compare(list(compiled.run(feeds).values()), wanted)
    return ("wrong", problem) if problem else ("right", "")


def trained(name: str, steps: int) -> tuple[str, str]:
    """Return status and reason of so many steps of gradient descent, by all weights."""
    import torch

    import explorer
    from explorer.training import SGD, squared_error, trainable

    module, inputs = module_of(name)
    target = torch.randn_like(module(*inputs))
    model = trainable(torch.export.export(module, inputs))
    names = {n for n, p in module.named_parameters() if n in model.names and p.requires_grad}
    fixed = {n: a for n, a in model.params.items() if n not in names}
    first = {n: a for n, a in model.params.items() if n in names}

    def loss(params: Any, goal: Any, *given: Any) -> Any:
        return squared_error(model({**fixed, **params}, *given), goal)

    batch = (array(target), *map(array, inputs))
    fitted = explorer.fit(loss, first, [batch] * steps, SGD(RATE))
    optimizer = torch.optim.SGD(module.parameters(), RATE)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        total = ((module(*inputs) - target) ** 2).mean()
        total.backward()
        optimizer.step()
        losses.append(total.item())
    wanted = {n: array(p) for n, p in module.named_parameters()}
    for n, got in fitted.params.items():
        problem = compare([got], [wanted[n]])
        if problem:
            return "wrong", f"{n}: {problem}"
    still = [n for n, p in module.named_parameters() if p.grad is not None and n not in names]
    if still:
        return "wrong", f"{still[0]} is not trained"
    close = np.allclose(fitted.losses, losses, *GIVEN)
    return ("right", "") if close else ("wrong", f"losses {fitted.losses} for {losses}")


def result(name: str, mode: str) -> tuple[str, str] | None:
    """Return status and reason of a model in a mode."""
    return trained(name, 1 if mode == "one" else 5) if mode in ("one", "five") else ran(name, mode)


def model(name: str, modes: Sequence[str], pipe: Any) -> None:
    """Send a line for the start and the end of each mode of a model."""
    quiet()
    for mode in modes:
        pipe.send((mode, 0, None))
        pipe.send((mode, 0, judged(partial(result, name), mode) or ("uncounted", "")))
    pipe.send(None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the models."""
    asked = flags(MODES, 300.0)
    asked.description = __doc__
    found = asked.parse_args(arguments)
    modes = [m for m in MODES if m in found.modes.split(",")]
    only = [n for n in found.only.split(",") if n]
    return report(model, [n for n in MODELS if not only or n in only], modes, found)


if __name__ == "__main__":
    sys.exit(main())
