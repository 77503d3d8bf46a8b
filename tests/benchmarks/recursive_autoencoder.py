"""The zoo's recursive autoencoder over trees of 127 nodes, in turns with NumPy and with the same
recursion followed by Python; then on two threads in turns with one, the calls made by both together
and by both apart: `python -m tests.benchmarks.recursive_autoencoder`. Batch 1.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any

import numpy as np

import explorer
from explorer.frontends import zoo
from explorer.frontends.zoo.control_flow.recursive_autoencoder import FULL
from explorer.grinder import Options as GrinderOptions
from explorer.grinder import on_host
from explorer.rammer import Options as RammerOptions
from explorer.runtime.executable import Executable
from tests.benchmarks.turns import Racer, race

Array = np.ndarray
NAME = "recursive_autoencoder"
NODES = FULL.nodes
BY_NUMPY = FULL.function({w.name: w.drawn(0) for w in FULL.weights})


def balanced(nodes: int, room: int = NODES) -> tuple[Array, Array]:
    """The children of each of an odd number of nodes, -1 for a leaf; node 0 is the root."""
    inner = np.arange(nodes // 2)
    links = np.full((2, room), -1)
    links[:, : len(inner)] = 2 * inner + 1, 2 * inner + 2
    return links[0], links[1]


def random_tree(nodes: int, seed: int, room: int = NODES) -> tuple[Array, Array]:
    """The same for a tree that grows at random leaves."""
    rnd, links, leaves = Random(seed), np.full((2, room), -1), [0]
    for first in range(1, nodes - 1, 2):
        at = leaves.pop(rnd.randrange(len(leaves)))
        links[:, at] = first, first + 1
        leaves += [first, first + 1]
    return links[0], links[1]


TOGETHER_OR_APART = ("serial", "parallel")
TREES = {"balanced": balanced(NODES), "random": random_tree(NODES, 0)}


def made(how: str, tree: str, threads: int) -> Callable[[], Any]:
    """One run of ours ("serial" and "parallel": of its calls), of NumPy, or of ours followed by
    Python.
    """
    left, right = TREES[tree]
    leaf = np.random.default_rng(1).standard_normal((NODES, FULL.hidden)).astype(np.float32)
    feeds = {"left": left, "right": right, "leaf": leaf}
    if how == "NumPy":
        return partial(_only, lambda given: BY_NUMPY(**given), feeds)
    grinder = GrinderOptions(recursion=how if how in TOGETHER_OR_APART else "auto")
    chosen = explorer.Options(rammer=RammerOptions(threads=threads), grinder=grinder)
    compiled = explorer.compile(zoo.load(NAME), options=chosen)
    run = compiled.run
    if how == "followed by Python":
        run = Executable(compiled.program, compiled.codes, compiled.device, on_host).run
    return partial(_only, run, feeds)


def _only(run: Callable[[Any], dict[str, Any]], feeds: dict[str, Any]) -> Any:
    (found,) = run(feeds).values()
    return found


def main() -> None:
    """Print the times of each pair and how they compare."""
    for threads in (1, 2):
        for tree in TREES:
            with ExitStack() as stack:
                racers = {}
                for how in ("ours", "NumPy", "followed by Python"):
                    racers[how] = Racer(partial(made, how, tree, threads), threads)
                    stack.callback(racers[how].close)
                answers = {how: racer.values(1)[0] for how, racer in racers.items()}
                for how in ("NumPy", "followed by Python"):
                    np.testing.assert_allclose(answers["ours"], answers[how], rtol=1e-4, atol=1e-5)
                    told = race(racers["ours"], racers[how], 4)
                    print(f"{tree}, {threads} threads, against {how}: {told}", flush=True)
    for tree in TREES:
        for how in TOGETHER_OR_APART:
            with ExitStack() as stack:
                two, one = (Racer(partial(made, how, tree, n), n) for n in (2, 1))
                stack.callback(two.close)
                stack.callback(one.close)
                print(f"{tree}, {how}, 2 threads against 1: {race(two, one, 4)}", flush=True)


if __name__ == "__main__":
    main()
