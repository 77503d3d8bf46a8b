"""Steps of training, in turns with PyTorch and JAX where they are installed.

    python -m tests.benchmarks training_step [--models mlp,cnn,resnet18,bert,gpt2,lstm]
        [--threads 1,2] [--peers eager,compile,jax] [--seconds 5] [--json]

A step is forward, backward and Adam's update, for one batch. Parameters, moments and counters are
donated: they stay where they are. Each peer runs on as many threads, in a process of its own:
PyTorch eagerly and through `torch.compile` with its fused Adam, and one `jax.jit` of the whole
step with Adam in its own words, donated too. The losses of the first steps are compared before,
so that nobody compiles in the race. The seconds are for each peer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import explorer
from explorer.compiler.compilation import Compilation
from explorer.frontends.python.tracing.structure import flatten
from explorer.ir.types import Tensor, dtype_of
from explorer.rammer import Options as RammerOptions
from explorer.training import Adam, first_state, train_step
from tests.benchmarks.racer import racers, turns_of
from tests.benchmarks.rows import Row, parser_of, report, row_of
from tests.benchmarks.training_models import recipes

RATE, STEPS = 1e-3, 20
PEERS = ("eager", "compile", "jax")
SEEN = {("lstm", "compile"): "compile-steps"}  # torch.compile gives the layer's scratch no tensor


def declared(tree: Any) -> Any:
    """The types of nested arrays."""
    if isinstance(tree, dict):
        return {k: declared(v) for k, v in tree.items()}
    return Tensor(np.shape(tree), dtype_of(np.asarray(tree)))


class Ours:
    """A step compiled, and the arrays that it hands on."""

    def __init__(self, name: str, threads: int) -> None:
        loss, params, batch = recipes.made(name)
        optimizer = Adam(RATE)
        state = first_state(optimizer, params)
        step = train_step(loss, optimizer)

        def whole(params: Any, state: Any, numbers: Any, x: Any, y: Any) -> Any:
            return step(params, state, numbers, x, y)

        given = [declared(part) for part in (params, state, optimizer.numbers, *batch)]
        options = explorer.Options(rammer=RammerOptions(threads=threads))
        self.state = [np.array(a) for a in flatten((params, state))[0]]
        model = explorer.trace(whole)(*given)
        kept = list(model.inputs)[: len(self.state)]
        self.compiled: Compilation = explorer.compile(model, options=options, donate=kept)
        self.rest = [*optimizer.numbers.values(), *batch]

    def __call__(self) -> float:
        *state, loss = self.compiled.run(*self.state, *self.rest).values()
        self.state = state
        return float(loss)


def made(runtime: str, name: str, threads: int) -> Callable[[], float]:
    """One step of a model."""
    if runtime == "ours":
        return Ours(name, threads)
    _, params, batch = recipes.made(name)
    if runtime == "jax":
        from tests.benchmarks.training_models import in_jax

        return in_jax.step_of(name, params, batch, RATE)
    import torch

    from tests.benchmarks.training_models import in_torch

    torch.set_num_threads(threads)
    return in_torch.step_of(name, params, batch, RATE, SEEN.get((name, runtime), runtime))


def row(name: str, threads: int, peers: Sequence[str], seconds: float) -> Row:
    """Compare the first losses, then time ours and the peers that run."""
    apart, skipped, ready = {}, {}, {}
    with ExitStack() as stack:
        ours = racers(stack, {"ours": partial(made, "ours", name, threads)}, threads)
        losses = ours["ours"].values(STEPS)
        for peer in peers:
            other = racers(stack, {peer: partial(made, peer, name, threads)}, threads)
            try:
                theirs = other[peer].values(STEPS)
            except (EOFError, ConnectionError):  # its process ended, and has said why
                skipped[peer] = "it does not run"
                continue
            apart[peer] = max(abs(a - b) for a, b in zip(losses, theirs, strict=True)) / theirs[0]
            ready |= other
        series = turns_of(ours | ready, seconds * max(1, len(ready)))
    variants, others = ({n: series[n] for n in part} for part in (ours, ready))
    details = {"losses_apart": apart}
    case = f"{name}, {threads} threads"
    return row_of(case, variants, others, skipped=skipped, details=details)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model and number of threads."""
    parser = parser_of(__doc__, threads="1,2", seconds=5.0)
    parser.add_argument("--models", default=",".join(recipes.MODELS))
    parser.add_argument("--peers", default=",".join(PEERS))
    flags = parser.parse_args(arguments)
    peers = [p for p in flags.peers.split(",") if p]
    cases = product(flags.models.split(","), flags.threads)
    rows = (row(*case, peers, flags.seconds) for case in cases)
    report(rows, flags.json, ("losses_apart",))


if __name__ == "__main__":
    main()
