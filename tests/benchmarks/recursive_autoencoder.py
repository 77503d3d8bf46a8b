"""The zoo's recursive autoencoder against NumPy, and against the same recursion in Python.

    python -m tests.benchmarks recursive_autoencoder [--seconds 4] [--json]

Trees of 127 nodes, batch 1; then two threads against one, the calls made by both together and by
both apart. The seconds are for each pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any

import numpy as np

import explorer
from explorer.frontends import zoo
from explorer.frontends.zoo.loops import RECURSIVE_AUTOENCODER
from explorer.grinder import Options as GrinderOptions
from explorer.grinder import on_host
from explorer.rammer import Options as RammerOptions
from explorer.runtime.executable import Executable
from tests.benchmarks.racer import racers, turns_of
from tests.benchmarks.rows import Row, parser_of, report, row_of

Array = np.ndarray
NAME = "recursive_autoencoder"
NODES = RECURSIVE_AUTOENCODER.nodes
BY_NUMPY = RECURSIVE_AUTOENCODER.function(
    {w.name: w.drawn(0) for w in RECURSIVE_AUTOENCODER.weights}
)


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


OTHERS = ("NumPy", "followed by Python")
TOGETHER_OR_APART = ("serial", "parallel")
TREES = {"balanced": balanced(NODES), "random": random_tree(NODES, 0)}


def made(how: str, tree: str, threads: int) -> Callable[[], Any]:
    """One run of ours ("serial" and "parallel": of its calls), of NumPy, or of ours followed by
    Python.
    """
    left, right = TREES[tree]
    leaf = (
        np.random.default_rng(1)
        .standard_normal((NODES, RECURSIVE_AUTOENCODER.hidden))
        .astype(np.float32)
    )
    feeds = {"left": left, "right": right, "leaf": leaf}
    if how == OTHERS[0]:
        return partial(_only, lambda given: BY_NUMPY(**given), feeds)
    grinder = GrinderOptions(recursion=how if how in TOGETHER_OR_APART else "auto")
    chosen = explorer.Options(rammer=RammerOptions(threads=threads), grinder=grinder)
    compiled = explorer.compile(zoo.load(NAME), options=chosen)
    run = compiled.run
    if how == OTHERS[1]:
        run = Executable(compiled.program, compiled.codes, compiled.device, on_host).run
    return partial(_only, run, feeds)


def _only(run: Callable[[Any], dict[str, Any]], feeds: dict[str, Any]) -> Any:
    (found,) = run(feeds).values()
    return found


def rows(seconds: float) -> Iterator[Row]:
    """Yield the rows against the others, then those of two threads against one."""
    for threads in (1, 2):
        for tree in TREES:
            with ExitStack() as stack:
                makes = {how: partial(made, how, tree, threads) for how in ("ours", *OTHERS)}
                every = racers(stack, makes, threads)
                answers = {how: racer.values(1)[0] for how, racer in every.items()}
                for how in OTHERS:
                    np.testing.assert_allclose(answers["ours"], answers[how], rtol=1e-4, atol=1e-5)
                series = turns_of(every, len(OTHERS) * seconds)
            peers = {how: series.pop(how) for how in OTHERS}
            yield row_of(f"{tree}, {threads} threads", series, peers)
    for tree in TREES:
        for how in TOGETHER_OR_APART:
            with ExitStack() as stack:
                counts = {}
                for n in (2, 1):
                    counts |= racers(stack, {f"{n} threads": partial(made, how, tree, n)}, n)
                yield row_of(f"{tree}, {how}", turns_of(counts, seconds), base="2 threads")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rows."""
    flags = parser_of(__doc__, seconds=4.0).parse_args(arguments)
    report(rows(flags.seconds), flags.json)


if __name__ == "__main__":
    main()
