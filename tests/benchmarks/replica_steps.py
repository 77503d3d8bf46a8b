"""Steps of two replicas: sums under the backward pass against the ordinary form, in turns.

    python -m tests.benchmarks.replica_steps [--layers 8] [--width 512] [--rows 128] [--rounds 5]
        [--gb-per-s 0,1] [--page replicas.html]
    mpiexec -n 2 python -m tests.benchmarks.replica_steps --mpi

On threads, or with `--mpi` on processes; each replica has a core. A network of so many GB/s is a
sleep before each sum, which leaves the core free as a network does; 0 is none, and the sums
themselves are the cores' work in any case. Numbers are medians of all rounds' steps but the first
of each; `--page` keeps the timelines of the last round.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from time import sleep
from typing import Any

import numpy as np

import explorer
import explorer.np as enp
from explorer.rammer import Options as RammerOptions
from explorer.training import Adam, Mpi, Timeline, on_threads
from widgets.training import replicas
from widgets.training.replica_timeline import ReplicaRun, data

STEPS = 12
FORMS = {"sync-free": True, "ordinary": False}


@dataclass(frozen=True, slots=True)
class Network:
    """Ranks whose arrays take a while to come."""

    own: Any
    gb_per_s: float

    @property
    def rank(self) -> int:
        return int(self.own.rank)

    @property
    def size(self) -> int:
        return int(self.own.size)

    @property
    def threaded(self) -> bool:
        return bool(self.own.threaded)

    def total(self, part: np.ndarray) -> None:
        sleep(part.nbytes / self.gb_per_s / 1e9)
        self.own.total(part)

    def leave(self) -> None:
        self.own.leave()


def loss(p: Any, x: Any) -> Any:
    for w in p.values():
        x = enp.tanh(x @ w)
    return (x * x).mean()


def ran(ranks: Sequence[Any], asked: argparse.Namespace, sync_free: bool) -> list[Timeline]:
    """The stamps of a run of these replicas."""
    draw, width = np.random.default_rng(0), asked.width
    params = {
        f"w{n}": (draw.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32)
        for n in range(asked.layers)
    }
    x = draw.standard_normal((asked.rows * ranks[0].size, width)).astype(np.float32)
    options = explorer.Options(rammer=RammerOptions(threads=1))

    def one(rank: Any) -> Timeline:
        given: dict[str, Any] = {"ranks": rank, "options": options, "sync_free": sync_free}
        return explorer.fit(loss, params, [(x,)] * STEPS, Adam(1e-3), **given).timeline

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(one, ranks))


def told(rows: Sequence[ReplicaRun]) -> str:
    """The medians of several rounds."""
    step, sums, hidden, read = (
        median(getattr(r, name) for r in rows)
        for name in ("step_ms", "sums_ms", "hidden_ms", "read_ms")
    )
    return (
        f"step {step:.2f} ms, all-reduce and its waits {sums:.2f} ms of which {hidden:.2f} lie "
        f"under the passes, host reads {read:.2f} ms"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each network and form."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--layers", type=int, default=8)
    given.add_argument("--width", type=int, default=512)
    given.add_argument("--rows", type=int, default=128)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--gb-per-s", default="0,1")
    given.add_argument("--mpi", action="store_true")
    given.add_argument("--page", default="")
    asked = given.parse_args(arguments)
    for speed in map(float, asked.gb_per_s.split(",")):
        rows: dict[str, list[ReplicaRun]] = {form: [] for form in FORMS}
        last: dict[str, list[Timeline]] = {}
        first = True
        for _ in range(asked.rounds):
            for form, sync_free in FORMS.items():
                own: list[Any] = [Mpi()] if asked.mpi else [*on_threads(2)]
                first = own[0].rank == 0
                found = ran([Network(r, speed) if speed else r for r in own], asked, sync_free)
                last[form] = of_all(found) if asked.mpi else found
                rows[form] += data(last[form])
        if not first:  # one process speaks
            continue
        network = f"a network of {speed:g} GB/s" if speed else "no network"
        for form, each in rows.items():
            print(f"{network}, {form}: {told(each)}", flush=True)
        ratios = [b.step_ms / a.step_ms for a, b in zip(*rows.values(), strict=True)]
        each_one = ", ".join(f"{r:.2f}" for r in sorted(ratios))
        print(f"{network}: ordinary over sync-free {median(ratios):.2f} ({each_one})", flush=True)
        if asked.page:
            replicas(last).write_html(asked.page)


def of_all(own: list[Timeline]) -> list[Timeline]:
    """The stamps of all processes, in each of them."""
    from mpi4py import MPI

    return [t for found in MPI.COMM_WORLD.allgather(own) for t in found]


if __name__ == "__main__":
    main()
