"""A language model of a folder: a decode step and a prefill, in turns with transformers.

    python -m tests.benchmarks generation [--shapes 24M,125M] [--threads 1,2] [--seconds 10]
        [--prompt 256] [--json]

Weights are random, of Llama's shape. A step adds a word to a cache of `--prompt` words; the best
words are compared first. `floor` reads as many bytes as a step reads of weights. Memory is of a
process that loads the model after a small one.
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
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

import explorer
from explorer.frontends.decoders.families import FAMILIES
from explorer.frontends.decoders.family_config import config_of
from tests.benchmarks.racer import Racer, racers, turns_of
from tests.benchmarks.rows import Row, parser_of, report, row_of, say

SHAPES = {  # width, layers, heads, inner width
    "2M": (64, 2, 4, 192),
    "24M": (288, 6, 6, 768),
    "125M": (768, 10, 12, 2048),
}
WORDS = 32000
LOADED = """
import sys
import explorer, explorer.frontends.decoders.language_model
def memory(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024
other = explorer.load(sys.argv[2])  # so that what loading imports is not counted
before = memory("RssAnon")
model = explorer.load(sys.argv[1])
print(memory("RssAnon") - before)
"""
Run = Callable[[], Any]


def write_folder(folder: Path, shape: str) -> int:
    """Write a model of random weights; return the bytes of the weights that a step reads."""
    width, layers, heads, inner = SHAPES[shape]
    values = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": WORDS,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "intermediate_size": inner,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": False,
        "dtype": "float32",
    }
    rng, names, tensors = np.random.default_rng(0), FAMILIES["llama"].names, {}
    for name, size in config_of(FAMILIES["llama"], values, "config.json").weights.items():
        layer, _, base = name.partition(".")
        key = names[base] if layer.isdecimal() else names[name]
        array = rng.standard_normal(size, np.float32) * np.float32(size[-1] ** -0.5)
        tensors[key.format(n=layer)] = array if len(size) == 2 else np.ones(size, np.float32)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values))
    return sum(t.nbytes for n, t in tensors.items() if "embed" not in n)


def words_of(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(3, WORDS, (1, count))


def ours(folder: Path, threads: int, prompt: int, prefill: bool) -> Run:
    """Return a step, or a prefill, which returns the best word."""
    model: Any = explorer.load(folder)
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


def loaded_bytes(folder: Path) -> int:
    """Return the anonymous resident bytes that loading takes; those of the file are not."""
    with tempfile.TemporaryDirectory() as small:
        write_folder(Path(small), "2M")
        command = [sys.executable, "-c", LOADED, str(folder), small]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def rows(flags: argparse.Namespace) -> Iterator[Row]:
    for shape in flags.shapes.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            count = write_folder(folder, shape)
            size = (folder / "model.safetensors").stat().st_size
            anonymous = loaded_bytes(folder)
            memory = {"file_bytes": size, "load_over_file": anonymous / size}
            for threads, prefill in product(flags.threads, (False, True)):
                yield row(folder, shape, threads, prefill, count, memory, flags)


def row(
    folder: Path,
    shape: str,
    threads: int,
    prefill: bool,
    count: int,
    memory: dict[str, float],
    flags: argparse.Namespace,
) -> Row:
    """Compare the words, then time a step or a prefill."""
    makes = {
        n: partial(f, folder, threads, flags.prompt, prefill)
        for n, f in (("ours", ours), ("transformers", theirs))
    }
    if not prefill:
        makes["floor"] = partial(reading, count, threads)
    with ExitStack() as stack:
        runners: dict[str, Racer] = racers(stack, makes, threads)
        words = {n: r.values(1)[0] for n, r in runners.items() if n != "floor"}
        assert len(set(words.values())) == 1, words
        timed = turns_of(runners, flags.seconds)
    variants = {"ours": timed["ours"]}
    what = f"prefill of {flags.prompt}" if prefill else "step"
    done = row_of(
        f"{shape} {what}, {threads} threads", variants, {"transformers": timed["transformers"]}
    )
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
    parser.add_argument("--prompt", type=int, default=256)
    flags = parser.parse_args(arguments)
    say("words are compared before each row is timed")
    columns = ("tokens_per_s", "of_floor", "floor_gb_per_s", "load_over_file")
    report(rows(flags), flags.json, columns)


if __name__ == "__main__":
    main()
