"""Peak memory of training steps: kept, computed again, PyTorch's and JAX's.

    python -m tests.benchmarks step_memory [--models mlp,cnn,resnet18,lstm,gpt,bert] [--threads 2]
        [--share 0] [--seconds 3] [--budget 0] [--ways kept,again,PyTorch,JAX]

A step is forward, backward and Adam's update; parameters, moments and data are there before. What
it takes beside them is planned (the arena) and measured: the greatest resident set of a process of
its own over the one before its first step, where allocations of 64 KiB and more are pages of their
own. PyTorch's process has taken a step of a batch of 1 before, JAX's has compiled its step. Times
are medians, in turns. With a `--budget` of megabytes: the largest batch that was measured to take
no more, and the smallest that takes more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.benchmarks.largest_batch import largest_batch
from tests.benchmarks.racer import racers, turns_of
from tests.benchmarks.rows import line_of, row_of
from tests.benchmarks.step_memory_models import BATCHES, MODELS, Arrays, Loss

Step = Callable[[], float]
WAYS = ("kept", "again", "PyTorch", "JAX")
STEPS = 3
OWN_PAGES = {"MALLOC_MMAP_THRESHOLD_": "65536"}


def drawn(name: str, batch: int) -> tuple[Loss, Arrays, tuple[np.ndarray, ...]]:
    """A model with its parameters and data, of 32 bits."""
    loss, params, data = MODELS[name](np.random.default_rng(0), batch)
    params = {n: a.astype(np.float32) for n, a in params.items()}
    return loss, params, tuple(a.astype(np.float32) if a.dtype.kind == "f" else a for a in data)


def ours(name: str, batch: int, threads: int, share: float) -> tuple[Step, int]:
    """A step compiled, and the bytes of its arena."""
    import explorer
    import explorer.np as enp
    from explorer.frontends.python.tracing.structure import flatten
    from explorer.rammer import Options as RammerOptions
    from explorer.training import Adam, first_state, train_step
    from explorer.transforms.autodiff.options import Options as Again
    from tests.benchmarks.step_memory_models import Ours
    from tests.benchmarks.training_step import declared

    loss, params, data = drawn(name, batch)
    optimizer = Adam(1e-3)
    state = first_state(optimizer, params)
    step = train_step(partial(loss, Ours(enp)), optimizer)

    def whole(params, state, numbers, x, y):  # type: ignore[no-untyped-def]
        return step(params, state, numbers, x, y)

    model = explorer.trace(whole)(
        *(declared(part) for part in (params, state, optimizer.numbers, *data))
    )
    held = [np.array(a) for a in flatten((params, state))[0]]
    options = explorer.Options(
        rammer=RammerOptions(threads=threads), rematerialisation=Again(share=share)
    )
    kept = list(model.inputs)[: len(held)]
    compiled = explorer.compile(model, options=options, donate=kept)
    rest = [*optimizer.numbers.values(), *data]

    def run() -> float:
        *after, value = compiled.run(*held, *rest).values()
        held[:] = after
        return float(value)

    return run, compiled.memory().planned_bytes


def theirs(name: str, batch: int, threads: int) -> Step:
    """The same in PyTorch, after a step of a batch of 1."""
    import torch

    from tests.benchmarks.step_memory_models import Torch

    torch.set_num_threads(threads)
    _, params, _ = drawn(name, batch)
    mine = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in params.items()}
    optimizer = torch.optim.Adam(mine.values(), lr=1e-3, fused=True)

    def stepping(batch: int) -> Step:
        loss, _, arrays = drawn(name, batch)
        data = [torch.tensor(a) for a in arrays]

        def run() -> float:
            optimizer.zero_grad(set_to_none=True)
            value = loss(Torch(torch), mine, *data)
            value.backward()
            optimizer.step()
            return float(value.detach())

        return run

    stepping(1)()
    with torch.no_grad():
        for parameter, first in zip(mine.values(), params.values(), strict=True):
            parameter.copy_(torch.tensor(first))
    optimizer.state.clear()
    optimizer.zero_grad(set_to_none=True)
    return stepping(batch)


def by_jax(name: str, batch: int, threads: int) -> tuple[Step, int]:
    """The same in JAX, compiled with its arguments donated, and the bytes that XLA plans."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=" + ("true" if threads > 1 else "false")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    from tests.benchmarks.step_memory_models import Jax

    loss, params, data = drawn(name, batch)
    own = Jax(jax)

    def step(params, means, squares, count, x, y):  # type: ignore[no-untyped-def]
        value, grads = jax.value_and_grad(lambda p: loss(own, p, x, y))(params)
        count = count + 1
        means = {n: 0.9 * m + 0.1 * grads[n] for n, m in means.items()}
        squares = {n: 0.999 * v + 0.001 * grads[n] ** 2 for n, v in squares.items()}
        one, two = 1 - 0.9**count, 1 - 0.999**count
        moved = {
            n: p - 1e-3 * (means[n] / one) / (jax.numpy.sqrt(squares[n] / two) + 1e-8)
            for n, p in params.items()
        }
        return moved, means, squares, count, value

    zeros = [{n: jax.numpy.zeros_like(a) for n, a in params.items()} for _ in range(2)]
    held = [{n: jax.numpy.array(a) for n, a in params.items()}, *zeros, jax.numpy.float32(0)]
    arrays = [jax.numpy.array(a) for a in data]
    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3)).lower(*held, *arrays).compile()

    def run() -> float:
        *held[:], value = compiled(*held, *arrays)
        return float(value)

    return run, compiled.memory_analysis().temp_size_in_bytes


def made(way: str, name: str, batch: int, threads: int, share: float) -> tuple[Step, int]:
    """A step of a model, and the bytes that are planned for it."""
    if way == "PyTorch":
        return theirs(name, batch, threads), 0
    if way == "JAX":
        return by_jax(name, batch, threads)
    return ours(name, batch, threads, share if way == "again" else 1.0)


def step_alone(way: str, name: str, batch: int, threads: int, share: float) -> Step:
    """The step of `made`."""
    return made(way, name, batch, threads, share)[0]


def resident(which: str) -> int:
    """Bytes of this process now (VmRSS), or the most since it was reset (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(which))


def told(way: str, name: str, batch: int, threads: int, share: float) -> None:
    """Print planned and measured bytes, and the losses of the first steps."""
    step, planned = made(way, name, batch, threads, share)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    losses = [step() for _ in range(STEPS)]
    print(planned, resident("VmHWM") - before, *losses)


def bytes_of(
    way: str, name: str, batch: int, threads: int, share: float
) -> tuple[int, int, list[float]]:
    """The same of a process of its own."""
    alone = [sys.executable, "-m", "tests.benchmarks.step_memory", "--alone", way, name]
    more = [str(batch), str(threads), str(share)]
    found = subprocess.run(
        [*alone, *more], env=os.environ | OWN_PAGES, check=True, capture_output=True, text=True
    )
    planned, measured, *losses = found.stdout.split()
    return int(planned), int(measured), [float(text) for text in losses]


def memory(name: str, ways: Sequence[str], threads: int, share: float) -> None:
    """Print a row for each way, and how it compares with PyTorch's."""
    rows = {
        way: bytes_of(way, name, BATCHES[name], threads, share)
        for way in dict.fromkeys((*ways, "PyTorch"))
    }
    first = rows["PyTorch"][2]
    for way, (planned, measured, losses) in rows.items():
        apart = max(abs(a - b) / abs(b) for a, b in zip(losses, first, strict=True))
        share_of = f"{measured / rows['PyTorch'][1]:.2f} of PyTorch's"
        arena = f"{planned / 1e6:.1f} MB planned, " if planned else ""
        print(
            f"{name}, batch {BATCHES[name]}, {way}: {arena}{measured / 1e6:.1f} MB measured, "
            f"{share_of}; losses apart {apart:.1e}",
            flush=True,
        )


def times(name: str, threads: int, share: float, seconds: float) -> None:
    """Print how long steps take, two ways at a time."""
    for one, other in pairwise(("again", "kept", "PyTorch")):
        with ExitStack() as stack:
            makes = {
                way: partial(step_alone, way, name, BATCHES[name], threads, share)
                for way in (one, other)
            }
            series = turns_of(racers(stack, makes, threads), seconds)
        print(line_of(row_of(name, series, base=one)), flush=True)


def largest(name: str, ways: Sequence[str], threads: int, share: float, budget: int) -> None:
    """Print the largest batch that fits, for each way."""
    for way in ways:
        found, more = largest_batch(
            lambda batch, way=way: bytes_of(way, name, batch, threads, share)[1],
            budget,
            BATCHES[name],
        )
        told = f"batch {found[0]} takes {found[1] / 1e6:.1f} MB" if found else "no batch fits"
        over = f", {more[0]} takes {more[1] / 1e6:.1f}" if more else ""
        print(f"{name}, {budget / 1e6:.0f} MB, {way}: {told}{over}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows of each model."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--models", default=",".join(MODELS))
    asked.add_argument("--threads", type=int, default=2)
    asked.add_argument("--share", type=float, default=0.0)
    asked.add_argument("--seconds", type=float, default=3.0)
    asked.add_argument("--budget", type=float, default=0.0)
    asked.add_argument("--ways", default=",".join(WAYS))
    asked.add_argument("--alone", nargs=5)
    found = asked.parse_args(arguments)
    if found.alone:
        way, name, batch, threads, share = found.alone
        told(way, name, int(batch), int(threads), float(share))
        return
    for name in found.models.split(","):
        if found.budget:
            budget = int(found.budget * 1e6)
            largest(name, found.ways.split(","), found.threads, found.share, budget)
            continue
        memory(name, found.ways.split(","), found.threads, found.share)
        if found.seconds:
            times(name, found.threads, found.share, found.seconds)


if __name__ == "__main__":
    main()
