"""A language model of a file: a decode step and a prefill, in turns with transformers.

    python -m tests.benchmarks generation [--shapes 24M,125M,1.1B] [--kinds F32,Q8_0,Q4_0]
        [--threads 1,2] [--seconds 10] [--prompt 256] [--json]

Weights are random, of Llama's shape: a folder of Hugging Face for F32, else a GGUF file, which
transformers does not run. A step adds a token to a cache of `--prompt` tokens; the best tokens are
compared first. `floor` reads as many bytes as a step reads of weights. Memory is of a process that
loads the model after a small one: anonymous bytes after loading, and the most of them until tokens
were generated, over the bytes of the file. IRONWORKS_MEMORY bounds it as it does elsewhere.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

import explorer
from explorer.frontends.decoders.families import FAMILIES
from explorer.frontends.decoders.family_config import config_of
from tests.benchmarks.racer import Racer, racers, turns_of
from tests.benchmarks.rows import Row, parser_of, report, row_of, say

SHAPES = {  # width, layers, heads, heads of keys and values, inner width
    "2M": (64, 2, 4, 4, 192),
    "18M": (256, 2, 4, 2, 1024),
    "24M": (288, 6, 6, 6, 768),
    "125M": (768, 10, 12, 12, 2048),
    "1.1B": (2048, 22, 32, 4, 5632),
}
WORDS = 32000
F32 = "F32"
MEMORY = """
import json, sys
from threading import Thread
from time import sleep
import explorer
from explorer import cache
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024
most = 0
def watch():
    global most
    while True:
        most = max(most, anonymous())
        sleep(0.002)
def compiled(path):
    model = explorer.load(path)
    return explorer.compile(model, donate=model.caches)
other = compiled(sys.argv[2])  # so that what is imported is not counted; it stays in memory
explorer.generate(other, [[1] * 200], 2)
cache.finish()
before = anonymous()
model = explorer.load(sys.argv[1])
loaded = anonymous()
Thread(target=watch, daemon=True).start()
c = explorer.compile(model, donate=model.caches)
explorer.generate(c, [[1] * 200], 8)
cache.finish()  # it writes what passes derived
print(json.dumps([n - before for n in (loaded, max(most, anonymous()), anonymous())]))
"""
Run = Callable[[], Any]


def write_folder(folder: Path, shape: str, seed: int = 0) -> int:
    """Write a model of random weights; return the bytes of the weights that a step reads."""
    width, layers, heads, groups, inner = SHAPES[shape]
    values = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": WORDS,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "intermediate_size": inner,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": False,
        "dtype": "float32",
    }
    rng, names, tensors = np.random.default_rng(seed), FAMILIES["llama"].names, {}
    for name, size in config_of(FAMILIES["llama"], values, "config.json").weights.items():
        layer, _, base = name.partition(".")
        key = names[base] if layer.isdecimal() else names[name]
        array = rng.standard_normal(size, np.float32) * np.float32(size[-1] ** -0.5)
        tensors[key.format(n=layer)] = array if len(size) == 2 else np.ones(size, np.float32)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values))
    return sum(t.nbytes for n, t in tensors.items() if "embed" not in n)


def write_gguf(path: Path, shape: str, kind: str, seed: int = 0) -> int:
    """Write a model of random weights, one tensor at a time; return the bytes that a step reads."""
    width, layers, heads, groups, inner = SHAPES[shape]
    writer, quant = gguf.GGUFWriter(path, "llama"), gguf.GGMLQuantizationType[kind]
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(1e-5)
    narrow = width // heads * groups
    sizes: dict[str, tuple[int, ...]] = {"token_embd.weight": (WORDS, width)}
    for n in range(layers):
        layer: dict[str, tuple[int, ...]] = {"attn_norm": (width,), "attn_q": (width, width)}
        layer |= {"attn_k": (narrow, width), "attn_v": (narrow, width)}
        layer |= {"attn_output": (width, width), "ffn_norm": (width,)}
        layer |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        sizes |= {f"blk.{n}.{name}.weight": size for name, size in layer.items()}
    sizes |= {"output_norm.weight": (width,), "output.weight": (WORDS, width)}
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
        else:
            writer.write_tensor_data(random_blocks(rng, size, quant))
    writer.close()
    return sum(count for name, count in counts.items() if "embd" not in name)


def random_blocks(rng: Any, size: tuple[int, ...], quant: Any) -> np.ndarray:
    """Return random codes as a tensor has them, with one scale for all of its blocks."""
    data = rng.integers(0, 256, gguf.quant_shape_to_byte_shape(size, quant), np.uint8)
    blocks = data.reshape(-1, gguf.GGML_QUANT_SIZES[quant][1])
    spread = {"Q4_0": 4.6, "Q8_0": 74.0}[quant.name]  # deviation of uniform codes
    blocks[:, :2] = np.float16(size[-1] ** -0.5 / spread).reshape(1).view(np.uint8)
    return data


def words_of(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(3, WORDS, (1, count))


def ours(path: Path, threads: int, prompt: int, prefill: bool) -> Run:
    """Return a step, or a prefill, which returns the best word."""
    model: Any = explorer.load(path)
    c = explorer.compile(model, donate=model.caches)
    c = c.with_options(rammer=replace(c.options.rammer, threads=threads))
    shape = (1, model.config.groups, -(-(prompt + 1) // 64) * 64, model.config.each)
    state = {n: np.zeros(shape, np.float32) for n in model.caches}
    first = {"ids": words_of(prompt), "at": np.array([0])}
    best = c.run({**first, **state})["scores"].argmax(1)[:, None]
    inputs = first if prefill else {"ids": best, "at": np.array([prompt])}
    sizes = {"batch": 1, "n": inputs["ids"].shape[1], "room": shape[2]}
    run = c.planned_for(sizes).run
    return lambda: int(run({**inputs, **state})["scores"].argmax())


def theirs(folder: Path, threads: int, prompt: int, prefill: bool) -> Run:
    """Return the same of transformers, with its cache cut back after each run."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids, full = torch.tensor(words_of(prompt)), transformers.DynamicCache()

    @torch.inference_mode()
    def step(ids: Any, cache: Any) -> int:
        scores = model(ids, past_key_values=cache, logits_to_keep=1).logits
        return int(scores[0, -1].argmax())

    if prefill:
        return lambda: step(ids, transformers.DynamicCache())
    best = torch.tensor([[step(ids, full)]])

    def next_word() -> int:
        word = step(best, full)
        full.crop(-1)
        return word

    return next_word


def reading(count: int, threads: int) -> Run:
    """Return a function that reads so many bytes: dot products of each thread's part."""
    parts = np.array_split(np.ones(count // 4, np.float32), threads)
    pool = ThreadPoolExecutor(threads)
    return lambda: sum(pool.map(lambda part: part @ part, parts)) and 0


def write(path: Path, shape: str, kind: str, seed: int = 0) -> int:
    """Write a model; return the bytes of the weights that a step reads."""
    if kind != F32:
        return write_gguf(path, shape, kind, seed)
    path.mkdir()
    return write_folder(path, shape, seed)


def memory_of(path: Path, other: Path) -> tuple[int, int, int]:
    """Return the anonymous bytes after loading, the most of them, and those after generating.

    The process ran another model before.
    """
    command = [sys.executable, "-c", MEMORY, str(path), str(other)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded, most, generated = json.loads(done.stdout)
    return loaded, most, generated


def rows(flags: argparse.Namespace) -> Iterator[Row]:
    for shape, kind in product(flags.shapes.split(","), flags.kinds.split(",")):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "model" if kind == F32 else "model.gguf")
            count = write(path, shape, kind)
            weights = path / "model.safetensors" if kind == F32 else path
            size = weights.stat().st_size
            small = path.with_name(f"small-{path.name}")
            write(small, "2M", kind)
            loaded, most, _ = memory_of(path, small)
            memory = {"file_bytes": size, "load_over_file": loaded / size}
            memory["peak_over_file"] = most / size
            for threads, prefill in product(flags.threads, (False, True)):
                yield row(path, f"{shape} {kind}", threads, prefill, count, memory, flags)


def row(
    path: Path,
    name: str,
    threads: int,
    prefill: bool,
    count: int,
    memory: dict[str, float],
    flags: argparse.Namespace,
) -> Row:
    """Compare the tokens, then time a step or a prefill."""
    both = {"ours": ours, "transformers": theirs} if path.is_dir() else {"ours": ours}
    makes = {n: partial(f, path, threads, flags.prompt, prefill) for n, f in both.items()}
    if not prefill:
        makes["floor"] = partial(reading, count, threads)
    with ExitStack() as stack:
        runners: dict[str, Racer] = racers(stack, makes, threads)
        words = {n: r.values(1)[0] for n, r in runners.items() if n != "floor"}
        assert len(set(words.values())) == 1, words
        timed = turns_of(runners, flags.seconds)
    what = f"prefill of {flags.prompt}" if prefill else "step"
    peers = {n: timed[n] for n in both if n != "ours"}
    done = row_of(f"{name} {what}, {threads} threads", {"ours": timed["ours"]}, peers)
    each = flags.prompt if prefill else 1
    details = {"tokens_per_s": each / done.variants["ours"].median, **memory}
    if not prefill:
        floor = row_of("floor", {"floor": timed["floor"]}).variants["floor"].median
        details |= {
            "floor_gb_per_s": count / floor / 1e9,
            "of_floor": floor / done.variants["ours"].median,
        }
    return replace(done, details=details)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare words, then print a row for each shape, number of threads, step and prefill."""
    parser = parser_of(__doc__, threads="1,2", seconds=10.0)
    parser.add_argument("--shapes", default="24M,125M")
    parser.add_argument("--kinds", default=F32)
    parser.add_argument("--prompt", type=int, default=256)
    flags = parser.parse_args(arguments)
    say("words are compared before each row is timed")
    columns = ("tokens_per_s", "of_floor", "floor_gb_per_s", "load_over_file", "peak_over_file")
    report(rows(flags), flags.json, columns)


if __name__ == "__main__":
    main()
