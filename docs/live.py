"""The experiment of each chapter: programs that its page runs in the reader's browser.

    python docs/live.py 03_fusion build/live/03_fusion.js

The file is a script, as a page that is opened without a server may load no other data. It calls
`ironworksLive`, which `live.js` defines for all chapters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import explorer
from explorer import np as enp
from explorer import tensor
from widgets.live.data import live_page

ROOT = "ironworks-live"  # the id of the element that a page's programs fill
MOST_BYTES = 2_000_000  # of a chapter's script


@dataclass(frozen=True, slots=True)
class Experiment:
    """A model, what it is compared with, and what a reader should look at."""

    model: Callable[[], Any]
    variants: Sequence[str]
    words: str


def training_step() -> Any:
    """Return a network of twelve layers with its gradients, as chapter 11 traces it."""

    def deep(weights: Any, x: Any) -> Any:
        for w in weights:
            x = enp.tanh(x @ w * 0.125)
        return (x * x).mean()

    widths = [tensor("float32", 64, 64)] * 12
    traced: Any = explorer.trace(explorer.value_and_grad(deep))
    return traced(widths, tensor("float32", 256, 64))


def zoo(name: str) -> Callable[[], Any]:
    """Return what loads a model of the zoo."""
    return partial(explorer.load, f"zoo:{name}")


EXPERIMENTS = {
    "00_tour": Experiment(
        zoo("tiny_mobilenetv2"),
        ("fusion", "tiles", "memory"),
        "A small network, compiled as above. Run it, and then compare it with itself without one "
        "of the compiler's decisions.",
    ),
    "01_graphs": Experiment(
        zoo("tiny_bert"),
        ("sizes",),
        "One program serves every length of a sentence. Compare it with a program whose sizes are "
        "numbers: what do symbols cost at run time?",
    ),
    "02_rewriting": Experiment(
        zoo("small_mobilenetv2"),
        ("rewrites",),
        "The same network with and without the rewrites of this chapter. Both compute the same "
        "answer; only one of them folds its batch norms and copies.",
    ),
    "03_fusion": Experiment(
        zoo("tiny_bert"),
        ("fusion",),
        "Without fusion every operator writes its result to memory. Compare the times, and find "
        "the calls that disappeared in the table.",
    ),
    "04_tiles": Experiment(
        zoo("tiny_vit"),
        ("tiles", "policy"),
        "The tiles that Roller constructs, those that it ranks second, and plain ones: the same "
        "arithmetic, and your machine tells them apart, or it does not.",
    ),
    "05_cost_models": Experiment(
        zoo("tiny_resnet18"),
        ("tiles", "convolution", "winograd"),
        "The pale wall is predicted from assumed figures of a browser; the other one is measured "
        "here. The microseconds may be wrong. Does the model rank the variants as your clock does?",
    ),
    "06_schedules": Experiment(
        zoo("small_looped_lstm"),
        ("schedule", "memory"),
        "A page from a file has one thread, so only the order of bricks differs here. Rammer gains "
        "most where several cores wait for each other.",
    ),
    "07_code_generation": Experiment(
        zoo("tiny_vit"),
        ("relaxed", "gpu"),
        "The kernels of this page are WebAssembly with vectors of 128 bits. Relaxed SIMD has a "
        "fused multiply-add, where the browser and the processor have it. The same kernels are "
        "compute shaders, too: where the browser offers a GPU, they run on it.",
    ),
    "08_measuring": Experiment(
        zoo("tiny_resnet18"),
        ("again", "fusion"),
        "Compare a program with itself: an honest clock says that they are not distinguishable. "
        "The clock of a page has steps of 100 µs, so runs are timed in batches that take turns.",
    ),
    "09_control_flow": Experiment(
        zoo("small_attention_decoding"),
        ("unrolled",),
        "The loop runs inside of the program: the page interprets the same instructions as a GPU's "
        "persistent kernel. Compare one trip a turn with eight.",
    ),
    "10_dynamic_shapes": Experiment(
        zoo("tiny_gpt2"),
        ("sizes", "memory"),
        "Memory was planned for every size at once, and this run binds one. Compare it with a "
        "program that knows only these numbers.",
    ),
    "10b_decode": Experiment(
        zoo("tiny_gpt2"),
        ("fusion", "tiles"),
        "One row of text, so each weight is read for few products. Fusion saves bytes of values, "
        "and tiles save bytes of weights only where there are more rows: which of them matters "
        "here?",
    ),
    "11_training": Experiment(
        training_step,
        ("recompute", "fusion"),
        "A loss with its gradients is one program. Recomputed values need less memory: do they "
        "take more time here?",
    ),
    "12_capstone": Experiment(
        zoo("small_nafnet"),
        ("fusion", "tiles", "policy", "layout", "memory", "rewrites"),
        "Every part can be replaced. These are some replacements; yours can be compared in the "
        "same way, by `ironworks report MODEL --live`.",
    ),
}


def write_experiment(chapter: str, to: Path) -> None:
    """Write the script of a chapter; raises SystemExit if nothing of it runs, or if it is large."""
    experiment = EXPERIMENTS[chapter]
    c = explorer.compile(experiment.model())
    live = live_page(c, names=experiment.variants)
    if live.refusal:
        raise SystemExit(f"{chapter}: {live.refusal}")
    root = f"document.getElementById({json.dumps(ROOT)})"
    call = f"ironworksLive.showLive({root}, {json.dumps(live.base64)}, ironworksLive);\n"
    if len(call) > MOST_BYTES:
        raise SystemExit(f"{chapter}: {len(call):,} bytes, and at most {MOST_BYTES:,} are allowed")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(call, encoding="utf-8")
    left_out = "".join(f"\n  {sentence}" for sentence in live.left_out)
    print(f"{to}: {len(call) / 1e6:.2f} MB, {', '.join(live.variants)}{left_out}")


if __name__ == "__main__":
    write_experiment(sys.argv[1], Path(sys.argv[2]))
